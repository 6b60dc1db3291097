"""Runs: their locked inputs, their manifests, and journals that a runner could have written."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from osmosis.pure.journal import (
    Attempt,
    Ending,
    InvocationEnded,
    InvocationStarted,
    Record,
    Result,
    Status,
    WorkItem,
)
from osmosis.pure.journal_audit import RunPlan
from osmosis.pure.plan import (
    DatasetIdentity,
    Manifest,
    Provenance,
    RolloutIdentity,
    RunInputs,
    Timeouts,
    Versions,
    new_manifest,
    work_items,
)
from osmosis.pure.selection import RowRange, RowSelection, select
from tests.strategies.numbers import call_usages

hexadecimal = st.text("0123456789abcdef", min_size=32, max_size=32)
fingerprints = hexadecimal.map(lambda digits: f"xxh3-128:v1:{digits}")
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
limits = st.none() | st.floats(1.0, 1e6)
small_selections: st.SearchStrategy[RowSelection] = st.sets(st.integers(0, 12), min_size=1, max_size=6).map(
    lambda rows: select(RowRange(row, row) for row in rows)
)

inputs: st.SearchStrategy[RunInputs] = st.builds(
    RunInputs,
    model_path=names,
    dataset=st.builds(
        DatasetIdentity,
        sha256=hexadecimal.map(lambda digits: digits * 2),
        selected_source_rows=small_selections.map(str),
        fingerprint=st.none() | fingerprints,
    ),
    n=st.integers(1, 3),
    pass_threshold=st.floats(-1e6, 1e6),
    rollout=st.builds(RolloutIdentity, names, names, fingerprints),
    env=st.dictionaries(names, names, max_size=3),
    secret_names=st.lists(names, max_size=3, unique=True).map(sorted).map(tuple),
    timeouts=st.builds(Timeouts, limits, limits),
    versions=st.builds(Versions, names, st.integers(0, 9), st.integers(0, 9)),
    cassette=st.none() | fingerprints,
)
provenances = st.builds(
    Provenance,
    sdk_version=names,
    dataset_name=names,
    total_dataset_rows=st.integers(200, 10**6),
    config_branch=st.none() | names,
    endpoint=st.none() | names,
    advanced=st.none() | st.dictionaries(names, st.integers() | names, min_size=1, max_size=2),
    git_dirty=st.none() | st.booleans(),
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """The manifest of a run that begins."""
    return new_manifest(
        inputs=draw(inputs),
        provenance=draw(provenances),
        local_run_id=draw(hexadecimal),
        run_name=draw(names),
        created_at="2026-11-30T11:59:58.000001Z",
    )


def plan_of(rows: RowSelection, n: int) -> RunPlan:
    """The plan of a run of these rows, `n` runs each, with nothing else remarkable about it."""
    inputs = RunInputs(
        model_path="openai/m",
        dataset=DatasetIdentity("0" * 64, str(rows)),
        n=n,
        pass_threshold=1.0,
        rollout=RolloutIdentity("r", "main.py", "xxh3-128:v1:" + "0" * 32),
        env={},
        secret_names=(),
        timeouts=Timeouts(None, None),
    )
    manifest = new_manifest(
        inputs=inputs,
        provenance=Provenance("0.3.10", "d", 100),
        local_run_id="0" * 32,
        run_name="plain",
        created_at="2026-11-30T11:59:58.000001Z",
    )
    return RunPlan(manifest, inputs, rows)


class Story(msgspec.Struct, frozen=True):
    """A run's plan and the records of its journal."""

    plan: RunPlan
    records: tuple[Record, ...]


def moment(second: int) -> str:
    """A time that many seconds into the day."""
    return f"2026-11-30T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000000Z"


@st.composite
def stories(draw: st.DrawFn, *, eventful: bool = False) -> Story:
    """What several invocations of one run may leave in its journal: results in any order, crashes at any place, retries.

    An `eventful` one has a success in its first invocation.
    """
    rows = draw(small_selections)
    plan = plan_of(rows, draw(st.integers(1, 2)))
    source_rows = list(rows.indices())
    items = list(work_items(rows.count, plan.inputs.n))
    records: list[Record] = []
    results: dict[WorkItem, Status] = {}
    attempts: dict[WorkItem, int] = {}
    identities = iter(range(1, 10**6))

    def now() -> str:
        return moment(len(records))

    for number in range(1, draw(st.integers(int(eventful), 3)) + 1):
        retry = draw(st.booleans())
        records.append(InvocationStarted(f"{number:032x}", now(), "0.3.10", retry))
        work = [item for item in items if item not in results or (retry and results[item] is not Status.SUCCESS)]
        running: dict[WorkItem, str] = {}
        least = int(eventful and number == 1)
        for item in work[: draw(st.integers(least, len(work)))]:
            running[item] = f"{next(identities):032x}"
            attempts[item] = attempts.get(item, 0) + 1
            records.append(Attempt(item, running[item], attempts[item], now()))
        done = draw(st.permutations(list(running)))[: draw(st.integers(least, len(running)))]
        for item in done:
            first = eventful and not results
            status = results[item] = Status.SUCCESS if first else draw(st.sampled_from(Status))
            records.append(
                Result(
                    item=item,
                    source_row_index=source_rows[item.row_index],
                    rollout_id=running.pop(item),
                    status=status,
                    at=now(),
                    duration_ms=draw(st.floats(0, 1e6)),
                    reward=draw(st.none() | st.floats(-1, 1)) if status is Status.SUCCESS else None,
                    error_type="timeout" if status is Status.FAILED else None,
                    calls=draw(st.none() | st.lists(call_usages, min_size=1, max_size=2).map(tuple)),
                )
            )
        if draw(st.booleans()):
            records.append(_ended(now(), running, finished=len(results) == len(items)))
    return Story(plan, tuple(records))


def _ended(at: str, running: dict[WorkItem, str], *, finished: bool) -> InvocationEnded:
    if running:
        return InvocationEnded(at, Ending.SERVER_CRASH, tuple(sorted(running)))
    return InvocationEnded(at, Ending.FINISHED if finished else Ending.INTERRUPTED)
