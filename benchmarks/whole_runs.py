"""Whole runs of both commands, taking turns: start, dispatch, processor time, bytes, memory, and a re-run with nothing to do.

Both run the same rollout against the same stub model, 64 in flight. A run of one item tells what a run costs before and after
its items; what it cost is taken off wherever a figure is per item.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from benchmarks.measuring import Finding, Measured, at_most, ratios, run, told
from benchmarks.run_workspace import Bench, our_bench, public_bench
from benchmarks.stub_model import Marks, StubModel, stub_model

ITEMS = 400
MANY = 2000
FLAT = 20_000


class Turn(msgspec.Struct, frozen=True):
    """One run and what the model saw of it."""

    cost: Measured
    marks: Marks

    @property
    def start(self) -> float:
        """Seconds from the start of the process to its first model call."""
        return self.marks.first - self.cost.started

    @property
    def dispatch(self) -> float:
        """Seconds between the first and the last model call."""
        return self.marks.last - self.marks.first


class Side:
    """One package's turns."""

    def __init__(self, bench: Bench, model: StubModel) -> None:
        self._bench = bench
        self._model = model
        self._number = 0
        self.single: list[Turn] = []
        self.items: list[Turn] = []
        self.again: list[Turn] = []

    def round(self) -> None:
        """A run of one item, a run of many, and the latter once more."""
        self.single.append(self.turn(1))
        self.items.append(self.turn(ITEMS))
        self.again.append(self._run(ITEMS))

    def turn(self, items: int) -> Turn:
        """A new run of that many items."""
        self._number += 1
        return self._run(items)

    def _run(self, items: int) -> Turn:
        bench = self._bench
        words = bench.words(f"run-{self._number}", bench.write_dataset(items))
        cost = run(words, bench.root, bench.environment, bench.root / "output.log")
        if cost.code != 0:
            raise RuntimeError(f"{words[0]} failed with exit code {cost.code}:\n{cost.output[-4000:]}")
        return Turn(cost, self._model.marks())

    def cpu_per_item(self, turn: Turn, items: int) -> float:
        """Milliseconds of the supervisor's processor time for each item beyond those of a run of one."""
        return 1000 * (turn.cost.cpu - self.single[-1].cost.cpu) / items


def measure(rounds: int, *, large: bool) -> list[Finding]:
    """All findings. `large` adds the run of 20,000 items, which takes minutes."""
    with stub_model() as model, tempfile.TemporaryDirectory(prefix="osmosis-bench-") as root:
        ours = Side(our_bench(Path(root, "ours"), model.url), model)
        bench = public_bench(Path(root, "public"), model.url)
        public = None if bench is None else Side(bench, model)
        # The first run of a workspace syncs and compiles; what counts is a warm one.
        for side in (ours, public):
            if side is not None:
                side.turn(1)
        for _ in range(rounds):
            ours.round()
            if public is not None:
                public.round()
        many = [ours.turn(MANY) for _ in range(rounds)]
        return [
            *_of_ours(ours, many),
            *([] if public is None else _beside(ours, public)),
            *(_of_a_large_run(ours) if large else []),
        ]


def _of_ours(ours: Side, many: list[Turn]) -> list[Finding]:
    further = [(turn.cost.tree_cpu - less.cost.tree_cpu) for turn, less in zip(many, ours.items, strict=True)]
    return [
        told("start to first dispatch", [turn.start for turn in ours.single], "s"),
        told(f"whole command, {ITEMS} items", [turn.cost.wall for turn in ours.items], "s"),
        at_most("supervisor CPU an item", [ours.cpu_per_item(turn, ITEMS) for turn in ours.items], 2.0, "ms"),
        at_most("tree CPU a further item", [1000 * spent / (MANY - ITEMS) for spent in further], 4.0, "ms"),
        at_most(f"bytes written, {MANY} items", [turn.cost.written / 1e6 for turn in many], 60.0, "MB"),
    ]


def _beside(ours: Side, public: Side) -> list[Finding]:
    def times(name: str) -> tuple[list[float], list[float]]:
        source = {"start": "single", "dispatch": "items"}[name]
        return [getattr(turn, name) for turn in getattr(ours, source)], [
            getattr(turn, name) for turn in getattr(public, source)
        ]

    mine, theirs = ([turn.cost.wall for turn in side.again] for side in (ours, public))
    processor = (
        [ours.cpu_per_item(turn, ITEMS) for turn in ours.items],
        [public.cpu_per_item(turn, ITEMS) for turn in public.items],
    )
    return [
        at_most("start, of the public package's", ratios(*times("start")), 1 / 8, ""),
        at_most("dispatch, of the public package's", ratios(*times("dispatch")), 1 / 8, ""),
        at_most("re-run with nothing to do, of the public package's", ratios(mine, theirs), 1 / 8, ""),
        told("supervisor CPU an item, of the public package's", ratios(*processor), ""),
    ]


def _of_a_large_run(ours: Side) -> list[Finding]:
    turn = ours.turn(FLAT)
    small = sorted(ours.cpu_per_item(one, ITEMS) for one in ours.items)[len(ours.items) // 2]
    return [
        at_most(f"supervisor CPU an item, {FLAT} items against {ITEMS}", [ours.cpu_per_item(turn, FLAT) / small], 1.15, ""),
        at_most(f"supervisor's peak memory, {FLAT} items", [turn.cost.peak / 1e6], 150.0, "MB"),
    ]
