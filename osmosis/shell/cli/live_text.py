"""The words of the live view: from a `Standing` to lines that fit a terminal (issue 9). Asks nothing of anybody.

The most important line comes first and the most important part of a line first, so that a small terminal loses the least: parts
are dropped from the end of a line, lines from the end of the view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from osmosis.pure.presentation import clock, decimal, duration, joined, one_line, percent, thousands
from osmosis.pure.report import ItemFinished, Progress
from osmosis.shell.cli.run_result import item_label

if TYPE_CHECKING:
    from osmosis.pure.scoreboard import SlowItem, Standing

_FAILURES_SHOWN = 4
_NAME_LENGTH = 40
"""Characters of an error type that are shown."""
_BARELY_SLOW_MS = 1000.0
"""Items that are done sooner are not worth a line."""


def quality(standing: Standing) -> tuple[str, ...]:
    """How good it is: pass rate with its interval, failed, skipped."""
    progress = standing.progress
    return _shown(
        (_pass_rate(standing), True),
        (f"failed {thousands(progress.failed)}", progress.failed > 0),
        (f"skipped {thousands(progress.skipped)}", progress.skipped > 0),
    )


def effort(standing: Standing) -> tuple[str, ...]:
    """What is going on and what it took: in flight, waiting, tokens, cost."""
    progress = standing.progress
    queued = progress.total - progress.done - progress.in_flight
    return _shown(
        (f"{thousands(progress.in_flight)} in flight", True),
        (f"{thousands(queued)} queued", queued > 0),
        (waiting(progress), progress.waiting > 0),
        (f"{thousands(progress.tokens)} tokens", progress.tokens > 0),
        (cost(standing), standing.cost_usd is not None),
    )


def waiting(progress: Progress) -> str:
    """`3 waiting on rate limit, next try in 12 s`."""
    following = "" if progress.next_try_s is None else f", next try in {math.ceil(progress.next_try_s)} s"
    return f"{thousands(progress.waiting)} waiting on rate limit{following}"


def cost(standing: Standing) -> str:
    """`$0.0123`; `at least` where some results have no price."""
    least = "at least " if standing.unpriced else ""
    return f"{least}${decimal(standing.cost_usd or 0.0, 4)}"


def failures(standing: Standing) -> tuple[str, ...]:
    """`timeout 2`, the most frequent first, and how many further types there are."""
    named = [f"{_name(error)} {thousands(count)}" for error, count in standing.failures[:_FAILURES_SHOWN]]
    more = len(standing.failures) - len(named)
    return (*named, *([f"{thousands(more)} more types"] if more > 0 else []))


def slowest(standing: Standing) -> tuple[str, ...]:
    """`row 3 run 1 1m 12s, running`."""
    return tuple(_slow(item) for item in standing.slowest if item.duration_ms >= _BARELY_SLOW_MS)


def counts(progress: Progress) -> str:
    """`37/240 15%`."""
    return f"{thousands(progress.done)}/{thousands(progress.total)} {percent(progress.done, progress.total, decimals=0)}"


def times(standing: Standing) -> tuple[str, ...]:
    """Time elapsed, and the guess at what is left."""
    left = standing.left_s
    return (clock(standing.elapsed_s), *([f"about {_guess(left)} left"] if left else []))


def _guess(seconds: float) -> str:
    """A guess has no tenths."""
    whole = math.ceil(seconds)
    return f"{whole}s" if whole < 60 else duration(whole * 1000)


def detail_lines(standing: Standing, width: int, height: int) -> Iterator[str]:
    """The lines below the bar, at most `height` of them, each within `width` columns."""
    lines = (
        ("", quality(standing)),
        ("", effort(standing)),
        ("failures  ", failures(standing)),
        ("slowest  ", slowest(standing)),
    )
    shown = (title + text for title, parts in lines if (text := fitting(parts, width - len(title) - 2)))
    for _, line in zip(range(height), shown, strict=False):
        yield f"  {line}"


def fitting(parts: Sequence[str], width: int) -> str:
    """As many leading parts as fit into `width` columns, joined."""
    for count in range(len(parts), 0, -1):
        if len(text := joined(parts[:count])) <= width:
            return text
    return ""


def item_line(finished: ItemFinished, progress: Progress) -> str:
    """` 7/60 row 1 run 3 success, reward 1.000, 0.8s · pass 86% · failed 1`: what happened, then where the run stood with it.

    The error type must be one harmless line already.
    """
    total = thousands(progress.total)
    label = item_label(finished.item.row_index, finished.source_row_index, finished.item.run_index)
    outcome = [
        f"{label} {finished.status}",
        f"reward {decimal(finished.reward)}" if finished.reward is not None else "",
        finished.error_type or "",
        duration(finished.duration_ms),
    ]
    count = f"{thousands(progress.done):>{len(total)}}/{total}"
    rate = f"pass {percent(progress.passed, progress.scored, decimals=0)}"
    return joined([f"{count} {', '.join(filter(None, outcome))}", rate, f"failed {thousands(progress.failed)}"])


def _shown(*parts: tuple[str, bool]) -> tuple[str, ...]:
    return tuple(text for text, wanted in parts if wanted)


def _pass_rate(standing: Standing) -> str:
    progress, low, high = standing.progress, standing.low, standing.high
    rate = f"pass {percent(progress.passed, progress.scored, decimals=0)}"
    if low is None or high is None:
        return rate
    return f"{rate} [{decimal(low * 100, 0)}%, {decimal(high * 100, 0)}%]"


def _name(error: str) -> str:
    harmless = one_line(error)
    return harmless if len(harmless) <= _NAME_LENGTH else f"{harmless[: _NAME_LENGTH - 1]}\N{HORIZONTAL ELLIPSIS}"


def _slow(item: SlowItem) -> str:
    running = ", running" if item.running else ""
    return f"row {item.item.row_index} run {item.item.run_index} {duration(item.duration_ms)}{running}"
