"""The report of a run as a command's result: a JSON resource for programs, tables for people (`eval_local.md` section 12).

A pure function of the report. Differences from the public command, on purpose: skipped items have a list of their own and are
no longer among `failed_rows`, whose entries have an `error_message` where one was left; `pending`, `halt_reason` and
`next_steps_structured` are new; plain output shows the numbers, not the message alone; a run whose every item failed exits
with 3 (ruling 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from osmosis.pure.estimate import CurvePoint, ErrorSummary
from osmosis.pure.metrics_file import PassPoint, Summary
from osmosis.pure.presentation import decimal, duration, joined, percent, relative_path, thousands
from osmosis.pure.report import FailedRow, PlanSummary, RunReport, RunStatus
from osmosis.shell.cli.exit_codes import RUN_EXIT_CODES
from osmosis.shell.cli.result import Block, OperationResult, Quote, Section, Table
from osmosis.shell.cli.uncertainty_rows import interval, pass_rate_rows, planning_rows, reward_rows

OPERATION = "eval.run"
ROW_LIMIT = 20
"""Failed or skipped items shown to a person; JSON and `index.jsonl` have them all."""

_INCOMPLETE = (RunStatus.PARTIAL, RunStatus.INTERRUPTED)


class RunResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope. Absent rather than null: `git`."""

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
    cancelled: bool
    halt_reason: str | None
    duration_ms: float
    metrics: dict[str, Any]
    failed_rows: tuple[FailedRow, ...]
    skipped_rows: tuple[FailedRow, ...]
    workspace_directory: str
    git: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


def run_result(report: RunReport, working_directory: str) -> OperationResult:
    """`report` as a result. Paths are shown relative to `working_directory` where they lie below it; JSON has them whole."""
    return OperationResult(
        operation=OPERATION,
        status=report.status.value,
        resource=_resource(report),
        message=report.message,
        exit_code=RUN_EXIT_CODES[report.status],
        blocks=tuple(_blocks(report, working_directory)) if report.status is not RunStatus.CANCELLED else (),
        next_steps=report.next_steps,
    )


def _resource(report: RunReport) -> RunResource:
    return RunResource(
        run_name=report.run_name,
        local_run_id=report.local_run_id,
        output_path=report.output_path,
        dataset_source=report.dataset_source,
        total_work_items=report.total_work_items,
        pending=report.pending,
        dispatched=report.dispatched,
        succeeded=report.succeeded,
        failed=report.failed,
        skipped=report.skipped,
        resumed=report.resumed,
        cancelled=report.status in (RunStatus.INTERRUPTED, RunStatus.CANCELLED),
        halt_reason=report.halt_reason,
        duration_ms=report.duration_ms,
        metrics=report.metrics,
        failed_rows=_ordered(report.failed_rows),
        skipped_rows=_ordered(report.skipped_rows),
        workspace_directory=report.workspace_directory,
        git=msgspec.UNSET if report.git is None else report.git,
    )


def _blocks(report: RunReport, base: str) -> Iterator[Block]:
    index = relative_path(f"{report.output_path}/index.jsonl", base)
    for title, rows in (("Failed rows", report.failed_rows), ("Skipped rows", report.skipped_rows)):
        if rows:
            yield Section(title, tuple(_listed(rows, base, index)), tuple(_said(rows)))
    title = "Results (incomplete)" if report.status in _INCOMPLETE else "Results"
    yield Table(title, tuple((label, value) for label, value in _result_rows(report, base) if value))
    if report.halt_reason:
        yield Quote("Stopped by", report.halt_reason)


def _listed(rows: Iterable[FailedRow], base: str, index: str) -> Iterator[str]:
    ordered = _ordered(rows)
    for row in ordered[:ROW_LIMIT]:
        item = item_label(row.row_index, row.source_row_index, row.run_index)
        reason = f": {row.error_type}" if row.error_type else ""
        yield f"{item}{reason} -> {relative_path(row.rollout_dir, base)}"
    if (hidden := len(ordered) - ROW_LIMIT) > 0:
        yield f"... and {thousands(hidden)} more; all of them are in {index}"


def _said(rows: Iterable[FailedRow]) -> Iterator[str]:
    """What the listed items left as their messages, whole: these are redacted before their first lines are taken."""
    return (row.error_message or "" for row in _ordered(rows)[:ROW_LIMIT])


def _ordered(rows: Iterable[FailedRow]) -> tuple[FailedRow, ...]:
    return tuple(sorted(rows, key=lambda row: (row.row_index, row.run_index)))


