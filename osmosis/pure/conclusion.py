"""How an invocation ended: from the run's history to the report that people and programs get (E19, ruling 12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from osmosis.pure.journal import Result, RunHistory, Status, WorkItem
from osmosis.pure.metrics_file import Summary, summary_object
from osmosis.pure.plan import Manifest
from osmosis.pure.projections import active_ms
from osmosis.pure.report import FailedRow, PlanSummary, RunReport, RunStatus
from osmosis.pure.resume import STRIKES_BEFORE_ALONE


class Closing(msgspec.Struct, frozen=True):
    """How an invocation went, as the supervisor leaves it. `pending` counts the items it still had to run, or to run again;
    `suspects` were in flight when the rollout server crashed or fell silent."""

    dispatched: int = 0
    pending: int = 0
    interrupted: bool = False
    halt_reason: str | None = None
    suspects: tuple[WorkItem, ...] = ()


def run_status(history: RunHistory, closing: Closing) -> RunStatus:
    """How the command ended. A finished run is a success unless every single item failed (ruling 12)."""
    if closing.pending or not history.finished:
        return RunStatus.INTERRUPTED if closing.interrupted else RunStatus.PARTIAL
    everything_failed = all(result.status is Status.FAILED for result in history.results.values())
    return RunStatus.ALL_FAILED if everything_failed else RunStatus.SUCCESS


def run_report(
    *,
    name: str,
    manifest: Manifest,
    history: RunHistory,
    closing: Closing | None,
    metrics: Summary,
    output_path: str,
    trials_path: str,
    workspace_directory: str,
) -> RunReport:
    """The report of a run as it stands. `name` is that of its directory (decision 0054). `closing` is None when there was
    nothing to do."""
    status = RunStatus.NOOP if closing is None else run_status(history, closing)
    closing = closing or Closing()
    pending = max(closing.pending, history.total_items - len(history.results))
    # Of a long run most results are successes, which nobody lists: they are looked at one by one.
    unsuccessful = [result for result in history.results.values() if result.status is not Status.SUCCESS]
    unsuccessful.sort(key=lambda result: result.item)
    failed, skipped = (_listed(unsuccessful, status, trials_path) for status in (Status.FAILED, Status.SKIPPED))
    message = _MESSAGES[status].format(name=name, pending=pending)
    return RunReport(
        status=status,
        run_name=name,
        local_run_id=manifest.local_run_id,
        output_path=output_path,
        dataset_source="explicit",
        total_work_items=history.total_items,
        pending=pending,
        dispatched=closing.dispatched,
        succeeded=len(history.results) - len(unsuccessful),
        failed=len(failed),
        skipped=len(skipped),
        resumed=sum(map(history.resumed, history.results)),
        duration_ms=active_ms(history),
        metrics=summary_object(metrics),
        failed_rows=failed,
        skipped_rows=skipped,
        workspace_directory=workspace_directory,
        message="\n".join([message, crash_advice(closing.suspects, history)] if closing.suspects else [message]),
        halt_reason=closing.halt_reason,
    )


def declined_report(plan: PlanSummary, workspace_directory: str) -> RunReport:
    """The report when the person said no: nothing ran and nothing was created."""
    return _idle_report(plan, workspace_directory, RunStatus.CANCELLED, "Cancelled.")


def interrupted_report(plan: PlanSummary, workspace_directory: str, *, exists: bool) -> RunReport:
    """The report of an interrupt before the first dispatch: nothing ran, and a run that was new is gone again (ruling 10).

    `exists`: the run's directory is there all the same, so it is named.
    """
    message = f"Run {plan.run_name} was interrupted before anything was dispatched."
    report = _idle_report(plan, workspace_directory, RunStatus.INTERRUPTED, message)
    return report if exists else msgspec.structs.replace(report, output_path="")


def _idle_report(plan: PlanSummary, workspace_directory: str, status: RunStatus, message: str) -> RunReport:
    return RunReport(
        status=status,
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
        message=message,
    )


_MESSAGES = {
    RunStatus.SUCCESS: "Run {name} is finished.",
    RunStatus.ALL_FAILED: "Run {name} is finished, and every item failed.",
    RunStatus.NOOP: "Run {name} was already finished; nothing ran and nothing was changed.",
    RunStatus.PARTIAL: "Run {name} stopped with {pending} work items still pending.",
    RunStatus.INTERRUPTED: "Run {name} was interrupted with {pending} work items still pending.",
}


def crash_advice(suspects: Collection[WorkItem], history: RunHistory) -> str:
    """What running the same command again does about the items that were in flight when the server was lost (ruling 15)."""
    items = "One item was" if len(suspects) == 1 else f"{len(suspects)} items were"
    if max(history.strikes.get(item, 0) for item in suspects) < STRIKES_BEFORE_ALONE:
        following = "tries again; items that are in flight a second time, too, run alone from then on"
    else:
        following = "now runs each of those alone that were in flight twice"
    return (
        f"{items} in flight when the rollout server crashed or fell silent. The same command {following}, "
        "so that only what brings the server down is failed."
    )


def _listed(results: Iterable[Result], status: Status, trials_path: str) -> tuple[FailedRow, ...]:
    return tuple(
        FailedRow(
            row_index=result.item.row_index,
            source_row_index=result.source_row_index,
            run_index=result.item.run_index,
            rollout_id=result.rollout_id,
            error_type=result.error_type,
            rollout_dir=f"{trials_path}/{result.rollout_id}",
            error_message=result.error_message or None,
        )
        for result in results
        if result.status is status
    )
