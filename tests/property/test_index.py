"""`index.jsonl`: lines for any result, in any order, read back; usage from one source; absent keys left out."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.index import IndexRow, as_json_object, decode_index, encode_index, encode_index_line, index_row
from osmosis.pure.journal import Result
from osmosis.pure.usage import TrajectoryUsage, rollout_usage
from tests.strategies.journal import results

KEYS = [
    "row_index",
    "run_index",
    "rollout_id",
    "trajectory_filename",
    "status",
    "reward",
    "tokens",
    "max_context_tokens",
    "cost_usd",
    "duration_ms",
    "error_type",
    "resumed",
]
counts = st.integers(0, 2**53 - 1)
usages = st.none() | st.builds(TrajectoryUsage, st.none() | counts, st.none() | counts)
rows = st.builds(lambda result, usage, resumed: index_row(result, usage, resumed=resumed), results(), usages, st.booleans())
unique_rows = st.lists(rows, max_size=6, unique_by=lambda row: (row.row_index, row.run_index))


@given(rows)
def test_a_line_is_read_back(row: IndexRow) -> None:
    """One line, in the contract's key order, without null and without `resumed: false`."""
    line = encode_index_line(row)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_index(line, "index.jsonl") == (row,)
    value = json.loads(line)
    assert list(value) == [key for key in KEYS if key in value]
    assert None not in value.values()
    assert value.get("resumed", True) is True
    assert value == as_json_object(row)


@given(unique_rows, st.randoms(use_true_random=False))
def test_the_file_does_not_depend_on_the_order_of_results(rows: list[IndexRow], random) -> None:
    """Whatever order items finished in, the file is the same, sorted by row and run."""
    shuffled = [*rows]
    random.shuffle(shuffled)
    data = encode_index(rows)
    assert encode_index(shuffled) == data
    places = [(row.row_index, row.run_index) for row in decode_index(data, "index.jsonl")]
    assert places == sorted(places)
    assert len(places) == len(rows)


@given(results(), usages, st.booleans())
def test_a_row_says_what_the_result_and_the_trial_say(result: Result, usage: TrajectoryUsage | None, resumed: bool) -> None:
    """Nothing is added to a result but its trajectory and its usage, from one source (E18)."""
    row = index_row(result, usage, resumed=resumed)
    assert (row.row_index, row.run_index) == (result.item.row_index, result.item.run_index)
    for name in ("rollout_id", "status", "reward", "duration_ms", "error_type"):
        assert getattr(row, name) == getattr(result, name)
    assert (row.trajectory_filename is None) == (usage is None)
    expected = rollout_usage(result.calls, usage)
    assert (row.tokens, row.max_context_tokens, row.resumed) == (expected.tokens, expected.max_context_tokens, resumed)


@given(unique_rows.filter(bool), st.data())
def test_a_file_cut_anywhere_is_never_misread(rows: list[IndexRow], data: st.DataObject) -> None:
    """Of a torn file either the whole lines are read, or the torn one is named."""
    whole = encode_index(rows)
    torn = whole[: data.draw(st.integers(0, len(whole)))]
    complete = torn.count(b"\n")
    rest = torn.rpartition(b"\n")[2]
    only_the_newline_is_missing = bool(rest) and whole[len(torn) :].startswith(b"\n")
    if not rest or only_the_newline_is_missing:
        found = decode_index(torn, "index.jsonl")
        assert found == decode_index(whole, "index.jsonl")[: complete + bool(rest)]
    else:
        with pytest.raises(OsmosisError) as caught:
            decode_index(torn, "index.jsonl")
        assert [problem.where for problem in caught.value.problems] == [f"index.jsonl:{complete + 1}"]


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value | {"status": "done"},
        lambda value: value | {"extra": 1},
        lambda value: value | {"row_index": "0"},
        lambda value: value | {"duration_ms": None},
        lambda value: {key: item for key, item in value.items() if key != "rollout_id"},
    ],
)
def test_every_bad_line_is_named(change) -> None:
    """All problems at once, each with its line, and a way out."""
    good = {"row_index": 0, "run_index": 0, "rollout_id": "a", "status": "success", "duration_ms": 1.0}
    lines = [good, change(good), good, change(good)]
    with pytest.raises(OsmosisError, match="not a valid index") as caught:
        decode_index(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "i")
    assert [problem.where for problem in caught.value.problems] == ["i:2", "i:4"]
    assert caught.value.hint


@given(rows, st.sampled_from([float("nan"), float("inf")]))
def test_numbers_that_are_not_finite_are_refused(row: IndexRow, value: float) -> None:
    """The file is strict JSON."""
    for broken in (msgspec.structs.replace(row, reward=value), msgspec.structs.replace(row, duration_ms=value)):
        with pytest.raises(ValueError, match="Out of range"):
            encode_index_line(broken)
