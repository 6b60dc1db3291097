"""Whole runs of both commands, taking turns: start, dispatch, processor time, bytes, memory, and a re-run with nothing to do.

Both run the same rollout against the same stub model, 64 in flight. A run of one item tells what a run costs before and after
its items; what it cost in the same round is taken off wherever a figure is per item. The model counts its calls: a side that
asks less or more often than once an item is not measured but refused.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.measuring import Finding, Measured, Options, at_most, in_turn, ratios, run, scratch, told
from benchmarks.run_workspace import Bench, make_public_environment, our_bench, public_bench
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


class Round(msgspec.Struct, frozen=True):
    """One side's runs of one round: of one item, of many, and the latter once more, with nothing left to do."""

    single: Turn
    items: Turn
    again: Turn

    @property
    def cpu_per_item(self) -> float:
        """Milliseconds of the supervisor's processor time for each item beyond the first."""
        return 1000 * (self.items.cost.cpu - self.single.cost.cpu) / (ITEMS - 1)


class Side:
    """One package's turns."""

    def __init__(self, bench: Bench, model: StubModel) -> None:
        self._bench = bench
        self._model = model
        self._number = 0
        self.rounds: list[Round] = []

    def round(self) -> None:
        """One more round."""
        self.rounds.append(Round(self.turn(1), self.turn(ITEMS), self._run(ITEMS, calls=0)))

    def turn(self, items: int) -> Turn:
        """A new run of that many items. Raises RuntimeError if it fails, or asks the model anything but once an item."""
        self._number += 1
        return self._run(items, calls=items)

    def _run(self, items: int, *, calls: int) -> Turn:
        bench = self._bench
        words = bench.words(f"run-{self._number}", bench.write_dataset(items))
        cost = run(words, bench.root, bench.environment, bench.root / "output.log")
        marks = self._model.marks()
        if cost.code != 0 or marks.calls != calls:
            told_code = f"{words[0]}: exit code {cost.code}, {marks.calls} model calls where {calls} were due"
            raise RuntimeError(f"{told_code}:\n{cost.output[-4000:]}")
        return Turn(cost, marks)


def measure(options: Options) -> list[Finding]:
    """All findings. `options.large` adds the run of 20,000 items."""
    make_public_environment()
    with stub_model() as model:
        root = scratch()
        _refuse_memory(root)
        ours = Side(our_bench(root / "ours", model.url), model)
        bench = public_bench(root / "public", model.url)
        public = None if bench is None else Side(bench, model)
        sides = [ours] if public is None else [ours, public]
        # The first run of a workspace syncs and compiles; what counts is a warm one.
        for side in sides:
            side.turn(1)
        many = []
        for number in range(options.rounds):
            for side in in_turn(sides, number):
                side.round()
            many.append(ours.turn(MANY))
        return [
            *_of_ours(ours.rounds, many),
            *([] if public is None else _beside(ours.rounds, public.rounds)),
            *(_of_a_large_run(ours) if options.large else []),
        ]


def _refuse_memory(root: Path) -> None:
    """Bytes that are written to memory are counted by nobody."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    held = [(mount, kind) for _, mount, kind, *_ in mounts if root.resolve().is_relative_to(mount)]
    if max(held, key=lambda one: len(one[0]))[1] == "tmpfs":
        sys.exit(f"{root.parent} lies in memory; name a directory on a disk in TMPDIR")


def _of_ours(rounds: list[Round], many: list[Turn]) -> Iterator[Finding]:
    further = [turn.cost.tree_cpu - one.items.cost.tree_cpu for turn, one in zip(many, rounds, strict=True)]
    yield told("start to first dispatch", [one.single.start for one in rounds], "s")
    yield told(f"whole command, {ITEMS} items", [one.items.cost.wall for one in rounds], "s")
    yield at_most("supervisor CPU an item", [one.cpu_per_item for one in rounds], 2.0, "ms")
    yield at_most("tree CPU a further item", [1000 * spent / (MANY - ITEMS) for spent in further], 4.0, "ms")
    yield at_most(f"bytes written, {MANY} items", [turn.cost.written / 1e6 for turn in many], 60.0, "MB")
    everything = [turn for one in rounds for turn in (one.single, one.items, one.again)] + many
    yield at_most("processes left behind by any run", [turn.cost.left for turn in everything], 0, "")


def _beside(ours: list[Round], public: list[Round]) -> Iterator[Finding]:
    starts = ratios([one.single.start for one in ours], [one.single.start for one in public])
    dispatches = ratios([one.items.dispatch for one in ours], [one.items.dispatch for one in public])
    again = ratios([one.again.cost.wall for one in ours], [one.again.cost.wall for one in public])
    again_cpu = ratios([one.again.cost.tree_cpu for one in ours], [one.again.cost.tree_cpu for one in public])
    processor = ratios([one.cpu_per_item for one in ours], [one.cpu_per_item for one in public])
    yield at_most("start, of the public package's", starts, 1 / 8, "")
    yield at_most("dispatch, of the public package's", dispatches, 1 / 8, "")
    yield at_most("re-run with nothing to do, of the public package's", again, 1 / 8, "")
    yield told("its processor time, of the public package's", again_cpu, "")
    yield told("supervisor CPU an item, of the public package's", processor, "")


def _of_a_large_run(ours: Side) -> Iterator[Finding]:
    turn = ours.turn(FLAT)
    single = statistics.median(one.single.cost.cpu for one in ours.rounds)
    small = statistics.median(one.cpu_per_item for one in ours.rounds)
    large = 1000 * (turn.cost.cpu - single) / (FLAT - 1)
    yield at_most(f"supervisor CPU an item, {FLAT} items against {ITEMS}", [large / small], 1.15, "")
    yield at_most(f"supervisor's peak memory, {FLAT} items", [turn.cost.peak / 1e6], 150.0, "MB")
