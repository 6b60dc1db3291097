"""A survey keeps no rows and can give each of them again from the bytes it came from."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.dataset import RecordBatch, Row
from osmosis.pure.dataset_formats import CSV, JSONL, TextFormat, read_csv, read_jsonl
from osmosis.pure.dataset_survey import DatasetSurvey, Survey, check_piece, rows_again
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.selection import RowSelection, SourceRows
from tests.strategies.data import chunked, json_objects, selections, surrogate_texts, texts

FORMATS = {"jsonl": JSONL, "csv": CSV}
READERS = {"jsonl": read_jsonl, "csv": read_csv}

some_text = texts.filter(bool)
records = st.lists(
    st.fixed_dictionaries({"user_prompt": some_text, "ground_truth": some_text}, optional={"system_prompt": texts, "x": texts}),
    min_size=1,
    max_size=12,
)


def csv_bytes(rows: list[dict[str, str]]) -> bytes:
    """The records as CSV, every cell quoted; a name of a column may hold a line's end too."""
    columns = ["x\ny", "user_prompt", "ground_truth", "system_prompt", "x"]
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, columns, restval="", quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


def jsonl_bytes(rows: list[dict[str, str]]) -> bytes:
    """The records as JSON lines, with a blank line between any two."""
    return b"\n\n".join(json.dumps(row).encode() for row in rows)


WRITERS = {"jsonl": jsonl_bytes, "csv": csv_bytes}


def surveyed(
    batches: list[RecordBatch], rows: RowSelection | None = None, limit: int | None = None
) -> tuple[list[Row], Survey]:
    """The rows as they passed, and the survey."""
    survey = DatasetSurvey(rows=rows, limit=limit, label="d")
    passed = [row for batch in batches for row in survey.add(batch)]
    return passed, survey.finish()


def again(survey: Survey, content: bytes, text_format: TextFormat) -> list[Row]:
    """Every selected row, from the bytes of its piece."""
    found: list[Row] = []
    for piece in survey.pieces:
        data = content[piece.offset : piece.offset + piece.size]
        check_piece(piece, data, "d")
        found += rows_again(piece, text_format.again(survey.header, data), survey.selected)
    return found


@pytest.mark.parametrize("kind", FORMATS)
@given(st.data())
def test_the_same_rows_come_again(kind, data):
    """Whatever the chunks, the blocks and the selection: from the pieces' bytes come the rows that passed, and no others."""
    rows = data.draw(records)
    content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + WRITERS[kind](rows) + b"\n" * data.draw(st.integers(0, 2))
    chunks = data.draw(chunked(content)) if data.draw(st.booleans()) else [content[i : i + 1] for i in range(len(content))]
    batches = list(READERS[kind](chunks, "d", block_bytes=data.draw(st.sampled_from([1, 7, 40, 10**6]))))
    limit = data.draw(st.none() | st.integers(1, len(rows) + 1))
    passed, survey = surveyed(batches, limit=limit)
    assert survey.total_rows == len(rows)
    assert [row.user_prompt for row in passed] == [row["user_prompt"] for row in rows[:limit]]
    assert again(survey, content, FORMATS[kind]) == passed


@pytest.mark.parametrize("kind", FORMATS)
@given(records, st.integers(1, 60))
def test_pieces_neither_overlap_nor_leave_anything_out(kind, rows, block_bytes):
    """With every row selected, the pieces hold all records of the file, one behind the other."""
    content = WRITERS[kind](rows)
    _, survey = surveyed(list(READERS[kind]([content], "d", block_bytes=block_bytes)))
    assert sum(piece.count for piece in survey.pieces) == len(rows)
    for before, after in pairwise(survey.pieces):
        assert before.first + before.count == after.first
        assert before.offset + before.size <= after.offset
    for record in range(len(rows)):
        piece = survey.piece_of(record)
        assert piece.first <= record < piece.first + piece.count


@given(st.lists(st.builds(lambda metadata, text: {"metadata": metadata, "user_prompt": text}, json_objects, surrogate_texts)))
def test_hard_values_come_again_too(rows):
    """Half characters, integers of any size, deep metadata and floats are the same the second time."""
    content = b"".join(json.dumps(row).encode() + b"\n" for row in [*rows, {"user_prompt": "x", "ground_truth": "y"}])
    survey = DatasetSurvey(rows=None, limit=None, label="d")
    passed = [row for batch in read_jsonl([content], "d", block_bytes=64) for row in survey.add(batch)]
    if len(passed) == len(rows) + 1:
        assert again(survey.finish(), content, JSONL) == passed


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_ends_anywhere_has_the_beginning_of_the_rows_or_an_error(kind):
    """Cut after any byte, a file is refused, or has its first rows and maybe a last one that is shorter; nothing else."""
    rows = [{"user_prompt": f"p{i}\né", "ground_truth": f'a"{i}'} for i in range(4)]
    content = WRITERS[kind](rows) + b"\n"
    whole, _ = surveyed(list(READERS[kind]([content], "d")))
    sound = 0
    for length in range(len(content)):
        try:
            found, survey = surveyed(list(READERS[kind]([content[:length]], "d", block_bytes=16)))
        except OsmosisError:
            continue
        sound += 1
        assert found[:-1] == whole[: len(found) - 1]
        assert found == again(survey, content[:length], FORMATS[kind])
    assert sound


@given(st.integers(0, 200), st.binary(max_size=3))
def test_changed_bytes_are_refused(position, patch):
    """A piece whose bytes are not those of the survey is a conflict that names the file and the records."""
    content = jsonl_bytes([{"user_prompt": f"p{i}", "ground_truth": "x"} for i in range(5)]) + b"\n"
    _, survey = surveyed(list(read_jsonl([content], "d")))
    changed = content[:position] + patch + content[position + len(patch) :]
    if changed == content:
        check_piece(survey.pieces[0], changed, "d")
        return
    with pytest.raises(OsmosisError, match=r"^d was changed in place") as caught:
        check_piece(survey.pieces[0], changed, "d")
    assert caught.value.code is ErrorCode.CONFLICT
    assert "records 0 to 4" in str(caught.value)


@given(selections)
def test_source_rows_are_the_indices(selection):
    """Looked up one by one, they are what the selection lists; beyond either end there is nothing."""
    source_rows = SourceRows(selection)
    assert [source_rows[row] for row in range(len(source_rows))] == list(selection.indices())
    for beyond in (-1, len(source_rows)):
        with pytest.raises(IndexError):
            source_rows[beyond]
