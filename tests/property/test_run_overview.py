"""What a list says of a run follows from its small files and its lock."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.journal import InvocationStarted, Record, Result, Status, WorkItem, fold
from osmosis.pure.metrics_file import EvalRunStatus
from osmosis.pure.run_overview import Origin, RunState, counted_by_journal, local_overview, newest_first, unreadable
from osmosis.shell.cli.result import Column
from osmosis.shell.cli.rich_text import fitting_columns
from tests.strategies.cli_records import history, manifest, metrics, overview

STATES = [
    (None, False, RunState.INTERRUPTED),
    (None, True, RunState.RUNNING),
    (EvalRunStatus.RUNNING, True, RunState.RUNNING),
    (EvalRunStatus.RUNNING, False, RunState.INTERRUPTED),
    (EvalRunStatus.INCOMPLETE, False, RunState.INTERRUPTED),
    (EvalRunStatus.INCOMPLETE, True, RunState.INTERRUPTED),
    (EvalRunStatus.FINISHED, False, RunState.FINISHED),
    (EvalRunStatus.FINISHED, True, RunState.FINISHED),
]


@pytest.mark.parametrize(("status", "held", "state"), STATES)
def test_the_state_of_a_run(status: EvalRunStatus | None, held: bool, state: RunState) -> None:
    """Metrics that a kill left at `running` are not believed without the lock; a finished run is finished whoever holds it."""
    found = overview("a", status, held=held)
    assert found.state is state
    assert found.origin is Origin.LOCAL
    assert found.planned == 6


@pytest.mark.parametrize("inputs", [{}, {"dataset": None}, {"dataset": {"selected_source_rows": "x"}, "n": 1}])
def test_a_manifest_that_does_not_say_its_size_is_unreadable(inputs: dict[str, object]) -> None:
    """Whatever an older or damaged manifest lacks, the list goes on and says why."""
    found = local_overview("p", "a", msgspec.structs.replace(manifest(), inputs=inputs), metrics(), held=False)
    assert found.state is RunState.UNREADABLE
    assert found.problem


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]))))
def test_the_newest_run_comes_first(runs: list[tuple[str, str]]) -> None:
    """Times fall, equal times stand by name, and runs without a time are last."""
    overviews = [overview(name, EvalRunStatus.FINISHED, created_at=at) for name, at in runs]
    ordered = newest_first([unreadable("p", "z", "why"), *overviews])
    times = [run.created_at for run in ordered]
    assert times == sorted(times, reverse=True)
    assert ordered[-1].name == "z"
    for one, other in itertools.pairwise(ordered):
        assert one.created_at != other.created_at or one.name <= other.name


tables = st.integers(1, 6).flatmap(
    lambda count: st.tuples(
        st.lists(st.builds(Column, st.text("ab", max_size=9), st.integers(0, 9)), min_size=count, max_size=count),
        st.lists(st.tuples(*[st.text("xy", max_size=12)] * count), max_size=4),
    )
)


@given(tables, st.integers(1, 100))
def test_a_list_drops_its_lightest_columns(table: tuple[list[Column], list[tuple[str, ...]]], width: int) -> None:
    """What stays fits, or is one column; nothing that was dropped weighs more than what stays; the order is kept."""
    columns, rows = table
    shown = fitting_columns(tuple(columns), tuple(rows), width)
    dropped = set(range(len(columns))) - set(shown)
    needs = [max(len(text) for text in (column.title, *(row[n] for row in rows))) for n, column in enumerate(columns)]
    assert list(shown) == sorted(shown)
    assert len(shown) == 1 or 1 + sum(needs[n] + 3 for n in shown) <= width
    assert all(columns[kept].weight >= columns[gone].weight for kept in shown for gone in dropped)


@pytest.mark.parametrize("status", [None, EvalRunStatus.RUNNING, EvalRunStatus.INCOMPLETE])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("done", range(6))
def test_an_unfinished_run_is_counted_by_its_journal(status: EvalRunStatus | None, held: bool, done: int) -> None:
    """However old the metrics are: every durable result counts, and no other."""
    found = counted_by_journal(overview("a", status, held=held), history(done))
    assert found.metrics is not None
    summary = found.metrics.summary
    assert (found.done, summary.failed, summary.passed) == (done, min(done, 1), max(done - 1, 0))
    assert found.state is overview("a", status, held=held).state


@pytest.mark.parametrize(("status", "done"), [(EvalRunStatus.FINISHED, 6), (EvalRunStatus.INCOMPLETE, 3)])
def test_final_metrics_are_kept(status: EvalRunStatus, done: int) -> None:
    """They hold more than counts, and what was interrupted in an orderly way has them too, unless the journal went on."""
    ended = overview("a", status)
    assert counted_by_journal(ended, history(done)) is ended
    assert counted_by_journal(ended, history(done - 1)) is not ended


@pytest.mark.parametrize(("held", "done"), [(True, 1), (False, 2)])
def test_what_a_retry_will_replace_does_not_count_while_it_goes_on(held: bool, done: int) -> None:
    """An old failure of an item that waits for its retry is no result of the run as it stands; once nobody retries, it is."""
    at = "2026-11-30T16:05:06Z"
    records: list[Record] = [
        InvocationStarted("a", at, "0.3.10"),
        Result(WorkItem(0, 0), 0, "0" * 32, Status.FAILED, at, 1.0, error_type="timeout"),
        Result(WorkItem(0, 1), 0, "1" * 32, Status.SUCCESS, at, 1.0, reward=1.0),
        InvocationStarted("b", at, "0.3.10", retry_failed=True),
    ]
    assert counted_by_journal(overview("a", EvalRunStatus.RUNNING, held=held), fold(records, 6)).done == done
