"""Journal records and whole journals."""

from __future__ import annotations

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
    encode_record,
)
from tests.strategies.numbers import call_usages

work_items = st.builds(WorkItem, st.integers(0, 5), st.integers(0, 3))
rollout_ids = st.text("0123456789abcdef", min_size=32, max_size=32)
times = st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
texts = st.text(st.characters(codec="utf-8"), max_size=40)
finite = st.floats(allow_nan=False, allow_infinity=False)
durations = st.floats(0, 1e9)


@st.composite
def results(draw: st.DrawFn) -> Result:
    """A terminal result with whatever text a rollout may have put into its error."""
    status = draw(st.sampled_from(Status))
    failed = status is Status.FAILED
    return Result(
        item=draw(work_items),
        source_row_index=draw(st.integers(0, 2**40)),
        rollout_id=draw(rollout_ids),
        status=status,
        at=draw(times),
        duration_ms=draw(durations),
        reward=draw(st.none() | finite) if status is Status.SUCCESS else None,
        error_type=draw(texts) if failed else None,
        error_message=draw(st.none() | texts) if failed else None,
        calls=draw(st.none() | st.lists(call_usages, min_size=1, max_size=3).map(tuple)),
    )


records: st.SearchStrategy[Record] = st.one_of(
    st.builds(InvocationStarted, rollout_ids, times, texts, st.booleans(), st.none() | st.integers(1, 64)),
    st.builds(InvocationEnded, times, st.sampled_from(Ending), st.lists(work_items, max_size=3).map(tuple)),
    st.builds(Attempt, work_items, rollout_ids, st.integers(1, 9), times),
    results(),
)
journals = st.lists(records, max_size=8)


def encoded(journal: list[Record]) -> list[bytes]:
    """The lines of a journal."""
    return [encode_record(record, number) for number, record in enumerate(journal, 1)]
