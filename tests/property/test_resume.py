"""What an invocation does with the run it finds: workloads that partition the plan, and refusals that say what changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import ErrorCode
from osmosis.pure.journal import Ending, InvocationEnded, InvocationStarted, RunHistory, Status, WorkItem, fold
from osmosis.pure.plan import Change, work_items
from osmosis.pure.resume import STRIKES_BEFORE_ALONE, SourceChanges, refusal, workload
from tests.strategies.journal import texts
from tests.strategies.run import Story, stories

changes = st.lists(
    st.builds(Change, st.sampled_from(["dataset", "rollout", "model_path", "env"]), texts, texts, texts), min_size=1, max_size=5
)


def items_of(story: Story) -> list[WorkItem]:
    """The plan."""
    return list(work_items(story.plan.rows.count, story.plan.inputs.n))


def history_of(story: Story) -> RunHistory:
    """The state that the journal tells."""
    return fold(story.records, story.plan.total_items)


@given(stories(), st.booleans())
def test_a_workload_and_what_is_kept_make_the_plan(story: Story, retry_failed: bool) -> None:
    """Every planned item is either dispatched once or keeps its result: none is lost and none doubled."""
    history = history_of(story)
    work = workload(items_of(story), history, retry_failed=retry_failed)
    dispatched = [*work.together, *work.alone]
    assert len(dispatched) == len(set(dispatched)) == work.size
    kept = set(history.results) - work.superseded
    assert kept.isdisjoint(dispatched)
    assert kept | set(dispatched) == set(items_of(story))


@given(stories(), st.booleans())
def test_no_success_is_ever_in_a_workload(story: Story, retry_failed: bool) -> None:
    """A success stays, whatever its reward, and also when retrying (E35)."""
    history = history_of(story)
    work = workload(items_of(story), history, retry_failed=retry_failed)
    assert all(
        item not in history.results or history.results[item].status is not Status.SUCCESS
        for item in (*work.together, *work.alone)
    )


@given(stories())
def test_a_resume_runs_what_has_no_result_and_a_retry_also_what_failed(story: Story) -> None:
    """Without a retry nothing is superseded; with it exactly the failed and skipped results are."""
    history = history_of(story)
    resumed = workload(items_of(story), history, retry_failed=False)
    retried = workload(items_of(story), history, retry_failed=True)
    pending = set(items_of(story)) - set(history.results)
    unlucky = {item for item, result in history.results.items() if result.status is not Status.SUCCESS}
    assert set(resumed.together) | set(resumed.alone) == pending
    assert set(retried.together) | set(retried.alone) == pending | unlucky
    assert (resumed.superseded, retried.superseded) == (frozenset(), frozenset(unlucky))


@given(stories(), st.booleans())
def test_items_keep_the_order_of_the_plan(story: Story, retry_failed: bool) -> None:
    """Dispatch order does not depend on what happened before; suspects come last."""
    history = history_of(story)
    work = workload(items_of(story), history, retry_failed=retry_failed)
    for part in (work.together, work.alone):
        assert list(part) == sorted(part)
    assert all(history.strikes.get(item, 0) >= STRIKES_BEFORE_ALONE for item in work.alone)
    assert all(history.strikes.get(item, 0) < STRIKES_BEFORE_ALONE for item in work.together)


@given(st.integers(0, 4), st.integers(1, 3))
def test_an_item_runs_alone_from_its_second_strike_on(crashes: int, n: int) -> None:
    """Strikes are counted over all invocations (ruling 15); one crash may be a coincidence."""
    suspect = WorkItem(0, 0)
    records = [
        record
        for number in range(crashes)
        for record in (
            InvocationStarted(f"{number:032x}", "2026-11-30T12:00:00.000000Z", "0.3.10"),
            InvocationEnded("2026-11-30T12:00:01.000000Z", Ending.SERVER_CRASH, (suspect,)),
        )
    ]
    work = workload(work_items(1, n), fold(records, n), retry_failed=False)
    assert (suspect in work.alone) == (crashes >= STRIKES_BEFORE_ALONE)
    assert work.size == n


@given(changes)
def test_a_refusal_names_every_group_once_and_every_change(found: list[Change]) -> None:
    """`Changed: dataset, rollout` for people, the same and both values for programs."""
    error = refusal("calm-otter-7", found, None)
    groups = sorted({change.group for change in found})
    assert error.message == f"Run calm-otter-7 was made with other inputs. Changed: {', '.join(groups)}"
    assert error.code is ErrorCode.CONFLICT
    assert [problem.where for problem in error.problems] == [change.group for change in found]
    assert error.details["changed"] == groups
    assert [change["after"] for change in error.details["changes"]] == [change.after for change in found]
    assert "--fresh" in (error.hint or "")


@pytest.mark.parametrize("count", [0, 1, 20, 21, 500])
def test_a_refusal_lists_the_files_that_changed_and_stays_readable(count: int) -> None:
    """The first twenty of each kind, then how many more; programs get them all (ruling 5)."""
    paths = tuple(f"src/{number:03d}.py" for number in range(count))
    sources = SourceChanges(added=paths, removed=("old.py",), edited=())
    error = refusal("r", [Change("rollout", "rollout.source_digest", "a", "b")], sources)
    texts = [problem.message for problem in error.problems[1:]]
    shown = [f"added {path}" for path in paths[:20]]
    more = [f"added {count - 20} more files"] if count > 20 else []
    assert texts == [*shown, *more, "removed old.py"]
    assert len(error.details["source_files"]["added"]) == count


def test_files_are_listed_only_when_the_source_changed() -> None:
    """Another group's refusal does not talk of files."""
    error = refusal("r", [Change("env", "env.A", "1", "2")], SourceChanges(added=("x.py",)))
    assert [problem.message for problem in error.problems] == ["env.A: 1 -> 2"]
