"""What an invocation does with the run it finds: what is left to run, or why it refuses (E19, E22, E23, E35)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.journal import RunHistory, Status, WorkItem
from osmosis.pure.plan import Change

STRIKES_BEFORE_ALONE = 2
"""After this many server crashes with an item in flight, the item runs alone (ruling 15)."""

_PATHS_SHOWN = 20


class SourceChanges(msgspec.Struct, frozen=True):
    """What became of the rollout's files since the run was created, as POSIX paths."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()


class Workload(msgspec.Struct, frozen=True):
    """What is left to do. `together` may run at once; each of `alone` runs with nothing else in flight, after them.

    `superseded` are the items among these that have a result already, which a new one will replace.
    """

    together: tuple[WorkItem, ...]
    alone: tuple[WorkItem, ...] = ()
    superseded: frozenset[WorkItem] = frozenset()

    @property
    def size(self) -> int:
        """Number of items to dispatch."""
        return len(self.together) + len(self.alone)


def workload(planned: Iterable[WorkItem], history: RunHistory, *, retry_failed: bool) -> Workload:
    """The items that this invocation dispatches, in order: those without a durable result and, with `retry_failed`, those whose
    current result is failed or skipped. A success is never run again, whatever its reward (E35)."""
    together: list[WorkItem] = []
    alone: list[WorkItem] = []
    superseded: set[WorkItem] = set()
    for item in planned:
        result = history.results.get(item)
        if result is not None:
            if not retry_failed or result.status is Status.SUCCESS:
                continue
            superseded.add(item)
        (alone if history.strikes.get(item, 0) >= STRIKES_BEFORE_ALONE else together).append(item)
    return Workload(tuple(together), tuple(alone), frozenset(superseded))


def still_to_run(work: Workload, history: RunHistory, invocation_id: str) -> int:
    """How many items of `work` have no result of that invocation yet: what an interrupted run or retry has left to do."""
    return sum(history.made_by(item) != invocation_id for items in (work.together, work.alone) for item in items)


def refusal(run_name: str, changes: Iterable[Change], sources: SourceChanges | None) -> OsmosisError:
    """The error for a named run whose inputs changed: `Changed: dataset, rollout`, and under each group what changed."""
    changes = tuple(changes)
    groups = sorted({change.group for change in changes})
    problems = [Problem(change.group, str(change)) for change in changes]
    for verb in ("added", "removed", "edited") if sources and "rollout" in groups else ():
        paths = getattr(sources, verb)
        problems += [Problem("rollout", f"{verb} {path}") for path in paths[:_PATHS_SHOWN]]
        if len(paths) > _PATHS_SHOWN:
            problems.append(Problem("rollout", f"{verb} {len(paths) - _PATHS_SHOWN} more files"))
    return OsmosisError(
        f"Run {run_name} was made with other inputs. Changed: {', '.join(groups)}",
        code=ErrorCode.CONFLICT,
        problems=problems,
        hint="Use another --name for a new run beside it, or --fresh to archive this one and start over.",
        details={
            "run_name": run_name,
            "changed": groups,
            "changes": [{"group": c.group, "path": c.path, "before": c.before, "after": c.after} for c in changes],
            "source_files": msgspec.to_builtins(sources) if sources else None,
        },
    )
