"""Where a run stands beyond its counts: the pass rate's interval, failures by type, cost, the slowest items, the time left
(issue 9).

A `Scoreboard` folds finished items as they come, carried-over ones first; a retried item replaces its earlier result. Adding
one costs the same however long the run is, and of each item only that is kept, packed, which a replacement has to take back.
What is shown is a `Standing`, an immutable record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from osmosis.pure.estimate import Estimate
from osmosis.pure.intervals import pass_rate_estimate
from osmosis.pure.item_table import ItemTable, packing
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.pass_at_k import RowOutcomes
from osmosis.pure.report import ItemFinished, Progress

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


class _Counted(msgspec.Struct, frozen=True, gc=False):
    """What an item added to the counts. `error` is the name of its failure; `nano_dollars` are whole billionths of a dollar."""

    scored: bool
    passed: bool
    unpriced: bool
    error: str | None
    nano_dollars: int | None


_PACKING = packing(_Counted)


def _counted(finished: ItemFinished) -> _Counted:
    cost = finished.cost_usd
    return _Counted(
        scored=finished.status is not Status.SKIPPED,
        passed=finished.passed,
        unpriced=cost is None and bool(finished.tokens),
        error=(finished.error_type or UNNAMED_ERROR) if finished.status is Status.FAILED else None,
        nano_dollars=None if cost is None else round(cost * _NANO),
    )


class Scoreboard:
    """The fold. Every public value is that of the items added so far.

    Of items outside a plan of `rows` rows with `runs` runs each the same is kept, in more memory.
    """

    def __init__(self, finished: Iterable[ItemFinished] = (), *, rows: int = 0, runs: int = 0) -> None:
        self._items: ItemTable[_Counted] = ItemTable(_PACKING, rows, runs)
        self._rows: dict[int, tuple[int, int]] = {}
        self._histogram: Counter[tuple[int, int]] = Counter()
        self._failures: Counter[str] = Counter()
        self._nano_dollars = 0
        self._priced = 0
        self._unpriced = 0
        self._slowest: list[SlowItem] = []
        for item in finished:
            self.add(item)

    def add(self, finished: ItemFinished) -> None:
        """Count one more item, in place of an earlier result of the same item."""
        item = finished.item
        earlier, counted = self._items.get(item), _counted(finished)
        if earlier is not None:
            self._count(item, earlier, -1)
        self._items[item] = counted
        self._count(item, counted, 1)
        kept = [slow for slow in self._slowest if slow.item != item]
        self._slowest = sorted([*kept, SlowItem(item, finished.duration_ms)], key=_longest_first)[:SLOWEST_KEPT]

    def _count(self, item: WorkItem, counted: _Counted, sign: int) -> None:
        before = self._rows.get(item.row_index, (0, 0))
        after = (before[0] + sign * counted.scored, before[1] + sign * counted.passed)
        self._rows[item.row_index] = after
        self._histogram[before] -= 1
        self._histogram[after] += 1
        if counted.error is not None:
            self._failures[counted.error] += sign
        if counted.nano_dollars is not None:
            # In whole billionths of a dollar, so that taking a result back gives what was there before.
            self._nano_dollars += sign * counted.nano_dollars
            self._priced += sign
        self._unpriced += sign * counted.unpriced

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
        running = [SlowItem(item, age * 1000, running=True) for item, age in ages_s.items()]
        return Standing(
            progress=progress,
            elapsed_s=elapsed_s,
            left_s=seconds_left(progress, elapsed_s, done_before),
            low=estimate.low,
            high=estimate.high,
            failures=self.failures,
            cost_usd=self._nano_dollars / _NANO if self._priced else None,
            unpriced=self._unpriced,
            slowest=tuple(sorted([*self._slowest, *running], key=_longest_first)[:SLOWEST_KEPT]),
        )


def _longest_first(slow: SlowItem) -> tuple[float, WorkItem]:
    return -slow.duration_ms, slow.item


def seconds_left(progress: Progress, elapsed_s: float, done_before: int) -> float | None:
    """The rest of the work at this invocation's pace so far; None while there is too little to go by, 0 at the end."""
    made = progress.done - done_before
    rest = progress.total - progress.done
    if rest <= 0:
        return 0.0
    return None if made < _FIRST_GUESS or elapsed_s <= 0 else elapsed_s / made * rest
