"""Results of the commands that look at runs and at the machine, built from records, for everything that only renders."""

from __future__ import annotations

from pathlib import Path

from osmosis.pure.checkup import ConfigFact, Facts, ModelFact
from osmosis.pure.journal import Attempt, Ending, InvocationEnded, InvocationStarted, Result, RunHistory, Status, WorkItem, fold
from osmosis.pure.log_page import LogPage, parse_entry
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, Metrics, RewardStatistics, Summary
from osmosis.pure.plan import Manifest
from osmosis.pure.run_overview import RunOverview, RunState, counted_by_journal, local_overview, unreadable
from osmosis.pure.sample_details import MetricMean
from osmosis.shell.cli.doctor_result import doctor_result
from osmosis.shell.cli.eval_open import open_result
from osmosis.shell.cli.logs_result import entry_of, followed_result, logs_result
from osmosis.shell.cli.result import CommandResult
from osmosis.shell.cli.run_info_result import Looked, run_info_result
from osmosis.shell.cli.run_list_result import run_list_result
from osmosis.shell.opening import Opened

WORKSPACE = "/home/ada/workspace"
ROOT = f"{WORKSPACE}/.osmosis/evals"
HOSTILE = "\x1b[31mred\x1b[0m\tsk-live-0123456789\nsecond line"

__all__ = ["FACTS", "RESULTS", "ROOT", "WORKSPACE", "manifest", "metrics", "overview"]


def manifest(name: str = "quiet-otter-12", created_at: str = "2026-11-30T16:05:00.000000Z", rows: str = "0-2") -> Manifest:
    """A manifest of three rows, each run twice."""
    return Manifest(
        schema_version=1,
        local_run_id="8b8bb0a734f24a579d9e0c3a5b1f2d4e",
        run_name=name,
        created_at=created_at,
        inputs={
            "model_path": "openai/gpt-5-mini",
            "dataset": {"sha256": "0" * 64, "selected_source_rows": rows},
            "n": 2,
            "pass_threshold": 0.5,
            "rollout": {"name": "arithmetic", "entrypoint": "main.py", "source_digest": "x"},
            "env": {"LEVEL": "3"},
            "secret_names": ["OPENAI_API_KEY"],
            "timeouts": {"agent_timeout_sec": 600.0, "grader_timeout_sec": None},
            "versions": {"rollout_protocol": "0.4", "dataset_normalization": 1, "state_schema": 2},
        },
        provenance={
            "dataset_name": "sums",
            "total_dataset_rows": 3,
            "git_head": "0c7a1f2e",
            "git_branch": "main",
            "git_dirty": True,
        },
    )


def metrics(status: EvalRunStatus = EvalRunStatus.FINISHED, done: int = 6) -> Metrics:
    """Metrics of `done` items, of which one failed and the others passed."""
    finished = status is EvalRunStatus.FINISHED
    info = EvalRunInfo(
        id="8b8bb0a734f24a579d9e0c3a5b1f2d4e",
        status=status,
        name="quiet-otter-12",
        dataset_name="sums",
        model_name="openai/gpt-5-mini",
        rollout_name="arithmetic",
        duration_ms=0.0 if status is EvalRunStatus.RUNNING else 12_300.0,
        started_at="2026-11-30T16:05:04.000000Z",
        completed_at="2026-11-30T16:05:16.300000Z" if finished else None,
    )
    summary = Summary(
        total_samples=done,
        completed_samples=done,
        graded=done - 1,
        passed=done - 1,
        failed=1,
        skipped=0,
        pass_rate=(done - 1) / done,
        pass_threshold=0.5,
        tokens_used=1234,
        reward_stats=RewardStatistics(0.9, 1.0, 0.1, 0.7, 1.0) if finished else None,
    )
    return Metrics(info, summary)


