"""`--json --events`: a run as it happens, one JSON object a line on standard error (issue 9; `docs/command-line.md`).

Standard output still carries the result and nothing else. Each line has `event`; warnings and errors, which are lines of the
same stream, have `warning` or `error` instead.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.report import Counts, ItemFinished, Planned, PlanSummary, Progress
from osmosis.shell.cli.output import Output
from osmosis.shell.evaluation.clock import utc_now

PLANNED = "run.planned"
MILESTONE = "run.milestone"
ITEM_FINISHED = "item.finished"
PROGRESS = "run.progress"


class Milestone(msgspec.Struct, frozen=True):
    """`data` of `run.milestone`: a step began or ended, in words."""

    text: str


class Finished(msgspec.Struct, frozen=True):
    """`data` of `item.finished`: an item whose result is durable."""

    row_index: int
    source_row_index: int
    run_index: int
    rollout_id: str
    status: str
    reward: float | None
    passed: bool
    error_type: str | None
    duration_ms: float
    tokens: int | None
    cost_usd: float | None


class EventDisplay:
    """A display that writes events. They begin with the plan and end before the result."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def plan(self, plan: PlanSummary) -> None:
        """`run.planned`."""
        self._emit(PLANNED, _like(plan, Planned))

    def milestone(self, text: str) -> None:
        """`run.milestone`."""
        self._emit(MILESTONE, Milestone(text))

    def item(self, finished: ItemFinished) -> None:
        """`item.finished`."""
        self._emit(ITEM_FINISHED, finished_event(finished))

    def progress(self, progress: Progress) -> None:
        """`run.progress`."""
        self._emit(PROGRESS, _like(progress, Counts))

    def close(self) -> None:
        """Nothing: the result follows on standard output."""

    def _emit(self, event: str, data: msgspec.Struct) -> None:
        self._output.event(event, utc_now(), data)


def finished_event(finished: ItemFinished) -> Finished:
    """A finished item as programs get it."""
    return Finished(
        row_index=finished.item.row_index,
        source_row_index=finished.source_row_index,
        run_index=finished.item.run_index,
        rollout_id=finished.rollout_id,
        status=finished.status.value,
        reward=finished.reward,
        passed=finished.passed,
        error_type=finished.error_type,
        duration_ms=finished.duration_ms,
        tokens=finished.tokens,
        cost_usd=finished.cost_usd,
    )


def _like(record: msgspec.Struct, shape: type[msgspec.Struct]) -> msgspec.Struct:
    """The fields of `record` that `shape` has."""
    return shape(**{name: getattr(record, name) for name in shape.__struct_fields__})
