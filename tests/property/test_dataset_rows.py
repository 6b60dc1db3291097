from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.dataset import Row
from osmosis.pure.dataset_rows import DatasetRow, decode_dataset_rows, encode_dataset_rows
from osmosis.pure.errors import OsmosisError
from tests.strategies import data as strategies

SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def encode(rows: list[Row]) -> bytes:
    """The whole file."""
    return b"".join(encode_dataset_rows(rows))


def line(row: Row) -> dict[str, object]:
    """The only line of a one-row file, parsed by the standard library."""
    data = encode([row])
    assert data.endswith(b"\n")
    return json.loads(data[:-1].decode())


@given(st.lists(strategies.rows(), max_size=5))
def test_each_line_says_what_the_row_says(rows):
    """Position, prompt (or metadata, or nothing) and label, in this key order, valid UTF-8 whatever the texts hold."""
    lines = encode(rows).decode().split("\n")
    assert lines.pop() == ""
    for index, (row, text) in enumerate(zip(rows, lines, strict=True)):
        canonical = json.dumps(row.metadata, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        prompt = row.user_prompt if row.user_prompt is not None else canonical if row.metadata else ""
        expected = {"row_index": index, "prompt": prompt.translate(SURROGATES)}
        if row.label is not None:
            expected["label"] = row.label.translate(SURROGATES)
        assert json.loads(text) == expected
        assert list(json.loads(text)) == list(expected)


@given(st.lists(strategies.rows(), max_size=5))
def test_bytes_read_back(rows):
    """The reader gives back every line of what the writer wrote."""
    decoded = decode_dataset_rows(encode(rows), "d")
    assert [row.row_index for row in decoded] == list(range(len(rows)))
    assert [(row.label is None) for row in decoded] == [row.label is None for row in rows]


@given(st.sampled_from(["a", "é", "😀", "\ud800", "\0", '"']), st.integers(1990, 2010), st.integers(495, 505))
def test_cuts_count_code_points(character, prompt_length, label_length):
    """2,000 and 500 code points, however many bytes or escapes each takes."""
    found = line(Row(0, user_prompt=character * prompt_length, label=character * label_length))
    kept = character.translate(SURROGATES)
    assert found["prompt"] == kept * min(prompt_length, 2000)
    assert found["label"] == kept * min(label_length, 500)


def test_the_metadata_fallback_is_cut_too():
    """A long metadata object is cut like a prompt, which need not leave valid JSON in the text."""
    assert line(Row(0, metadata={"b": "x" * 3000, "a": 1}))["prompt"] == '{"a":1,"b":"' + "x" * 1988


def test_many_rows_come_in_chunks_of_whole_lines():
    """A large dataset is never one piece of memory, and every piece ends with a line."""
    chunks = list(encode_dataset_rows(Row(i, user_prompt=str(i)) for i in range(5000)))
    assert len(chunks) > 1
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert [row.prompt for row in decode_dataset_rows(b"".join(chunks), "d")] == [str(i) for i in range(5000)]


def test_one_row_with_half_a_character_does_not_change_the_others():
    """The bytes of a row depend on that row alone."""
    plain = [Row(i, user_prompt="é\u2028", label="x") for i in range(3)]
    broken = [*plain[:2], Row(2, user_prompt="\ud800", label="x")]
    assert encode(plain).split(b"\n")[:2] == encode(broken).split(b"\n")[:2]


def test_every_truncated_file_is_refused_or_shorter():
    """Cut anywhere, the file is an error that names it, or exactly its first lines."""
    rows = [Row(i, user_prompt=f"p{i}", label="é") for i in range(3)]
    data = encode(rows)
    whole = decode_dataset_rows(data, "d")
    for length in range(len(data)):
        if data[:length].endswith(b"\n") or length == 0:
            assert decode_dataset_rows(data[:length], "d") == whole[: data[:length].count(b"\n")]
        else:
            with pytest.raises(OsmosisError, match="not a list of dataset rows"):
                decode_dataset_rows(data[:length], "d")


def test_all_problems_of_a_damaged_file_are_told():
    """Wrong order, unknown keys, wrong types, blank lines and a torn end, each with its line."""
    data = (
        b'{"row_index":1,"prompt":""}\n{"row_index":1,"prompt":"","x":0}\n\n'
        b'{"row_index":"3","prompt":""}\n{"row_index":4,"prompt":""}'
    )
    with pytest.raises(OsmosisError) as caught:
        decode_dataset_rows(data, "run/dataset_rows.jsonl")
    assert [problem.where for problem in caught.value.problems] == [f"run/dataset_rows.jsonl:{n}" for n in (1, 2, 3, 4, 5)]


def test_an_empty_file_has_no_rows():
    """Nothing is nothing."""
    assert decode_dataset_rows(b"", "d") == ()
    assert encode([]) == b""
    assert DatasetRow(0, "x").label is None
