from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.selection import RowRange, RowSelection, managed_sample, parse_rows, resolve_selection, select
from tests.strategies.data import row_ranges, selections


@given(st.lists(row_ranges, min_size=1, max_size=6))
def test_select_is_the_union_of_its_ranges(ranges):
    """A selection holds exactly the rows of its ranges, ascending, in ranges that neither overlap nor touch."""
    selection = select(ranges)
    expected = sorted({index for part in ranges for index in range(part.first, part.last + 1)})
    assert list(selection.indices()) == expected
    assert selection.count == len(expected)
    assert all(left.last + 1 < right.first for left, right in zip(selection.ranges, selection.ranges[1:], strict=False))


@given(selections)
def test_rendered_selector_reads_back(selection):
    """What the manifest records is a valid `--rows` that selects the same rows."""
    assert parse_rows(f" {selection} ") == selection


@given(selections, st.integers(0, 80))
def test_membership(selection, index):
    """`in` agrees with the list of indices."""
    assert (index in selection) == (index in set(selection.indices()))


@given(selections, st.integers(0, 80), st.integers(0, 30))
def test_within_cuts_out_a_window(selection, first, count):
    """`within` gives the selected rows of a window, each once, ascending."""
    found = [index for part in selection.within(first, count) for index in part]
    assert found == [index for index in selection.indices() if first <= index < first + count]


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "1,,2", "1, 2", "1-2-3", "٣", "²", "1;2", "1\n2", "+1", "0x1", ",1", "1," * 50]
)
def test_bad_grammar_is_refused(text):
    """Only ASCII digits, single dashes and commas make a selector."""
    with pytest.raises(OsmosisError, match="not a list of rows") as caught:
        parse_rows(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_nothing_but_space_is_not_given(text):
    """An empty `--rows`, as scripts produce it, selects nothing in particular."""
    assert parse_rows(text) is None


def test_inverted_ranges_are_all_shown_the_right_way_round():
    """Each inverted range is named with its corrected form."""
    with pytest.raises(OsmosisError) as caught:
        parse_rows("9-3,1,5-4")
    assert [problem.message for problem in caught.value.problems] == ["9-3; did you mean 3-9?", "5-4; did you mean 4-5?"]


def test_a_huge_range_costs_nothing():
    """A range of 10^12 rows is two numbers, and is refused once the file turns out to be small."""
    selection = parse_rows("0-999999999999")
    assert selection is not None
    assert selection.count == 10**12
    with pytest.raises(OsmosisError) as caught:
        resolve_selection(selection, None, 5, "data.csv")
    assert "data.csv" in caught.value.message
    assert "5-999999999999" in caught.value.message
    assert "5 rows" in str(caught.value)
    assert "0-4" in str(caught.value)


def test_absurdly_long_numbers_are_refused():
    """A number beyond any file is an error, not a long computation."""
    with pytest.raises(OsmosisError, match="5000 digits"):
        parse_rows("1" * 5000)


def test_indices_beyond_the_end_are_listed_compactly():
    """Only the offending part of each range is listed."""
    with pytest.raises(OsmosisError, match=r"does not have: 10-12,20\."):
        resolve_selection(parse_rows("1,8-12,20"), None, 10, "d")


@given(st.integers(1, 50), st.integers(1, 80))
def test_limit_takes_the_first_rows(total, limit):
    """`limit` selects the first N rows, or all when there are fewer; rows win over it; neither selects all."""
    assert list(resolve_selection(None, limit, total, "d").indices()) == list(range(min(limit, total)))
    assert resolve_selection(None, None, total, "d").count == total
    assert resolve_selection(RowSelection((RowRange(0, 0),)), limit, total, "d").count == 1


@pytest.mark.parametrize("rows", [None, RowSelection((RowRange(0, 0),))])
def test_no_rows_is_an_error(rows):
    """An empty dataset never becomes an empty run."""
    with pytest.raises(OsmosisError, match="has no rows"):
        resolve_selection(rows, None, 0, "d")


@given(st.integers(1, 300), st.integers(-(2**70), 2**70))
def test_managed_sample_is_a_tenth(total, seed):
    """A tenth of the rows, at least one, all of them in the file, and the same ones for the same seed."""
    sample = managed_sample(total, seed)
    assert sample.count == max(1, total // 10)
    assert sample.ranges[-1].last < total
    assert sample == managed_sample(total, seed)


def test_managed_sample_depends_on_the_seed_and_reaches_every_row():
    """Over many seeds every row is drawn about equally often (40 rows, 4 drawn, 3000 seeds: 300 expected, 6 sigma is 100)."""
    drawn = [0] * 40
    for seed in range(3000):
        for index in managed_sample(40, seed).indices():
            drawn[index] += 1
    assert min(drawn) > 200
    assert max(drawn) < 400


def test_managed_sample_is_pinned():
    """The sample of a seed never changes, or a recorded seed would no longer say which rows ran."""
    assert str(managed_sample(100, 7)) == "2,18-20,22,36,72,88,91-92"
