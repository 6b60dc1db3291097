"""Tables of one value an item: they say what a dict says, in the order of the plan, in a bounded number of bytes."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from osmosis.pure.item_table import ItemTable, packed_history, packing
from osmosis.pure.journal import Attempt, InvocationStarted, Record, Result, RunHistory, Status, WorkItem, fold
from osmosis.pure.usage import CallUsage
from tests.strategies.journal import journals, results

ROWS, RUNS = 4, 3
"""A plan that some of the items which are drawn are not in."""
MANY, MANY_RUNS = 5_000, 4
AT = "2026-11-30T12:35:44.521865Z"


class TableAgainstDict(RuleBasedStateMachine):
    """The same is put into both and taken out of both."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ItemTable(packing(Result), ROWS, RUNS)
        self.model: dict[WorkItem, Result] = {}

    @rule(result=results(), source=st.just(0) | st.just(2**64))
    def put(self, result: Result, source: int) -> None:
        """A value, in place of an earlier one; one of them holds a number that no packing holds."""
        result = msgspec.structs.replace(result, source_row_index=result.source_row_index + source)
        self.table[result.item] = self.model[result.item] = result

    @rule(item=st.builds(WorkItem, st.integers(0, 5), st.integers(0, 3)))
    def take(self, item: WorkItem) -> None:
        """Remove an item, if it is there."""
        if item not in self.model:
            with pytest.raises(KeyError):
                del self.table[item]
            return
        del self.table[item], self.model[item]

    @invariant()
    def the_same(self) -> None:
        """Equal as mappings, from each side, by every way of asking."""
        assert dict(self.table) == self.model
        assert len(self.table) == len(self.model)
        for row in range(ROWS + 2):
            for run in range(RUNS + 2):
                item = WorkItem(row, run)
                assert self.table.get(item) == self.model.get(item)
                assert (item in self.table) == (item in self.model)


TestTableAgainstDict = TableAgainstDict.TestCase


@given(st.lists(results(), max_size=30))
def test_items_stand_in_the_order_of_the_plan(values: list[Result]) -> None:
    """Whatever came first; those outside the plan come last."""
    table = ItemTable(packing(Result), ROWS, RUNS)
    for value in values:
        table[value.item] = value
    items = list(table)
    planned = [item for item in items if item.row_index < ROWS and item.run_index < RUNS]
    assert planned == sorted(planned)
    assert items[: len(planned)] == planned


@given(journals)
def test_a_packed_history_says_what_any_history_says(journal: list[Record]) -> None:
    """Results, attempts, strikes, invocations, who made what and what was carried over."""
    plain, packed = RunHistory(ROWS * RUNS), packed_history(ROWS, RUNS)
    for history in (plain, packed):
        history.extend(journal)
    assert dict(packed.results) == plain.results
    assert dict(packed.attempts) == plain.attempts
    assert (packed.strikes, packed.invocations) == (plain.strikes, plain.invocations)
    assert (packed.finished, packed.last_result_at) == (plain.finished, plain.last_result_at)
    for item in [*plain.results, WorkItem(9, 9)]:
        assert packed.resumed(item) == plain.resumed(item)
        assert packed.made_by(item) == plain.made_by(item)


def test_no_history_shares_its_tables() -> None:
    """Each run has its own."""
    one, other = packed_history(1, 1), packed_history(1, 1)
    one.attempts[WorkItem(0, 0)] = 1
    assert not other.attempts


def result_of(item: WorkItem, reward: float = 1.0) -> Result:
    """A result as most are."""
    name = f"{item.row_index * MANY_RUNS + item.run_index:032x}"
    calls = (CallUsage(1000, 200, 1200),)
    return Result(item, item.row_index, name, Status.SUCCESS, AT, 338.627, reward=reward, calls=calls, cost_usd=0.00125)


def story() -> list[Record]:
    """A run of 20,000 items."""
    records: list[Record] = [InvocationStarted("i" * 32, AT, "0.3.10")]
    for item in (WorkItem(row, run) for row in range(MANY) for run in range(MANY_RUNS)):
        result = result_of(item)
        records += [Attempt(item, result.rollout_id, 1, AT), result]
    return records


def test_an_item_of_the_history_takes_some_150_bytes() -> None:
    """Attempt and result of an item, in what Python allocates: a sixth of what objects in dicts take."""
    records = story()
    tracemalloc.start()
    try:
        history = packed_history(MANY, MANY_RUNS)
        history.extend(records)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(history.results) == MANY * MANY_RUNS
    assert held / (MANY * MANY_RUNS) < 200
    assert history.results[WorkItem(7, 3)] == result_of(WorkItem(7, 3))
    assert fold(records, MANY * MANY_RUNS).results == dict(history.results)


def test_what_was_replaced_takes_no_room_for_long() -> None:
    """Memory depends on the number of items, not on how often each was retried."""
    table = ItemTable(packing(Result), 100, 1)
    for number in range(10_000):
        item = WorkItem(number % 100, 0)
        table[item] = result_of(item, float(number))
    assert [result.reward for result in table.values()] == [float(number) for number in range(9_900, 10_000)]
    assert table.size < 200_000
