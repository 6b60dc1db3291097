"""What a run tells the people and programs around it: the plan, the progress, and the report at the end.

These records are what the command line renders (rich, plain or JSON). They hold facts, never formatted text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.journal import Result, RunHistory, Status, WorkItem
from osmosis.pure.metrics_file import Summary, summary_object
from osmosis.pure.plan import Manifest
from osmosis.pure.projections import active_ms


class PlanSummary(msgspec.Struct, frozen=True):
    """What is about to run; shown as the plan table before anything is dispatched."""

    run_name: str
    rollout: str
    entrypoint: str
    model_path: str
    dataset_label: str
    selected_rows: int
    total_rows: int
    runs_per_row: int
    work_items: int
    pending: int
    recorded: int
    output_path: str
    branch: str | None = None
    commit_sha: str | None = None
    cassette: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """Counts over the whole run, carried-over results included. `scored` leaves skipped out; failed items count as scored."""

    total: int
    done: int
    succeeded: int
    failed: int
    skipped: int
    scored: int
    passed: int
    in_flight: int
    tokens: int


class ItemFinished(msgspec.Struct, frozen=True):
    """One item just became durable."""

    item: WorkItem
    source_row_index: int
    rollout_id: str
    status: Status
    reward: float | None
    error_type: str | None
    duration_ms: float


class FailedRow(msgspec.Struct, frozen=True):
    """A failed item as the report lists it. `rollout_dir` is an absolute path."""

    row_index: int
    source_row_index: int
    run_index: int
    rollout_id: str
    error_type: str | None
    rollout_dir: str


class RunStatus(StrEnum):
    """How the command ended. Exit codes follow from it in one place (ruling 12)."""

    SUCCESS = "success"
    ALL_FAILED = "all_failed"
    NOOP = "noop"
    PARTIAL = "partial"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class NextStep(msgspec.Struct, frozen=True):
    """A command that works when pasted. `action` is for programs: `resume`, `retry`, `new_run`, `fresh`, `info`, ..."""

    action: str
    label: str
    argv: tuple[str, ...]


class RunReport(msgspec.Struct, frozen=True):
    """The result of `osmosis eval run`. `metrics` is the `summary` object of `metrics.json`."""

    status: RunStatus
    run_name: str
    local_run_id: str
    output_path: str
    dataset_source: str
    total_work_items: int
    pending: int
    dispatched: int
    succeeded: int
    failed: int
    skipped: int
    resumed: int
    duration_ms: float
    metrics: dict[str, Any]
    failed_rows: tuple[FailedRow, ...]
    skipped_rows: tuple[FailedRow, ...]
    workspace_directory: str
    message: str
    halt_reason: str | None = None
    next_steps: tuple[NextStep, ...] = ()
    git: dict[str, str] | None = None


class Closing(msgspec.Struct, frozen=True):
    """How an invocation went, as the supervisor leaves it."""

    dispatched: int = 0
    interrupted: bool = False
    halt_reason: str | None = None


def run_status(history: RunHistory, closing: Closing) -> RunStatus:
    """How the command ended. A finished run is a success unless every single item failed (ruling 12)."""
    if not history.finished:
        return RunStatus.INTERRUPTED if closing.interrupted else RunStatus.PARTIAL
    everything_failed = all(result.status is Status.FAILED for result in history.results.values())
    return RunStatus.ALL_FAILED if everything_failed else RunStatus.SUCCESS


def run_report(
    *,
    manifest: Manifest,
    history: RunHistory,
    closing: Closing | None,
    metrics: Summary,
    output_path: str,
    trials_path: str,
    workspace_directory: str,
) -> RunReport:
    """The report of a run as it stands. `closing` is None when there was nothing to do."""
    status = RunStatus.NOOP if closing is None else run_status(history, closing)
    closing = closing or Closing()
    results = [history.results[item] for item in sorted(history.results)]
    by_status = Counter(result.status for result in results)
    return RunReport(
        status=status,
        run_name=manifest.run_name,
        local_run_id=manifest.local_run_id,
        output_path=output_path,
        dataset_source="explicit",
        total_work_items=history.total_items,
        pending=history.total_items - len(results),
        dispatched=closing.dispatched,
        succeeded=by_status[Status.SUCCESS],
        failed=by_status[Status.FAILED],
        skipped=by_status[Status.SKIPPED],
        resumed=sum(history.resumed(result.item) for result in results),
        duration_ms=active_ms(history),
        metrics=summary_object(metrics),
        failed_rows=_listed(results, Status.FAILED, trials_path),
        skipped_rows=_listed(results, Status.SKIPPED, trials_path),
        workspace_directory=workspace_directory,
        message=_MESSAGES[status].format(name=manifest.run_name, pending=history.total_items - len(results)),
        halt_reason=closing.halt_reason,
    )


def declined_report(plan: PlanSummary, workspace_directory: str) -> RunReport:
    """The report when the person said no: nothing ran and nothing was created."""
    return RunReport(
        status=RunStatus.CANCELLED,
        run_name=plan.run_name,
        local_run_id="",
        output_path=plan.output_path,
        dataset_source="explicit",
        total_work_items=plan.work_items,
        pending=plan.pending,
        dispatched=0,
        succeeded=0,
        failed=0,
        skipped=0,
        resumed=0,
        duration_ms=0.0,
        metrics={},
        failed_rows=(),
        skipped_rows=(),
        workspace_directory=workspace_directory,
        message="Cancelled.",
    )


_MESSAGES = {
    RunStatus.SUCCESS: "Run {name} is finished.",
    RunStatus.ALL_FAILED: "Run {name} is finished, and every item failed.",
    RunStatus.NOOP: "Run {name} was already finished; nothing ran and nothing was changed.",
    RunStatus.PARTIAL: "Run {name} stopped with {pending} work items still pending.",
    RunStatus.INTERRUPTED: "Run {name} was interrupted with {pending} work items still pending.",
}


def _listed(results: Iterable[Result], status: Status, trials_path: str) -> tuple[FailedRow, ...]:
    return tuple(
        FailedRow(
            row_index=result.item.row_index,
            source_row_index=result.source_row_index,
            run_index=result.item.run_index,
            rollout_id=result.rollout_id,
            error_type=result.error_type,
            rollout_dir=f"{trials_path}/{result.rollout_id}",
        )
        for result in results
        if result.status is status
    )
