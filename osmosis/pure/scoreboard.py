"""Where a run stands beyond its counts: the pass rate's interval, failures by type, cost, the slowest items, the time left
(issue 9).

A `Scoreboard` folds finished items as they come, carried-over ones first; a retried item replaces its earlier result. Adding
one costs the same however long the run is. What is shown is a `Standing`, an immutable record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from osmosis.pure.estimate import Estimate
from osmosis.pure.intervals import pass_rate_estimate
from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.pure.pass_at_k import RowOutcomes
from osmosis.pure.report import ItemFinished, Progress
from osmosis.pure.tally import is_graded, passed
from osmosis.pure.usage import rollout_usage

SLOWEST_KEPT = 5
UNNAMED_ERROR = "unknown"
_NANO = 1_000_000_000
_FIRST_GUESS = 2
"""Results of this invocation before a guess at the time left is worth showing."""


class SlowItem(msgspec.Struct, frozen=True):
    """An item that takes, or took, long."""

    item: WorkItem
    duration_ms: float
    running: bool = False


class Standing(msgspec.Struct, frozen=True):
    """What a view of a run shows. `elapsed_s` counts from the start of this invocation.

    `low` and `high` bound the pass rate (95 %, rows as units), None where the data gives no interval. `cost_usd` is what was
    counted so far, None when nothing has a price; `unpriced` results used tokens whose price is not known. `left_s` is a
    guess from this invocation's pace.
    """

    progress: Progress
    elapsed_s: float = 0.0
    left_s: float | None = None
    low: float | None = None
    high: float | None = None
    failures: tuple[tuple[str, int], ...] = ()
    cost_usd: float | None = None
    unpriced: int = 0
    slowest: tuple[SlowItem, ...] = ()


def finished_item(result: Result, pass_threshold: float) -> ItemFinished:
    """A durable result as views are told of it."""
    graded = is_graded(result.status, result.reward)
    return ItemFinished(
        item=result.item,
        source_row_index=result.source_row_index,
        rollout_id=result.rollout_id,
        status=result.status,
        reward=result.reward,
        error_type=result.error_type,
        duration_ms=result.duration_ms,
        passed=graded and passed(result.reward, pass_threshold),
        tokens=rollout_usage(result.calls, None).tokens,
        cost_usd=result.cost_usd,
    )


class Scoreboard:
    """The fold. Every public value is that of the items added so far."""

    def __init__(self, finished: Iterable[ItemFinished] = ()) -> None:
        self._items: dict[WorkItem, ItemFinished] = {}
        self._rows: dict[int, tuple[int, int]] = {}
        self._histogram: Counter[tuple[int, int]] = Counter()
        self._failures: Counter[str] = Counter()
        self._nano_dollars = 0
        self._priced = 0
        self._unpriced = 0
        self._slowest: list[ItemFinished] = []
        for item in finished:
            self.add(item)

    def add(self, finished: ItemFinished) -> None:
        """Count one more item, in place of an earlier result of the same item."""
        earlier = self._items.get(finished.item)
        if earlier is not None:
            self._count(earlier, -1)
        self._items[finished.item] = finished
        self._count(finished, 1)
        kept = [item for item in self._slowest if item is not earlier]
        self._slowest = sorted([*kept, finished], key=lambda item: (-item.duration_ms, item.item))[:SLOWEST_KEPT]

    def _count(self, finished: ItemFinished, sign: int) -> None:
        scored = finished.status is not Status.SKIPPED
        before = self._rows.get(finished.item.row_index, (0, 0))
        after = (before[0] + sign * scored, before[1] + sign * finished.passed)
        self._rows[finished.item.row_index] = after
        self._histogram[before] -= 1
        self._histogram[after] += 1
        if finished.status is Status.FAILED:
            self._failures[finished.error_type or UNNAMED_ERROR] += sign
        if finished.cost_usd is not None:
            # In whole billionths of a dollar, so that taking a result back gives what was there before.
            self._nano_dollars += sign * round(finished.cost_usd * _NANO)
            self._priced += sign
        elif finished.tokens:
            self._unpriced += sign

    @property
    def failures(self) -> tuple[tuple[str, int], ...]:
        """Failed items by error type, the most frequent first."""
        present = ((name, count) for name, count in self._failures.items() if count > 0)
        return tuple(sorted(present, key=lambda failure: (-failure[1], failure[0])))

    @property
    def histogram(self) -> tuple[RowOutcomes, ...]:
        """Rows by how many scored runs they have and how many of those passed."""
        counts = self._histogram.items()
        return tuple(sorted(RowOutcomes(scored, passes, rows) for (scored, passes), rows in counts if scored and rows > 0))

    @property
    def pass_rate(self) -> Estimate:
        """The pass rate with its interval, by the rule of `metrics.json` (ruling 32)."""
        return pass_rate_estimate(self.histogram)

    def standing(self, progress: Progress, *, elapsed_s: float, done_before: int, ages_s: dict[WorkItem, float]) -> Standing:
        """What to show now. `done_before` items were done when this invocation began; `ages_s` are the items in flight and
        the seconds since each of them was first seen."""
        estimate = self.pass_rate
        slow = [SlowItem(item.item, item.duration_ms) for item in self._slowest]
        slow += [SlowItem(item, age * 1000, running=True) for item, age in ages_s.items()]
        return Standing(
            progress=progress,
            elapsed_s=elapsed_s,
            left_s=seconds_left(progress, elapsed_s, done_before),
            low=estimate.low,
            high=estimate.high,
            failures=self.failures,
            cost_usd=self._nano_dollars / _NANO if self._priced else None,
            unpriced=self._unpriced,
            slowest=tuple(sorted(slow, key=lambda item: (-item.duration_ms, item.item))[:SLOWEST_KEPT]),
        )


def after_each(finished: Sequence[ItemFinished], counts: Progress) -> tuple[Progress, ...]:
    """The counts as they were when each of `finished`, in order, had just been counted; `counts` are those with all of them.

    Results become durable in groups. What is shown beside one of them must not be ahead of it.
    """
    found: list[Progress] = []
    for item in reversed(finished):
        found.append(counts)
        counts = msgspec.structs.replace(
            counts,
            done=counts.done - 1,
            succeeded=counts.succeeded - (item.status is Status.SUCCESS),
            failed=counts.failed - (item.status is Status.FAILED),
            skipped=counts.skipped - (item.status is Status.SKIPPED),
            scored=counts.scored - (item.status is not Status.SKIPPED),
            passed=counts.passed - item.passed,
            tokens=counts.tokens - (item.tokens or 0),
        )
    return tuple(reversed(found))


def seconds_left(progress: Progress, elapsed_s: float, done_before: int) -> float | None:
    """The rest of the work at this invocation's pace so far; None while there is too little to go by, 0 at the end."""
    made = progress.done - done_before
    rest = progress.total - progress.done
    if rest <= 0:
        return 0.0
    return None if made < _FIRST_GUESS or elapsed_s <= 0 else elapsed_s / made * rest
