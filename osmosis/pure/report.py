"""What a run tells the people and programs around it: the plan, the progress, and the report at the end.

These records are what the command line renders (rich, plain or JSON). They hold facts, never formatted text.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.journal import Status, WorkItem


class Planned(msgspec.Struct, frozen=True):
    """What is about to run, without the results that are carried over: the plan as programs get it."""

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


class PlanSummary(Planned, frozen=True):
    """What is about to run; shown as the plan table before anything is dispatched.

    `carried` are the results of earlier invocations that this one keeps.
    """

    carried: tuple[ItemFinished, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """Counts over the whole run, carried-over results included. `scored` leaves skipped out; failed items count as scored.

    `waiting` rollouts have a model call that waits for a provider's rate limit; the first of them tries again in `next_try_s`
    seconds.
    """

    total: int
    done: int
    succeeded: int
    failed: int
    skipped: int
    scored: int
    passed: int
    in_flight: int
    tokens: int
    waiting: int = 0
    next_try_s: float | None = None


class Progress(Counts, frozen=True):
    """Counts, and which items are in flight, in the order of their dispatch (`working`)."""

    working: tuple[WorkItem, ...] = ()


class ItemFinished(msgspec.Struct, frozen=True, gc=False):
    """One item just became durable. `passed` by the run's threshold; `tokens` as the bridge saw them, `cost_usd` as known."""

    item: WorkItem
    source_row_index: int
    rollout_id: str
    status: Status
    reward: float | None
    error_type: str | None
    duration_ms: float
    passed: bool = False
    tokens: int | None = None
    cost_usd: float | None = None


class FailedRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed item as the report lists it. `rollout_dir` is an absolute path; `error_message` is left out where nothing was
    said."""

    row_index: int
    source_row_index: int
    run_index: int
    rollout_id: str
    error_type: str | None
    rollout_dir: str
    error_message: str | None = None


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