def item_label(row_index: int, source_row_index: int, run_index: int) -> str:
    """`row 3 (source 17) run 0`; the source row is named only where it differs."""
    source = f" (source {source_row_index})" if source_row_index != row_index else ""
    return f"row {row_index}{source} run {run_index}"


def _result_rows(report: RunReport, base: str) -> Iterator[tuple[str, str]]:
    yield "Run", report.run_name
    yield "Work Items", _work_items(report)
    if report.metrics:
        yield from metric_rows(msgspec.convert(report.metrics, Summary))
    yield "Duration", duration(report.duration_ms)
    yield "Output", relative_path(report.output_path, base)


def _work_items(report: RunReport) -> str:
    complete = f"{thousands(report.total_work_items - report.pending)}/{thousands(report.total_work_items)} complete"
    counts = [(report.succeeded, "ok"), (report.failed, "failed")]
    carried_over = 0 if report.status is RunStatus.NOOP else report.resumed
    optional = [(report.skipped, "skipped"), (report.pending, "pending"), (carried_over, "carried over")]
    shown = counts + [(count, word) for count, word in optional if count]
    return joined([complete, *(f"{thousands(count)} {word}" for count, word in shown)])


def metric_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """The numbers of `metrics.json` as labels and texts; an empty text has nothing to say."""
    scored = f"{thousands(summary.passed)}/{thousands(summary.completed_samples)} scored"
    rate = percent(summary.passed, summary.completed_samples)
    yield "Pass Rate", f"{rate} ({scored}, threshold {summary.pass_threshold!r})"
    uncertainty = summary.uncertainty
    if uncertainty:
        yield from pass_rate_rows(uncertainty)
    if rewards := summary.reward_stats:
        named = (
            ("mean", rewards.mean),
            ("median", rewards.median),
            ("std", rewards.std),
            ("min", rewards.min),
            ("max", rewards.max),
        )
        yield "Reward", joined(f"{name} {decimal(value)}" for name, value in named)
    if uncertainty:
        yield from reward_rows(uncertainty)
    yield "pass@k", _curve(summary.pass_at_k, uncertainty.pass_at_k if uncertainty else ())
    yield "pass^k", _curve(summary.pass_hat_k, uncertainty.pass_hat_k if uncertainty else ())
    if uncertainty:
        yield from planning_rows(uncertainty)
    yield "Errors", _errors(summary.errors)
    yield "Tokens Used", thousands(summary.tokens_used)
    if summary.cost_usd is not None:
        yield "Cost", f"${decimal(summary.cost_usd, 4)}"
    if context := summary.context_stats:
        parts = (("mean", context.mean), ("p50", context.p50), ("p95", context.p95), ("max", context.max))
        yield "Max Context", joined(f"{name} {thousands(round(value))}" for name, value in parts)


def _curve(points: tuple[PassPoint, ...] | None, sure: tuple[CurvePoint, ...]) -> str:
    intervals = {point.k: interval(point.low, point.high) for point in sure}
    shown = (f"k={point.k} {decimal(point.value, 2)} {intervals.get(point.k, '')}".rstrip() for point in points or ())
    return joined(shown)


def _errors(errors: ErrorSummary | None) -> str:
    if errors is None:
        return ""
    parts = ((errors.model, "model"), (errors.infrastructure, "infrastructure"), (errors.unclassified, "unclassified"))
    return joined(f"{thousands(count)} {origin}" for count, origin in parts if count)


def plan_table(plan: PlanSummary, working_directory: str) -> Table:
    """The plan as a table, shown before anything is dispatched. Rows without a value are left out."""
    repeated = plan.runs_per_row > 1
    carried = f"{thousands(plan.recorded)} recorded" if plan.recorded else ""
    pending = f"{thousands(plan.pending)} pending" if plan.recorded else ""
    rows = (
        ("Run", plan.run_name),
        ("Rollout", plan.rollout),
        ("Entrypoint", plan.entrypoint),
        ("Model", plan.model_path),
        ("Dataset", plan.dataset_label),
        ("Branch", plan.branch or ""),
        ("Commit", plan.commit_sha or ""),
        ("Rows", f"{thousands(plan.selected_rows)} of {thousands(plan.total_rows)}"),
        ("Runs Per Row", thousands(plan.runs_per_row) if repeated else ""),
        ("Work Items", joined([thousands(plan.work_items), carried, pending])),
        ("Cassette", plan.cassette or ""),
        ("Output", relative_path(plan.output_path, working_directory)),
    )
    return Table("Local Evaluation", tuple((label, value) for label, value in rows if value))
