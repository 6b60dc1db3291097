"""Model call usage, results and index rows."""

from __future__ import annotations

from hypothesis import strategies as st

from osmosis.pure.index import index_row
from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.pure.usage import CallUsage, TrajectoryUsage

counts = st.integers(0, 200_000)
call_usages = st.builds(
    lambda prompt, completion, hidden: CallUsage(prompt, completion, prompt + completion + hidden), counts, counts, counts
)
trajectory_usages = st.builds(TrajectoryUsage, st.none() | counts, st.none() | counts)
rewards = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0]) | st.floats(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
work_items = st.builds(WorkItem, st.integers(0, 6), st.integers(0, 4))


@st.composite
def results(draw: st.DrawFn) -> Result:
    """A terminal result as the journal holds it: a reward on success only, and perhaps none even there."""
    status = draw(st.sampled_from(Status))
    return Result(
        item=draw(work_items),
        source_row_index=0,
        rollout_id="a" * 32,
        status=status,
        at="2026-11-30T12:35:44.521865Z",
        duration_ms=1.5,
        reward=draw(st.none() | rewards) if status is Status.SUCCESS else None,
        calls=draw(st.none() | st.lists(call_usages, min_size=1, max_size=3).map(tuple)),
    )


index_rows = st.lists(
    st.builds(index_row, results(), st.none() | trajectory_usages, resumed=st.booleans()),
    max_size=24,
    unique_by=lambda row: (row.row_index, row.run_index),
)
thresholds = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(-2, 2)