def history(done: int = 6) -> RunHistory:
    """A journal of `done` results, the first of them a failure, and one more item in flight."""
    records: list[InvocationStarted | InvocationEnded | Attempt | Result] = [
        InvocationStarted("a", "2026-11-30T16:05:04.000000Z", "0.3.10")
    ]
    for number in range(min(done + 1, 6)):
        item, rollout_id = WorkItem(number // 2, number % 2), f"{number:032x}"
        at = f"2026-11-30T16:05:{10 + number}.000000Z"
        records.append(Attempt(item, rollout_id, 1, at))
        if number < done:
            status, reward = (Status.FAILED, None) if number == 0 else (Status.SUCCESS, 1.0)
            error = HOSTILE if number == 0 else None
            spent = 1000.0 * (number + 1)
            records.append(
                Result(item, number // 2, rollout_id, status, at, spent, reward=reward, error_type=error, error_message=error)
            )
    if done == 6:
        records.append(InvocationEnded("2026-11-30T16:05:16.300000Z", Ending.FINISHED))
    return fold(records, 6)


def overview(name: str, status: EvalRunStatus | None, *, held: bool = False, created_at: str = "") -> RunOverview:
    """A local run whose metrics say `status`."""
    found = None if status is None else metrics(status, 6 if status is EvalRunStatus.FINISHED else 3)
    made = manifest(name, created_at or "2026-11-30T16:05:00.000000Z")
    return local_overview(f"{ROOT}/{name}", name, made, found, held=held, written_at="2026-11-30T16:09:30Z" if found else None)


FINISHED = overview("quiet-otter-12", EvalRunStatus.FINISHED)
RUNNING = overview("brave-lynx-3", EvalRunStatus.RUNNING, held=True, created_at="2026-11-30T16:09:00Z")
INTERRUPTED = overview("late-crane-7", EvalRunStatus.RUNNING, created_at="2026-11-29T08:00:00Z")
STARTING = overview("new-hare-1", None, held=True, created_at="2026-11-30T16:10:00Z")
BROKEN = unreadable(f"{ROOT}/broken", "broken", f"manifest.json is not a run manifest: {HOSTILE}")

FACTS = Facts(
    python=(3, 11, 7),
    today="2026-11-30",
    workspace=WORKSPACE,
    git=True,
    ignored=True,
    uv="uv 0.13.9",
    configs=(ConfigFact("configs/eval/arithmetic.toml"),),
    models=(ModelFact("openai/gpt-5-mini", "api.openai.com", status=200, skew_s=0.4),),
    free_bytes=73 << 30,
    descriptors=20000,
)
WORRIED = Facts(
    python=(3, 10, 2),
    today="2026-11-30",
    workspace=None,
    missing=("rollouts", "configs/eval", "configs/training", "data"),
    lacking=("polars",),
    configs=(ConfigFact("configs/eval/a.toml", (HOSTILE,)), ConfigFact("configs/eval/b.toml", ("bad",))),
    secrets_missing=("SEARCH_KEY",),
    models=(
        ModelFact("openai/a", "a.example", status=401, skew_s=-90.0),
        ModelFact("openai/b", "b.example", trouble="Connection refused"),
        ModelFact("openai/c", problem="OPENAI_API_KEY: no API key: OPENAI_API_KEY is not set"),
        ModelFact("openai/d", "d.example", status=503),
        ModelFact("bedrock/e", "bedrock"),
    ),
    free_bytes=5 << 20,
    descriptors=256,
)

LOG = LogPage(
    (
        parse_entry('2026-11-30T16:05:04.000000Z INFO [run] 6 of 6 work items to run {"sdk_version":"0.3.10"}'),
        parse_entry("2026-11-30T16:05:05.000000Z WARNING [resume] dropped an incomplete last record"),
        parse_entry(f"no line of ours {HOSTILE}"),
    ),
    cursor=4711,
)

SEEN_AT = "2026-11-30T16:05:06.000000Z"
FOLLOWED = (
    tuple(entry_of(entry, SEEN_AT) for entry in LOG.entries),
    followed_result("quiet-otter-12", RunState.FINISHED, 3, SEEN_AT),
)

MEANS = (
    MetricMean(HOSTILE, -0.25, 4, 1, 1),
    MetricMean("overlap", 2 / 3, 6, 0, 0),
    *(MetricMean(f"tool_calls_of_kind_{number:02}", 1200.5, 4, 2, 0) for number in range(20)),
)
"""Two metrics more than are shown; of the shown ones one was not always a number."""

RESULTS: dict[str, CommandResult] = {
    "list": run_list_result((STARTING, RUNNING, FINISHED, INTERRUPTED, BROKEN), 7, 2, ROOT),
    "list_empty": run_list_result((), 0, 0, ROOT),
    "info_finished": run_info_result(Looked(FINISHED, history(), means=MEANS), WORKSPACE),
    "info_running": run_info_result(Looked(counted_by_journal(RUNNING, history(4)), history(4)), WORKSPACE),
    "info_interrupted": run_info_result(Looked(counted_by_journal(INTERRUPTED, history(3)), history(3)), WORKSPACE),
    "info_starting": run_info_result(Looked(STARTING), WORKSPACE),
    "info_damaged": run_info_result(Looked(FINISHED, None, f"events.jsonl is damaged: {HOSTILE}"), WORKSPACE),
    "logs": logs_result(LOG, "quiet-otter-12", ("osmosis", "eval", "logs", "quiet-otter-12", "--limit", "3")),
    "logs_empty": logs_result(LogPage(()), "quiet-otter-12", ()),
    "open": open_result("quiet-otter-12", Path(f"{ROOT}/quiet-otter-12/report.html"), Opened("xdg-open"), WORKSPACE),
    "open_nowhere": open_result(
        "quiet-otter-12", Path(f"{ROOT}/quiet-otter-12"), Opened(fault="there is no screen here"), WORKSPACE
    ),
    "doctor": doctor_result(FACTS, (".gitignore",)),
}
