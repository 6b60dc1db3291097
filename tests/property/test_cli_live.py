"""The texts of progress: they fit, they count, and nothing that an item brings can break its line."""

import io
import math
import tracemalloc
from collections import Counter
from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.plan import work_items
from osmosis.pure.presentation import joined, neutralise
from osmosis.pure.redaction import Redactor
from osmosis.pure.report import ItemFinished, Progress
from osmosis.pure.scoreboard import Scoreboard, SlowItem, Standing, seconds_left
from osmosis.pure.tally import after_each
from osmosis.shell.cli.live import ItemLines, display_for
from osmosis.shell.cli.live_text import counts as count_text
from osmosis.shell.cli.live_text import detail_lines, effort, failures, fitting, quality, slowest, times
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from tests.strategies.cli import items, progresses, standings

SECRET = "hunter2-hunter2"


@given(standings, st.integers(0, 200), st.sampled_from([quality, effort, failures, slowest, times]))
def test_a_line_fits_the_width_and_keeps_what_matters_most(
    standing: Standing, width: int, line: Callable[[Standing], tuple[str, ...]]
) -> None:
    """Details are dropped from the end until the text fits; one more would not have fitted."""
    parts = line(standing)
    text = fitting(parts, width)
    assert len(text) <= width
    shown = max((count for count in range(len(parts) + 1) if joined(parts[:count]) == text), default=0)
    assert text == joined(parts[:shown])
    if shown < len(parts):
        assert len(joined(parts[: shown + 1])) > width


@given(standings, st.integers(0, 200), st.integers(0, 6))
def test_the_view_fits_the_terminal(standing: Standing, width: int, height: int) -> None:
    """No line is wider than the terminal, there are no more lines than asked for, and no line can break or steer anything."""
    lines = list(detail_lines(standing, width, height))
    assert len(lines) <= height
    assert all(len(line) <= max(width, 0) and line == neutralise(line) and "\n" not in line for line in lines)


def test_a_wide_terminal_shows_everything() -> None:
    """Pass rate with its interval, failures by type, in flight, queued, waiting, tokens, cost, slowest items, time left."""
    progress = Progress(240, 37, 33, 3, 1, 36, 30, 8, 12345, waiting=3, next_try_s=11.2)
    standing = Standing(
        progress,
        elapsed_s=72.4,
        left_s=397.0,
        low=0.71,
        high=0.914,
        failures=(("timeout", 2), ("agent_error", 1)),
        cost_usd=0.0123,
        slowest=(SlowItem(WorkItem(3, 1), 72_000.0, running=True), SlowItem(WorkItem(9, 0), 42_000.0)),
    )
    assert count_text(progress) == "37/240 15%"
    assert joined(times(standing)) == "0:01:12 \N{MIDDLE DOT} about 6m 37s left"
    assert list(detail_lines(standing, 120, 10)) == [
        "  pass 83% [71%, 91%] · failed 3 · skipped 1",
        "  8 in flight · 195 queued · 3 waiting on rate limit, next try in 12 s · 12,345 tokens · $0.0123",
        "  failures  timeout 2 · agent_error 1",
        "  slowest  row 3 run 1 1m 12s, running · row 9 run 0 42.0s",
    ]


@given(st.lists(items, max_size=30), st.data())
def test_the_scoreboard_counts_the_last_result_of_each_item(finished: list[ItemFinished], data: st.DataObject) -> None:
    """Replacing results one by one ends where counting the last results alone ends, in whatever order those come."""
    board = Scoreboard(finished)
    last = {item.item: item for item in finished}
    again = Scoreboard(data.draw(st.permutations(sorted(last.values(), key=lambda item: item.item))))
    progress = Progress(10**6, 5, 5, 0, 0, 5, 0, 0, 0)
    one, other = (each.standing(progress, elapsed_s=10.0, done_before=1, ages_s={}) for each in (board, again))
    assert one == msgspec.structs.replace(other, slowest=one.slowest)
    assert board.histogram == again.histogram
    assert sum(count for _, count in one.failures) == sum(item.status is Status.FAILED for item in last.values())
    scored = [item for item in last.values() if item.status is not Status.SKIPPED]
    assert sum(row.scored * row.rows for row in board.histogram) == len(scored)
    assert sum(row.passed * row.rows for row in board.histogram) == sum(item.passed for item in last.values())


@given(progresses(), st.just(0.0) | st.floats(1e-9, 1e6), st.integers(0, 10**7))
def test_the_time_left_is_at_this_invocations_pace(progress: Progress, elapsed: float, before: int) -> None:
    """Nothing left is zero, nothing made yet is no guess, and otherwise the pace of this invocation, not of earlier ones.

    Clocks tell no shorter time than a nanosecond.
    """
    before = min(before, progress.done)
    left = seconds_left(progress, elapsed, before)
    if progress.done == progress.total:
        assert left == 0
    elif progress.done - before < 2 or elapsed == 0:
        assert left is None
    else:
        assert left is not None
        assert math.isclose(left * (progress.done - before), elapsed * (progress.total - progress.done))


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


def counted(finished: list[ItemFinished]) -> Progress:
    """The counts of these items, one by one."""
    by_status = Counter(item.status for item in finished)
    succeeded, failed, skipped = (by_status[status] for status in (Status.SUCCESS, Status.FAILED, Status.SKIPPED))
    passed, tokens = sum(item.passed for item in finished), sum(item.tokens or 0 for item in finished)
    return Progress(1000, len(finished), succeeded, failed, skipped, succeeded + failed, passed, 0, tokens)


@given(st.lists(items, max_size=12), st.integers(0, 12))
def test_no_item_is_shown_beside_counts_that_are_ahead_of_it(finished: list[ItemFinished], size: int) -> None:
    """Of a group that became durable together, each item has the counts up to itself, as if it had come alone."""
    group = finished[len(finished) - min(size, len(finished)) :]
    before = finished[: len(finished) - len(group)]
    wanted = [counted([*before, *group[: number + 1]]) for number in range(len(group))]
    assert list(after_each(group, counted(finished))) == wanted


def test_the_lines_of_a_group_count_up() -> None:
    """The case that was seen: two results at once, and the first of them already had the pass rate of both."""
    errors = io.StringIO()
    display = display_for(Output(Mode.RICH, io.StringIO(), errors, Redactor()))
    good, bad = (
        ItemFinished(WorkItem(row, 0), row, "id", status, reward, None, 1000.0, passed=status is Status.SUCCESS)
        for row, status, reward in ((0, Status.SUCCESS, 1.0), (1, Status.FAILED, None))
    )
    display.progress(counted([]))
    display.item(good)
    display.item(bad)
    display.progress(counted([good, bad]))
    first, second = errors.getvalue().splitlines()[1:]
    assert first.endswith("1/1,000 row 0 run 0 success, reward 1.000, 1.0s · pass 100% · failed 0")
    assert second.endswith("2/1,000 row 1 run 0 failed, 1.0s · pass 50% · failed 1")


def test_the_scoreboard_keeps_few_bytes_of_an_item() -> None:
    """Neither its record nor its rollout id: what a replacement takes back, packed, whatever else an item brings along."""
    rows, runs = 20, 500
    board = Scoreboard(rows=rows, runs=runs)
    tracemalloc.start()
    try:
        for number, item in enumerate(work_items(rows, runs)):
            board.add(ItemFinished(item, number, f"{number:032x}", Status.FAILED, None, "timeout", 1.0, False, 10, 0.5))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert board.failures == (("timeout", rows * runs),)
    assert kept < 100 * rows * runs
