"""What the projections of a run say, from its manifest and history alone (rulings 1 to 3).

The times of a run are those of the whole run, not of its last invocation: it started when it first dispatched and was complete
when its last current result became known. Its duration is the time in which invocations were at work, so a night between an
interrupt and the resume does not count.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from osmosis.pure.journal import RunHistory
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, Summary
from osmosis.pure.plan import Manifest, planned_rows
from osmosis.pure.tally import Tally


class ProgressFile(msgspec.Struct, frozen=True):
    """`progress.json`: the size of the plan."""

    total_runs: int
    sampled_rows: int
    total_dataset_rows: int


def progress_file(manifest: Manifest) -> ProgressFile:
    """The plan's size, as the manifest fixes it."""
    rows = planned_rows(manifest).count
    return ProgressFile(rows * manifest.inputs["n"], rows, manifest.provenance.get("total_dataset_rows", rows))


def active_ms(history: RunHistory) -> float:
    """Milliseconds in which the run's invocations were at work, each from its start to its last record."""
    return sum(_microseconds(invocation.started.at, invocation.last_at) for invocation in history.invocations) / 1000


def _microseconds(start: str, end: str) -> int:
    # A clock that was set back in between must not make a duration negative.
    return max((datetime.fromisoformat(end) - datetime.fromisoformat(start)) // timedelta(microseconds=1), 0)


def eval_run_info(manifest: Manifest, history: RunHistory, *, running: bool) -> EvalRunInfo:
    """The `eval_run` object of `metrics.json`. While the run is `running` its duration is 0, as the contract has it."""
    status = EvalRunStatus.FINISHED if history.finished else EvalRunStatus.INCOMPLETE
    return EvalRunInfo(
        id=manifest.local_run_id,
        status=EvalRunStatus.RUNNING if running else status,
        name=manifest.run_name,
        dataset_name=manifest.provenance.get("dataset_name", ""),
        model_name=manifest.inputs["model_path"],
        rollout_name=manifest.inputs["rollout"]["name"],
        duration_ms=0.0 if running else active_ms(history),
        started_at=history.started_at or manifest.created_at,
        completed_at=history.last_result_at if history.finished and not running else None,
    )


def running_summary(tally: Tally) -> Summary:
    """The `summary` object while a run is going on: counts only, which cost the same however long the run is."""
    return Summary(
        total_samples=tally.done,
        completed_samples=tally.scored,
        graded=tally.graded,
        passed=tally.passed,
        failed=tally.failed,
        skipped=tally.skipped,
        pass_rate=tally.pass_rate,
        pass_threshold=tally.pass_threshold,
        tokens_used=tally.tokens,
    )
