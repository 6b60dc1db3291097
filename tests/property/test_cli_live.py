"""The texts of progress: they fit, they count, and nothing that an item brings can break its line."""

import io

from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.redaction import Redactor
from osmosis.pure.report import ItemFinished, Progress
from osmosis.shell.cli.live import ItemLines, display_for, fitting, standing
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from tests.strategies.cli import items, progresses

SECRET = "hunter2-hunter2"


@given(progresses(), st.integers(0, 200))
def test_the_standing_fits_the_width_and_keeps_what_matters_most(progress: Progress, width: int) -> None:
    """Details are dropped from the end until the text fits; one more would not have fitted."""
    parts = standing(progress)
    text = fitting(parts, width)
    assert len(text) <= width
    shown = text.split(" \N{MIDDLE DOT} ") if text else []
    assert shown == list(parts[: len(shown)])
    if len(shown) < len(parts):
        assert len(" \N{MIDDLE DOT} ".join(parts[: len(shown) + 1])) > width


@given(
    st.lists(st.lists(items, min_size=1, max_size=3), max_size=4), st.integers(0, 5), st.sampled_from(["", SECRET, "\x1b[2J\n"])
)
def test_one_line_an_item_however_results_are_grouped(groups: list[list[ItemFinished]], carried: int, hostile: str) -> None:
    """Results that became durable together still get a line each, numbered on, and free of escapes and secrets."""
    errors = io.StringIO()
    output = Output(Mode.RICH, io.StringIO(), errors, Redactor([SECRET]))
    display = display_for(output)
    assert isinstance(display, ItemLines)
    total = carried + sum(map(len, groups))
    done = carried

    def counts() -> Progress:
        return Progress(total, done, done, 0, 0, done, done, 0, 0)

    display.progress(counts())
    for group in groups:
        for finished in group:
            reason = f"{hostile}{finished.error_type or ''}"
            display.item(ItemFinished(finished.item, 0, "id", finished.status, finished.reward, reason, finished.duration_ms))
        done += len(group)
        display.progress(counts())
    display.close()
    first, *lines = errors.getvalue().splitlines()
    assert first.startswith(f"{carried}/{total} pass")
    assert [line.split("/")[0].strip() for line in lines] == [str(number) for number in range(carried + 1, total + 1)]
    assert SECRET not in errors.getvalue()
    assert "\x1b" not in errors.getvalue()
