"""What a list of runs says of each run, from its small files alone: manifest, metrics, progress, and whether its lock is held
(E16, E29; issue 9).

A run on a platform joins the same list later; `origin` marks where a run is. A list reads no journal, so one of many long runs
costs no more than one of many short ones; its counts are those of the last refresh of the metrics. Who looks at one run has its
journal, and so the counts that are durable (`counted_by_journal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.errors import OsmosisError
from osmosis.pure.journal import RunHistory, Status
from osmosis.pure.metrics_file import EvalRunStatus, Metrics
from osmosis.pure.plan import Manifest
from osmosis.pure.projections import eval_run_info, progress_file, running_summary
from osmosis.pure.tally import Tally


class Origin(StrEnum):
    """Where a run is kept."""

    LOCAL = "local"
    PLATFORM = "platform"


class RunState(StrEnum):
    """How far a run is. `interrupted`: nobody works on it and it is not complete; the same name resumes it."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    UNREADABLE = "unreadable"


class RunOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One run as lists show it. Times are ISO 8601 UTC.

    `planned` work items, of which `metrics` knows so many to be done; `metrics` is None before the first of them was written.
    `as_of` is when metrics were written that are not the last word: more may be durable by now.
    `problem` says why a run is unreadable; then only origin, name and path are known.
    """

    origin: Origin
    name: str
    path: str
    state: RunState
    manifest: Manifest | None = None
    metrics: Metrics | None = None
    as_of: str | None = None
    planned: int = 0
    rows: int = 0
    problem: str | None = None

    @property
    def created_at(self) -> str:
        """When the run was made; empty when that is not known."""
        return self.manifest.created_at if self.manifest else ""

    @property
    def done(self) -> int:
        """Work items with a terminal result."""
        return self.metrics.summary.total_samples if self.metrics else 0

    def input(self, *path: str) -> Any:
        """A value of the manifest's inputs, None where an older manifest has none."""
        value: Any = self.manifest.inputs if self.manifest else {}
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def provenance(self, key: str) -> Any:
        """A value of the manifest's provenance, None where there is none."""
        return self.manifest.provenance.get(key) if self.manifest else None


def may_run(metrics: Metrics | None) -> bool:
    """Whether the files leave open that somebody works on the run, so that its lock has to be looked at."""
    return metrics is None or metrics.eval_run.status is EvalRunStatus.RUNNING


def local_overview(
    path: str, name: str, manifest: Manifest, metrics: Metrics | None, *, held: bool, written_at: str | None = None
) -> RunOverview:
    """The overview of a local run. `held`: a process has its lock. Metrics that say `running` are left behind by a kill;
    `written_at` is when they were written."""
    if may_run(metrics):
        state = RunState.RUNNING if held else RunState.INTERRUPTED
    else:
        finished = metrics is not None and metrics.eval_run.status is EvalRunStatus.FINISHED
        state = RunState.FINISHED if finished else RunState.INTERRUPTED
    try:
        size = progress_file(manifest)
    except (KeyError, TypeError, AttributeError, OsmosisError):  # inputs are as read, whatever version wrote them
        return unreadable(path, name, "the manifest does not say how large the run is")
    return RunOverview(
        origin=Origin.LOCAL,
        name=name,
        path=path,
        state=state,
        manifest=manifest,
        metrics=metrics,
        as_of=written_at if may_run(metrics) else None,
        planned=size.total_runs,
        rows=size.sampled_rows,
    )


def counted_by_journal(overview: RunOverview, history: RunHistory) -> RunOverview:
    """`overview` with the counts that the journal of an unfinished run gives: what is durable, and what a resume starts from.

    Metrics on disk are those of the last refresh, a second ago or, after a kill, older. Results that a retry which is going on
    will replace do not count, as in the run itself. A run that ended in an orderly way has its final metrics, which say more.
    """
    if overview.manifest is None or _is_final(overview, history):
        return overview
    going_on = overview.state is RunState.RUNNING
    latest = history.invocations[-1].started if history.invocations else None
    retrying = latest.id if latest is not None and latest.retry_failed and going_on else None
    tally = Tally(float(overview.input("pass_threshold") or 1.0))
    for item, result in history.results.items():
        if retrying is None or result.status is Status.SUCCESS or history.made_by(item) == retrying:
            tally = tally.add(result)
    try:
        info = eval_run_info(overview.manifest, history, running=going_on)
    except (KeyError, TypeError):  # inputs are as read, whatever version wrote them
        return overview
    return msgspec.structs.replace(overview, metrics=Metrics(info, running_summary(tally)), as_of=None)


def _is_final(overview: RunOverview, history: RunHistory) -> bool:
    """Whether the metrics are those that the run wrote at its end, over every result that the journal has."""
    return not may_run(overview.metrics) and overview.done == len(history.results)


def unreadable(path: str, name: str, problem: str) -> RunOverview:
    """A directory that is a run and cannot be read."""
    return RunOverview(origin=Origin.LOCAL, name=name, path=path, state=RunState.UNREADABLE, problem=problem)


def newest_first(overviews: Iterable[RunOverview]) -> tuple[RunOverview, ...]:
    """The order of a list: the newest run first, equal times by name, unreadable ones last."""
    by_name = sorted(overviews, key=lambda overview: overview.name)
    return tuple(sorted(by_name, key=lambda overview: overview.created_at, reverse=True))
