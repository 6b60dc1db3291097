"""Promises of the files of `osmosis eval rubric`: its input and its journal (E41; contract `cli.md` section 8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.rubric_journal import (
    Recorded,
    RubricHeader,
    decode_journal,
    encode_header,
    encode_judgement,
    refuse_other,
)
from osmosis.pure.rubric_records import read_records
from tests.strategies.judge import hostile_texts, json_values

HEADER = RubricHeader("d" * 64, "r" * 64, "openai/m", 0.0, 1.0)
written = st.characters(exclude_categories=["Cs"])
judgements = st.builds(
    Recorded,
    index=st.integers(1, 50),
    run=st.integers(0, 3),
    score=st.floats(0, 1),
    explanation=st.text(written, min_size=1, max_size=20),
)


def file_of(*records: object) -> bytes:
    """A JSON-lines file."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def test_what_the_judge_sees_of_a_record():
    """The last assistant message with text; optional members where they have the right type; labels; human scores."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "b"}]
    records = read_records(
        file_of(
            {"messages": [{"role": "assistant", "content": "first"}, {"role": "assistant", "content": parts}], "id": "one"},
            {"messages": [{"role": "assistant", "content": "x"}, {"role": "assistant", "content": ""}], "conversation_id": 7},
            {"messages": [], "solution_str": "s", "ground_truth": "t", "original_input": 5, "metadata": {"k": 1}},
            {"solution_str": "s", "metadata": "no object", "human_score": [0.0, 1]},
        )
        + b"\n  \n",
        "d.jsonl",
    )
    assert [record.solution_str for record in records] == ["a\nb", "x", "s", "s"]
    assert [record.label for record in records] == ["one", "7", "record[3]", "record[4]"]
    assert [record.index for record in records] == [1, 2, 3, 4]
    assert (records[2].ground_truth, records[2].original_input, records[2].metadata) == ("t", None, {"k": 1})
    assert (records[3].metadata, records[3].human_score) == (None, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "{",
        "[]",
        "{}",
        '{"solution_str": " "}',
        '{"messages": "x"}',
        '{"messages": [{"role": "user", "content": "x"}], "solution_str": "s"}',
        '{"solution_str": "s", "human_score": true}',
        '{"solution_str": "s", "human_score": []}',
        '{"solution_str": "s", "solution_str": "t"}',
    ],
)
def test_every_bad_line_is_named(line):
    """All bad lines stand in one error, by file and line; blank lines count as lines."""
    with pytest.raises(OsmosisError) as caught:
        read_records(f'{{"solution_str": "s"}}\n\n{line}\n{line}'.encode(), "d.jsonl")
    assert [problem.where for problem in caught.value.problems] == ["d.jsonl:3", "d.jsonl:4"]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_file_without_records_is_an_error(data):
    """There is nothing to judge."""
    with pytest.raises(OsmosisError, match="no records"):
        read_records(data, "d.jsonl")


@given(st.lists(json_values | st.dictionaries(st.sampled_from(["messages", "solution_str", "id"]), json_values), max_size=4))
def test_no_file_crashes_the_reader(values):
    """Whatever the lines hold, they are records or one error."""
    data = "".join(json.dumps(value) + "\n" for value in values).encode("utf-8", "replace")
    try:
        records = read_records(data, "d.jsonl")
    except OsmosisError:
        return
    assert all(record.solution_str.strip() for record in records)


@given(st.lists(judgements, max_size=6), hostile_texts)
def test_a_journal_truncated_anywhere_keeps_its_whole_lines(made, text):
    """Cut at each byte, the journal holds the judgements of the lines before the cut, and says where they end."""
    lines = [encode_header(HEADER), *map(encode_judgement, made)]
    data = b"".join(lines)
    assert decode_journal(b"", "j") is None
    for cut in range(1, len(data) + 1):
        whole = [line for number, line in enumerate(lines) if len(b"".join(lines[: number + 1])) <= cut]
        journal = decode_journal(data[:cut], "j")
        if not whole:
            assert journal is None
            continue
        assert journal is not None
        assert journal.valid_bytes == len(b"".join(whole))
        expected = {(one.index, one.run): one for one in made[: len(whole) - 1]}
        assert journal.judgements == expected


@pytest.mark.parametrize("line", [b"{}\n", b"x\n", b"5\n", b'{"index": "1"}\n'])
def test_damage_before_the_end_is_an_error(line):
    """A line that was completely written and cannot be read is no torn tail."""
    with pytest.raises(OsmosisError, match="not a readable journal") as caught:
        decode_journal(encode_header(HEADER) + line, "j")
    assert caught.value.problems[0].where == "j:2"
    with pytest.raises(OsmosisError, match="not a readable journal"):
        decode_journal(line, "j")


@pytest.mark.parametrize("name", RubricHeader.__struct_fields__)
def test_a_journal_of_other_judgements_is_refused(name):
    """Whatever decides a judgement must be the same; what changed is named."""
    other = RubricHeader(**{**{field: getattr(HEADER, field) for field in HEADER.__struct_fields__}, name: "x" if name in (
        "data", "rubric", "model") else 9.0})  # fmt: skip
    error = refuse_other(HEADER, other, "j")
    assert error is not None
    assert error.details == {"changed": [name]}
    assert refuse_other(HEADER, HEADER, "j") is None
