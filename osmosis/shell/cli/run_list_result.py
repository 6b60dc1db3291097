"""A page of runs as a command's result (contract `cli.md` sections 1 and 3; issue 9).

The first six columns are the public command's. Behind them stand ours: where the run is, how far it is, and its pass rate.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.presentation import UNDEFINED, decimal, moment, percent, thousands
from osmosis.pure.report import NextStep
from osmosis.pure.run_overview import Origin, RunOverview, RunState
from osmosis.shell.cli.result import Column, ListResult

OPERATION = "eval.list"

COLUMNS = (
    Column("Name", 10),
    Column("Status", 9),
    Column("Rollout", 4),
    Column("Reward", 5),
    Column("Submitted", 3),
    Column("By", 0),
    Column("Origin", 6),
    Column("Done", 7),
    Column("Pass Rate", 8),
    Column("Model", 2),
    Column("As Of", 1),
)

STATUS_LABELS = {
    RunState.RUNNING: "[running]",
    RunState.FINISHED: "[finished]",
    RunState.INTERRUPTED: "[interrupted]",
    RunState.UNREADABLE: "[unreadable]",
}
_AS_OF = "What runs that are not finished have done is as of their last refresh; `osmosis eval info RUN` counts anew."
ORIGIN_LABELS = {Origin.LOCAL: "Local", Origin.PLATFORM: "Platform"}


class Named(msgspec.Struct, frozen=True):
    """A thing that a run names: model, dataset, rollout."""

    name: str | None


class Completion(msgspec.Struct, frozen=True):
    """How far a run is."""

    completed: int
    total: int
    unit: str = "rollouts"


class RunItem(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the JSON list. The keys of a platform's run, then ours; what a local run has none of is null. `as_of` is when
    the counts of a run that is not finished were taken, null where they are exact."""

    id: str | None
    name: str
    status: str
    origin: str
    created_at: str | None
    started_at: str | None
    completed_at: str | None
    model: Named
    dataset: Named
    rollout: Named
    creator_name: str | None = None
    platform_url: str | None = None
    progress: Completion
    as_of: str | None
    pass_rate: float | None
    avg_reward: float | None
    path: str | None
    problem: str | None


class ListExtra(msgspec.Struct, frozen=True):
    """Keys beside the list: the root that was listed, and how many runs `--fresh` moved aside there."""

    output_root: str
    archived_count: int


def run_list_result(
    runs: tuple[RunOverview, ...], total: int, archived: int, root: str, argv: tuple[str, ...] = ("osmosis", "eval", "list")
) -> ListResult:
    """The newest runs of `total` below `root`. `argv` is the command that lists them, without its limit."""
    rest = total - len(runs)
    return ListResult(
        operation=OPERATION,
        title="Evaluation runs",
        items=tuple(map(run_item, runs)),
        total_count=total,
        columns=COLUMNS,
        rows=tuple(map(_cells, runs)),
        has_more=rest > 0,
        next_offset=len(runs) if rest > 0 else None,
        extra=ListExtra(root, archived),
        message="\n".join([_message(len(runs), total, archived), *([_AS_OF] if any(run.as_of for run in runs) else [])]),
        next_steps=(NextStep("list_all", "Show all", (*argv, "--all")),) if rest > 0 else (),
    )


def _message(shown: int, total: int, archived: int) -> str:
    if not total:
        said = "No runs yet. `osmosis eval run CONFIG` makes one."
    elif shown < total:
        said = f"{thousands(shown)} of {thousands(total)} runs."
    else:
        said = f"{thousands(total)} run{'' if total == 1 else 's'}."
    return f"{said} {thousands(archived)} archived." if archived else said


def run_item(run: RunOverview) -> RunItem:
    """A run as programs get it."""
    info = run.metrics.eval_run if run.metrics else None
    return RunItem(
        id=run.manifest.local_run_id if run.manifest else None,
        name=run.name,
        status=run.state.value,
        origin=run.origin.value,
        created_at=run.created_at or None,
        started_at=info.started_at if info else None,
        completed_at=info.completed_at if info else None,
        model=Named(run.input("model_path")),
        dataset=Named(run.provenance("dataset_name")),
        rollout=Named(run.input("rollout", "name")),
        progress=Completion(run.done, run.planned),
        as_of=run.as_of,
        pass_rate=pass_rate(run),
        avg_reward=average_reward(run),
        path=run.path,
        problem=run.problem,
    )


def pass_rate(run: RunOverview) -> float | None:
    """The pass rate so far; None while nothing is scored."""
    return run.metrics.summary.pass_rate if run.metrics and run.metrics.summary.completed_samples else None


def average_reward(run: RunOverview) -> float | None:
    """The mean reward; a run that is going on does not have it yet."""
    rewards = run.metrics.summary.reward_stats if run.metrics else None
    return rewards.mean if rewards else None


def _cells(run: RunOverview) -> tuple[str, ...]:
    reward = average_reward(run)
    summary = run.metrics.summary if run.metrics else None
    return (
        run.name,
        STATUS_LABELS[run.state],
        run.input("rollout", "name") or UNDEFINED,
        UNDEFINED if reward is None else decimal(reward, 2),
        moment(run.created_at),
        UNDEFINED,
        ORIGIN_LABELS[run.origin],
        f"{thousands(run.done)}/{thousands(run.planned)}" if run.planned else UNDEFINED,
        percent(summary.passed, summary.completed_samples) if summary else UNDEFINED,
        run.input("model_path") or UNDEFINED,
        moment(run.as_of) if run.as_of else UNDEFINED,
    )
