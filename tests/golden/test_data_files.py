"""Exact bytes of `dataset_rows.jsonl` and `source_files.json`. The golden files were written by hand from the contract."""

from __future__ import annotations

from pathlib import Path

from osmosis.pure.dataset import Row
from osmosis.pure.dataset_rows import DatasetRow, decode_dataset_rows, encode_dataset_rows
from osmosis.pure.digest import SourceEntry, decode_source_files, encode_source_files, source_tree_digest

FOLDER = Path(__file__).parent / "data"

ROWS = (
    Row(0, user_prompt="2*2?", label="4"),
    Row(3, system_prompt="Be brief.", user_prompt='Größe & "数" 😀\n\u2028\x7f\t\\', label="é"),
    Row(4, metadata={"z": 1, "a": {"y": [1, 2.5, None, True], "x": "ü"}}, label="L"),
    Row(5, system_prompt="Only a system prompt."),
    Row(7, user_prompt="half \ud800 a character\x00\x1f", label="\udfff"),
    Row(8, user_prompt=" ", label=" "),
    Row(9, user_prompt="no label", metadata={"k": "not shown"}),
)

TREE = (
    SourceEntry("main.py", False, 12, [b"print('hi')\n"]),
    SourceEntry("bin/run é.sh", True, 0, []),
    SourceEntry("a.txt", False, 3, [b"a", b"bc"]),
)


def test_dataset_rows(golden):
    """Every rule of E17 in one file: key order, compact, raw UTF-8, metadata fallback, empty prompt, absent label, U+FFFD."""
    golden("data/dataset_rows.jsonl", b"".join(encode_dataset_rows(ROWS)))


def test_dataset_rows_of_any_iterable_are_the_same(golden):
    """A stream of rows gives the bytes of a list of them, on every call."""
    golden("data/dataset_rows.jsonl", b"".join(encode_dataset_rows(iter(ROWS))))


def test_golden_dataset_rows_are_read():
    """The reader takes the file written by hand."""
    rows = decode_dataset_rows((FOLDER / "dataset_rows.jsonl").read_bytes(), "dataset_rows.jsonl")
    assert rows[0] == DatasetRow(0, "2*2?", "4")
    assert rows[3] == DatasetRow(3, "")
    assert rows[4] == DatasetRow(4, "half \ufffd a character\x00\x1f", "\ufffd")
    assert len(rows) == 7


def test_source_files(golden):
    """Key order, indentation, path order, and digests in their written form."""
    golden("data/source_files.json", encode_source_files(source_tree_digest(TREE)))


def test_golden_source_files_are_read():
    """The reader takes the file written by hand."""
    tree = decode_source_files((FOLDER / "source_files.json").read_bytes(), "source_files.json")
    assert tree == source_tree_digest(TREE)
    assert [(file.path, file.executable, file.size) for file in tree.files] == [
        ("a.txt", False, 3),
        ("bin/run é.sh", True, 0),
        ("main.py", False, 12),
    ]
