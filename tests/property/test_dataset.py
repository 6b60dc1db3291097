from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.dataset import RecordBatch, Row, missing_columns, normalise_plain, normalise_row
from osmosis.pure.dataset_survey import DatasetSurvey, Survey
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.selection import RowSelection, parse_rows
from tests.strategies.data import json_objects, json_values, selections, surrogate_texts


def row(values: dict[str, object]) -> Row:
    """The row of a sound record."""
    result = normalise_row(values, 7)
    assert isinstance(result, Row), result
    assert result.source_row_index == 7
    return result


def wrong(values: dict[str, object]) -> tuple[str, ...]:
    """What is wrong with an unsound record."""
    result = normalise_row(values, 7, beyond_json=True)
    assert isinstance(result, tuple)
    return result


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (" \n", " \n"),
        (7, "7"),
        (True, "True"),
        (["x", 1], "['x', 1]"),
        (1.5, "1.5"),
        (0, "0"),
        (10**30, "1" + "0" * 30),
        ({"a": None}, "{'a': None}"),
        ("\ud800", "\ud800"),
    ],
)
def test_text_is_coerced_as_the_contract_says(value, text):
    """Strings are kept, white space included; other types are written as Python writes them."""
    found = row({"user_prompt": value, "ground_truth": value, "system_prompt": value})
    assert (found.system_prompt, found.user_prompt, found.label) == (text, text, text)


@pytest.mark.parametrize(("absent", "word"), [(None, "null"), ("", "empty")])
def test_absent_text_is_told_as_what_it_is(absent, word):
    """Without the key `metadata`, a prompt and a ground truth are required. Both complaints come at once, and each says whether
    the column is not there, null, or empty."""
    assert wrong({"user_prompt": absent, "ground_truth": absent}) == (f"user_prompt is {word}", f"ground_truth is {word}")
    assert wrong({}) == ("user_prompt is missing", "ground_truth is missing")
    assert wrong({"user_prompt": "x", "label": absent}) == (f"label is {word}",)
    assert wrong({"user_prompt": "x", "ground_truth": absent, "label": ""}) == (f"ground_truth is {word}",)


def test_label_is_an_alias():
    """`label` counts only where ground_truth is null or empty."""
    assert row({"user_prompt": "x", "label": 4}).label == "4"
    assert row({"user_prompt": "x", "label": "b", "ground_truth": ""}).label == "b"
    assert row({"user_prompt": "x", "label": "b", "ground_truth": " "}).label == " "


@pytest.mark.parametrize("empty", [None, "", "  ", {}, "{}", " { } "])
def test_the_key_metadata_relaxes_the_row(empty):
    """With the key, even null, a single message is enough; nothing at all is not."""
    assert row({"metadata": empty, "system_prompt": "s"}) == Row(7, system_prompt="s")
    assert row({"metadata": empty, "user_prompt": "u"}) == Row(7, user_prompt="u")
    assert wrong({"metadata": empty, "ground_truth": "x"}) == ("it has neither a prompt nor metadata",)


@given(json_objects.filter(bool))
def test_metadata_may_be_an_object_or_spell_one(metadata):
    """An object and a string that holds it give the same row, whatever is in it."""
    as_string = row({"metadata": json.dumps(metadata)}).metadata
    assert as_string == row({"metadata": metadata}).metadata == metadata


@pytest.mark.parametrize("value", ["[1]", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "null", "7", 7, True, [], "x" * 10])
def test_other_metadata_is_refused(value):
    """Metadata that is no object, not JSON, or ambiguous JSON is named as the problem."""
    assert len(wrong({"metadata": value, "user_prompt": "x"})) == 1
    assert "metadata" in wrong({"metadata": value, "user_prompt": "x"})[0]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [dt.date(2030, 1, 1)]}, "metadata.a[0]"),
        ({"a": {"b": float("nan")}}, "metadata.a.b"),
        ({"a": b"x"}, "metadata.a"),
        ({"a": Decimal(1)}, "metadata.a"),
    ],
)
def test_metadata_that_json_cannot_hold_is_refused(value, path):
    """Parquet has types that could be neither sent nor written; the place is named."""
    assert wrong({"metadata": value})[0].startswith(f"{path} is ")


def test_binary_text_is_refused():
    """Bytes are not text, and are not shown as Python shows them."""
    assert wrong({"user_prompt": b"x", "ground_truth": "y"}) == ("user_prompt holds binary data",)


def test_metadata_string_with_lone_surrogates_works():
    """A string that holds half a character is still an object; the half is kept for the row and replaced on writing."""
    assert row({"metadata": '{"a": "\ud800"}'}).metadata == {"a": "\ud800"}


def test_deeply_nested_metadata_is_our_own_error():
    """Nesting beyond every limit is a complaint, not a crash."""
    assert "metadata" in wrong({"metadata": '{"a":' + "[" * 100_000})[0]


@given(
    st.dictionaries(st.sampled_from(["system_prompt", "user_prompt", "ground_truth", "label", "metadata", "x"]), json_values)
)
def test_normalisation_keeps_its_invariants(values):
    """Any record gives a row without empty parts, with something to work on, or a complaint."""
    found = normalise_row(values, 3)
    if isinstance(found, tuple):
        assert found
        return
    assert "" not in (found.system_prompt, found.user_prompt, found.label)
    assert found.metadata is None or found.metadata
    assert found.messages() or found.metadata
    assert "metadata" in values or (found.user_prompt is not None and found.label is not None)


