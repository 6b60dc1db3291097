"""What the supervisor remembers, and what of it is shown: one immutable value, whose size depends on the number of items in
flight and never on the length of the run. How it changes is decided in `supervisor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from osmosis.pure.journal import Ending, InvocationStarted, Result, RunHistory, WorkItem
from osmosis.pure.protocol import in_flight_limit
from osmosis.pure.report import Progress
from osmosis.pure.resume import Workload
from osmosis.pure.tally import Tally


class Phase(StrEnum):
    """Where the run is; see the header of `supervisor`."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    DONE = "done"


class Assignment(msgspec.Struct, frozen=True):
    """What one invocation has to do; does not change while it runs.

    `invocation` is recorded with the time of the first `Ready`. `source_rows[row_index]` is the row's offset in the dataset
    file. `attempts` counts earlier attempts by item. `ceiling` is how many items this process has file descriptors for: without
    one that is to spare, items would fail for a fault that is not theirs.
    """

    invocation: InvocationStarted
    workload: Workload
    source_rows: tuple[int, ...]
    total_items: int
    attempts: Mapping[WorkItem, int]
    max_in_flight: int | None = None
    batch_size: int | None = None
    ceiling: int | None = None

    def cap(self, capacity: int | None) -> int:
        """How many items may be in flight on a server that takes `capacity` at once."""
        wanted = in_flight_limit(self.max_in_flight or self.batch_size, capacity)
        return wanted if self.ceiling is None else min(wanted, self.ceiling)


class InFlight(msgspec.Struct, frozen=True):
    """An item between its dispatch and its durable result; `result` is set while the journal has it."""

    item: WorkItem
    result: Result | None = None


class State(msgspec.Struct, frozen=True):
    """The supervisor's whole memory. `cursor` counts the assignment's items that were dispatched."""

    assignment: Assignment
    tally: Tally
    phase: Phase = Phase.STARTING
    cap: int = 0
    cursor: int = 0
    in_flight: Mapping[str, InFlight] = {}
    interrupts: int = 0
    began: bool = False
    journal_ok: bool = True
    suspects: tuple[WorkItem, ...] = ()
    unresponsive: bool = False
    ending: Ending | None = None
    reason: str | None = None

    @property
    def next_item(self) -> WorkItem | None:
        """The item to dispatch next, None when all were."""
        work = self.assignment.workload
        if self.cursor < len(work.together):
            return work.together[self.cursor]
        position = self.cursor - len(work.together)
        return work.alone[position] if position < len(work.alone) else None

    @property
    def alone(self) -> bool:
        """Whether the item dispatched last is a suspect that runs alone."""
        return self.cursor > len(self.assignment.workload.together)


def begin(assignment: Assignment, history: RunHistory, pass_threshold: float) -> State:
    """The state before the first event. Results that this invocation will replace do not count as done."""
    tally = Tally(pass_threshold)
    for item, result in history.results.items():
        if item not in assignment.workload.superseded:
            tally = tally.add(result)
    return State(assignment, tally)


def progress(state: State, waiting: int = 0, next_try_s: float | None = None) -> Progress:
    """The counts to show now. `waiting` rollouts wait for a rate limit, the first of them for `next_try_s` more seconds."""
    tally = state.tally
    working = tuple(flight.item for flight in state.in_flight.values() if flight.result is None)
    return Progress(
        total=state.assignment.total_items,
        done=tally.done,
        succeeded=tally.succeeded,
        failed=tally.failed,
        skipped=tally.skipped,
        scored=tally.scored,
        passed=tally.passed,
        in_flight=len(working),
        tokens=tally.tokens,
        waiting=waiting,
        next_try_s=next_try_s,
        working=working,
    )
