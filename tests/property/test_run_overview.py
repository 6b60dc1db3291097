"""What a list says of a run follows from its small files and its lock."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.metrics_file import EvalRunStatus
from osmosis.pure.run_overview import Origin, RunState, local_overview, newest_first, unreadable
from osmosis.shell.cli.result import Column
from osmosis.shell.cli.rich_text import fitting_columns
from tests.strategies.cli_records import manifest, metrics, overview

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