plain_values = st.none() | st.just("") | surrogate_texts | st.sampled_from([0, False, 7, [], b"x", 1.5, float("nan")])
columns = ("system_prompt", "user_prompt", "ground_truth", "label", "x")


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries({"user_prompt": surrogate_texts, "ground_truth": surrogate_texts})
        | st.dictionaries(st.sampled_from(columns), plain_values)
        | st.dictionaries(st.sampled_from([*columns, "metadata"]), plain_values),
        max_size=4,
    )
)
def test_the_quick_way_agrees_with_the_long_one(records):
    """Records that are normalised all at once come out as they do one by one; what is wrong is left to the long way."""
    quick = normalise_plain(records, range(5, 5 + len(records)))
    slow = [None if values is None else normalise_row(values, index) for index, values in enumerate(records, 5)]
    assert quick is None or quick == slow


def test_ordinary_records_take_the_quick_way():
    """With and without a system prompt, with `label` for `ground_truth`, with columns that nobody uses."""
    records: list[dict[str, object] | None] = [
        {"user_prompt": "a", "ground_truth": "b", "x": {"y": [1]}},
        {"user_prompt": "a", "label": "b", "system_prompt": ""},
        {"user_prompt": "a", "label": "b", "ground_truth": None, "system_prompt": "c"},
    ]
    assert normalise_plain(records, range(3)) == [Row(0, None, "a", "b"), Row(1, None, "a", "b"), Row(2, "c", "a", "b")]


@given(st.none() | surrogate_texts.filter(bool), st.none() | surrogate_texts.filter(bool))
def test_messages_are_fresh_and_in_order(system, user):
    """System before user, each at most once; changing the list changes nothing in the row."""
    one = Row(0, system, user)
    expected = [(role, text) for role, text in (("system", system), ("user", user)) if text is not None]
    assert [(message["role"], message["content"]) for message in one.messages()] == expected
    one.messages().append({"role": "user", "content": "x"})
    for message in one.messages():
        message["content"] = "changed"
    assert [(message["role"], message["content"]) for message in one.messages()] == expected


@pytest.mark.parametrize(
    ("columns", "lacking"),
    [
        (["user_prompt", "ground_truth"], None),
        (["user_prompt", "label"], None),
        (["metadata"], None),
        (["user_prompt"], "no column ground_truth"),
        (["label"], "no column user_prompt"),
        ([], "no column user_prompt and no column ground_truth"),
    ],
)
def test_missing_columns(columns, lacking):
    """A table that can hold no sound row is recognised by its header."""
    assert missing_columns(columns) == lacking


def batches(total: int, size: int, bad: frozenset[int] = frozenset()) -> list[RecordBatch]:
    """`total` records in batches of `size`; those in `bad` lack a ground truth."""
    made = []
    for first in range(0, total, size):
        indices = range(first, min(first + size, total))
        records = [{"user_prompt": f"p{i}"} | ({} if i in bad else {"ground_truth": "x"}) for i in indices]
        made.append(RecordBatch(len(records), records, [i + 10 for i in indices]))
    return made


def survey(made: list[RecordBatch], rows: RowSelection | None = None, limit: int | None = None) -> tuple[list[Row], Survey]:
    """The selected rows of the batches, and what was found."""
    taking = DatasetSurvey(rows=rows, limit=limit, label="d.jsonl")
    found = [row for batch in made for row in taking.add(batch)]
    return found, taking.finish()


@given(st.integers(80, 120), st.integers(1, 30), st.none() | selections, st.none() | st.integers(1, 150))
def test_the_selected_rows_come_in_dataset_order(total, size, chosen, limit):
    """Whatever the batches: exactly the selected rows, in order, and the true row count."""
    rows, found = survey(batches(total, size), chosen, limit)
    indices = list(chosen.indices()) if chosen else list(range(min(limit or total, total)))
    assert [one.source_row_index for one in rows] == indices == list(found.selected.indices())
    assert [one.user_prompt for one in rows] == [f"p{index}" for index in indices]
    assert found.total_rows == total
    for index in indices:
        piece = found.piece_of(index)
        assert piece.first <= index < piece.first + piece.count


def test_rows_that_nobody_selected_need_not_be_sound():
    """Column errors count for selected rows only."""
    bad = frozenset({1, 3})
    assert len(survey(batches(5, 2, bad), parse_rows("0,2,4"))[0]) == 3
    with pytest.raises(OsmosisError) as caught:
        survey(batches(5, 2, bad))
    assert caught.value.problems == (
        Problem("d.jsonl:11", "row 1: ground_truth is missing"),
        Problem("d.jsonl:13", "row 3: ground_truth is missing"),
    )


def test_lines_that_do_not_parse_count_wherever_they_are():
    """A broken line is an error even where no row of it was selected."""
    broken = RecordBatch(1, [None], [2], (Problem("d:2", "not JSON"),))
    with pytest.raises(OsmosisError, match="1 problem"):
        survey([*batches(1, 1), broken], parse_rows("0"))


def test_of_many_problems_the_first_are_shown_and_all_are_counted():
    """Twenty problems and the number of the others fit on a screen."""
    with pytest.raises(OsmosisError, match="3000 problems") as caught:
        survey(batches(3000, 7, frozenset(range(3000))))
    assert len(caught.value.problems) == 21
    assert str(caught.value.problems[-1]) == "... and 2980 more"
    assert caught.value.details == {"problem_count": 3000}
