"""Reports and plans as a run would give them, for everything that only renders. Light enough for a test's child process."""

from __future__ import annotations

from pathlib import Path

from osmosis.pure.report import FailedRow, PlanSummary, RunReport, RunStatus
from osmosis.shell.cli.invocation import Invocation
from osmosis.shell.evaluation.request import RunRequest

WORKSPACE = "/home/ada/workspace"
RUN_DIRECTORY = f"{WORKSPACE}/.osmosis/evals/quiet-otter-12"

PLAN = PlanSummary(
    run_name="quiet-otter-12",
    rollout="arithmetic",
    entrypoint="main.py",
    model_path="openai/gpt-5-mini",
    dataset_label="arithmetic.jsonl (explicit)",
    selected_rows=60,
    total_rows=1200,
    runs_per_row=4,
    work_items=240,
    pending=200,
    recorded=40,
    output_path=RUN_DIRECTORY,
    branch="main",
    commit_sha="0c7a1f2e9d3b4a5c6d7e8f90a1b2c3d4e5f60718",
    cassette="replaying cassette.jsonl",
)

METRICS = {
    "total_samples": 18,
    "completed_samples": 16,
    "graded": 10,
    "passed": 7,
    "failed": 6,
    "skipped": 2,
    "pass_rate": 0.4375,
    "pass_threshold": 0.5,
    "tokens_used": 1234567,
    "reward_stats": {"mean": 0.725, "median": 0.875, "std": 0.325, "min": 0.25, "max": 1.0},
    "n_runs": 2,
    "pass_at_k": [{"k": 1, "value": 0.4375}, {"k": 2, "value": 0.5}],
    "pass_hat_k": [{"k": 1, "value": 0.4375}, {"k": 2, "value": 0.375}],
    "context_stats": {"max": 8192, "mean": 1530.25, "p50": 1210.5, "p95": 6003.8},
}


def failed_row(number: int, error_type: str | None = "timeout", message: str | None = None) -> FailedRow:
    """A failed item whose source row differs from its row from number 3 on."""
    source = number if number < 3 else number + 100
    return FailedRow(
        number,
        source,
        number % 2,
        f"rollout-{number}",
        error_type,
        f"{RUN_DIRECTORY}/rollout_trials/rollout-{number}",
        message,
    )


MESSAGES = {
    0: "the agent did not finish within 30 s",
    1: "\n\nthe tool `search` said no:\nTraceback (most recent call last):\n  KeyError: 'query'",
    2: "the model answered with a table of " + "wide very long very odd " * 20 + "cells",
}
"""What some of the failed rows said: in few words, in many lines, in too many words."""
WIDE = "\u6a21\u578b" * 60
"""Letters that are two columns wide."""


def report(status: RunStatus, **changes: object) -> RunReport:
    """A report of 18 items with every field filled, changed as named."""
    fields: dict[str, object] = {
        "status": status,
        "run_name": "quiet-otter-12",
        "local_run_id": "8b8bb0a7-34f2-4a57-9d9e-0c3a5b1f2d4e",
        "output_path": RUN_DIRECTORY,
        "dataset_source": "explicit",
        "total_work_items": 18,
        "pending": 0,
        "dispatched": 18,
        "succeeded": 10,
        "failed": 6,
        "skipped": 2,
        "resumed": 0,
        "duration_ms": 125_300.0,
        "metrics": METRICS,
        "failed_rows": tuple(failed_row(number, message=MESSAGES.get(number)) for number in (4, 1, 0, 2, 3, 5)),
        "skipped_rows": (failed_row(7, None), failed_row(6, None)),
        "workspace_directory": WORKSPACE,
        "message": "Evaluation finished.",
        "git": {"identity": "ada/workspace", "remote_url": "git@github.com:ada/workspace.git"},
    }
    return RunReport(**(fields | changes))  # type: ignore[arg-type]


REPORTS = {
    "success": report(RunStatus.SUCCESS),
    "interrupted": report(
        RunStatus.INTERRUPTED, pending=6, dispatched=12, resumed=3, message="Evaluation interrupted; 6 work items are pending."
    ),
    "halted": report(
        RunStatus.PARTIAL,
        pending=6,
        dispatched=12,
        message="Evaluation stopped; 6 work items are pending.",
        halt_reason="the rollout server exited with status 1:\nTraceback:\n  ModuleNotFoundError: No module named 'strands'",
    ),
    "all_failed": report(
        RunStatus.ALL_FAILED,
        succeeded=0,
        failed=18,
        skipped=0,
        metrics={
            "total_samples": 18,
            "completed_samples": 18,
            "graded": 0,
            "passed": 0,
            "failed": 18,
            "skipped": 0,
            "pass_rate": 0,
            "pass_threshold": 1.0,
            "tokens_used": 0,
        },
        failed_rows=tuple(failed_row(number, "agent_error") for number in range(24)),
        skipped_rows=(),
        git=None,
    ),
    "noop": report(RunStatus.NOOP, dispatched=0, resumed=18, message="Run quiet-otter-12 is already complete; nothing ran."),
    "cancelled": report(
        RunStatus.CANCELLED,
        pending=18,
        dispatched=0,
        succeeded=0,
        failed=0,
        skipped=0,
        metrics={},
        failed_rows=(),
        skipped_rows=(),
        message="Cancelled.",
    ),
    "hostile": report(
        RunStatus.SUCCESS,
        failed_rows=(
            failed_row(
                0,
                "\x1b[2J\x1b]0;owned\x07[red]not red[/red]\nsecond line \u202etxt.exe sk-live-0123456789",
                "\x1b[1A\x1b[2K[bold]done[/bold]\u202e sk-live-0123456789 \x9b31m" + "\x07" * 200 + "\nsk-live-0123456789",
            ),
            failed_row(1, message=WIDE),
        ),
        skipped_rows=(),
        message="done \x9b31m sk-live-0123456789",
    ),
}

INVOCATION = Invocation(
    RunRequest(
        config_path=Path("configs/eval/arithmetic.toml"),
        working_directory=Path(WORKSPACE),
        dataset_file=Path("data/arithmetic 60.jsonl"),
        rows="0-8",
        max_in_flight=4,
    )
)
