from __future__ import annotations

import csv
import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import polars as pl
import pytest

from osmosis.pure.dataset import Row
from osmosis.pure.dataset_formats import JSONL, read_jsonl
from osmosis.pure.digest import fingerprint
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.selection import parse_rows
from osmosis.shell.evaluation import dataset_file, parquet_reader
from osmosis.shell.evaluation.dataset_file import LoadedDataset, read_dataset

RECORDS: list[dict[str, str | None]] = [
    {"system_prompt": "Be brief.", "user_prompt": "2*2?", "ground_truth": "4", "metadata": '{"k":[1,{"é":null}]}'},
    {"system_prompt": "", "user_prompt": 'two\nlines, "quoted"', "ground_truth": " ", "metadata": ""},
    {"system_prompt": None, "user_prompt": None, "ground_truth": None, "metadata": '{"only":true}'},
    {"system_prompt": "x", "user_prompt": "\u2028\x85\x0c\0", "ground_truth": "é数😀", "metadata": "{}"},
]
ROWS = (
    Row(0, "Be brief.", "2*2?", "4", {"k": [1, {"é": None}]}),
    Row(1, None, 'two\nlines, "quoted"', " ", None),
    Row(2, None, None, None, {"only": True}),
    Row(3, "x", "\u2028\x85\x0c\0", "é数😀", None),
)


def write_jsonl(path: Path) -> None:
    """RECORDS as JSON lines."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS), "utf-8", newline="")


def write_csv(path: Path) -> None:
    """RECORDS as CSV with CRLF."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(RECORDS[0]))
        writer.writeheader()
        writer.writerows(RECORDS)


def write_parquet(path: Path) -> None:
    """RECORDS as Parquet."""
    pl.DataFrame(RECORDS).write_parquet(path)


WRITERS = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}


def load(path: Path, rows: str = "", limit: int | None = None) -> LoadedDataset:
    """Read a file with the given selector."""
    return read_dataset(path, rows=parse_rows(rows), limit=limit)


def refused(path: Path, rows: str = "") -> OsmosisError:
    """The error that reading a file raises; it always says what to do next."""
    with pytest.raises(OsmosisError) as caught:
        load(path, rows)
    assert caught.value.hint
    return caught.value


def write(path: Path, data: bytes) -> Path:
    """A file with these bytes."""
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", WRITERS)
def test_the_three_formats_give_the_same_rows(tmp_path, kind):
    """The same records are the same rows whichever file holds them, with both digests of the file's bytes."""
    path = tmp_path / f"data.{kind}"
    WRITERS[kind](path)
    loaded = load(path)
    assert tuple(loaded.rows) == ROWS
    assert loaded.total_rows == 4
    assert str(loaded.selected) == "0-3"
    assert loaded.label == str(path)
    assert loaded.size == path.stat().st_size
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.fingerprint == fingerprint(path.read_bytes())


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("rows", "limit", "selected", "indices"),
    [("", 2, "0-1", [0, 1]), ("", 9, "0-3", [0, 1, 2, 3]), ("3,0-1", 1, "0-1,3", [0, 1, 3]), ("2", None, "2", [2])],
)
def test_selection_reaches_the_file(tmp_path, kind, rows, limit, selected, indices):
    """`limit` and `--rows` select by offset in the file, in every format; the row count is that of the file."""
    path = tmp_path / f"data.{kind.upper()}"
    WRITERS[kind](path)
    loaded = load(path, rows, limit)
    assert [row.source_row_index for row in loaded.rows] == indices
    assert tuple(loaded.rows) == tuple(ROWS[index] for index in indices)
    assert str(loaded.selected) == selected
    assert loaded.total_rows == 4


@pytest.mark.parametrize("kind", WRITERS)
def test_rows_beyond_the_end_are_refused(tmp_path, kind):
    """A selector that reaches too far names file, offenders and valid range, and costs nothing however far it reaches."""
    path = tmp_path / f"data.{kind}"
    WRITERS[kind](path)
    error = refused(path, "1,3-999999999999")
    assert "4-999999999999" in error.message
    assert "0-3" in str(error)
    assert str(path) in error.message


def test_a_byte_order_mark_is_skipped(tmp_path):
    """Files from Windows programs read like others."""
    text = b'\xef\xbb\xbfuser_prompt,label\r\nq,a\r\n"x\r\ny",b\r\n'
    assert tuple(load(write(tmp_path / "a.csv", text)).rows) == (Row(0, None, "q", "a"), Row(1, None, "x\r\ny", "b"))
    text = b'\xef\xbb\xbf{"user_prompt":"q","label":"a"}'
    assert tuple(load(write(tmp_path / "a.jsonl", text)).rows) == (Row(0, None, "q", "a"),)


def test_jsonl_details(tmp_path):
    """Blank lines, numbers as text, huge integers, U+2028 raw, NUL escaped, CRLF, and no newline at the end."""
    data = (
        b'\n{"user_prompt": 7, "ground_truth": 123456789012345678901234567890}\r\n  \t\n'
        b'{"user_prompt": "a\xe2\x80\xa8b\\u0000", "ground_truth": false}\n\n'
        b'{"user_prompt": "\\ud800", "label": "no newline"}'
    )
    loaded = load(write(tmp_path / "a.jsonl", data))
    assert tuple(loaded.rows) == (
        Row(0, None, "7", "123456789012345678901234567890"),
        Row(1, None, "a\u2028b\0", "False"),
        Row(2, None, "\ud800", "no newline"),
    )


def test_nul_bytes(tmp_path):
    """NUL is data in CSV; raw in JSON it is an error with its line."""
    assert load(write(tmp_path / "a.csv", b"user_prompt,label\na\0b,c\n")).rows[0].user_prompt == "a\0b"
    error = refused(write(tmp_path / "a.jsonl", b'{"user_prompt":"a","label":"b"}\n{"user_prompt":"\0"}\n'))
    assert str(error.problems[0]).startswith(f"{tmp_path / 'a.jsonl'}:2: ")


def test_all_problems_of_a_file_come_at_once(tmp_path):
    """Lines that do not parse and rows without what they need, each with file, line and row."""
    data = b'{"user_prompt":"x"}\n\n{"user_prompt":"x","label":"y"\n{"label":"y"}\n{"user_prompt":"x","metadata":"["}\n'
    path = write(tmp_path / "a.jsonl", data)
    error = refused(path)
    assert error.message.endswith("4 problems.")
    assert {str(problem).split(": ")[0] for problem in error.problems} == {f"{path}:{line}" for line in (1, 3, 4, 5)}
    assert "row 2: user_prompt is missing" in str(error)


def test_ragged_csv_is_refused_at_the_right_line(tmp_path):
    """Quoted newlines count as lines of the file."""
    path = write(tmp_path / "a.csv", b'user_prompt,label\r\n"a\r\nb\r\nc",d\r\nx\r\ny,z,w\r\n')
    assert [str(problem) for problem in refused(path).problems] == [
        f"{path}:5: 1 cell where the header has 2",
        f"{path}:6: 3 cells where the header has 2",
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_other_encodings_are_refused(tmp_path, name):
    """Latin-1 and UTF-16 files name the first byte that is not UTF-8."""
    latin = 'user_prompt,label\n{"é":1}'.encode("latin-1") if name == "a.csv" else '{"é":1}'.encode("latin-1")
    assert f"byte offset {latin.index(0xE9)}" in str(refused(write(tmp_path / name, latin)))
    assert "byte offset 0" in str(refused(write(tmp_path / name, '{"a":1}\n'.encode("utf-16"))))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b""),
        ("a.jsonl", b"\xef\xbb\xbf\n \n"),
        ("a.csv", b""),
        ("a.csv", b"user_prompt,label\n"),
    ],
)
def test_files_without_rows_are_refused(tmp_path, name, data):
    """An empty dataset is an error, with and without a selector."""
    path = write(tmp_path / name, data)
    assert refused(path).message == f"{path} has no rows."
    assert refused(path, "0").message == f"{path} has no rows."


def test_a_parquet_file_without_rows_is_refused(tmp_path):
    """A Parquet file may have columns and no rows."""
    path = tmp_path / "a.parquet"
    pl.DataFrame(schema={"user_prompt": pl.String, "label": pl.String}).write_parquet(path)
    assert "has no rows" in refused(path).message


def test_parquet_types(tmp_path):
    """Numbers become text as from JSON; structs are metadata; what JSON cannot hold is refused with its row and place."""
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame(
        {
            "user_prompt": [7, 8],
            "ground_truth": [1.5, None],
            "metadata": [{"a": 1, "b": ["x"]}, None],
            "other": [b"\xff", b""],
        }
    )
    frame.write_parquet(path)
    assert tuple(load(path).rows) == (Row(0, None, "7", "1.5", {"a": 1, "b": ["x"]}), Row(1, None, "8"))
    frame.with_columns(metadata=pl.struct(at=pl.lit(0).cast(pl.Date))).write_parquet(path)
    assert "row 0: metadata.at is of type date, which JSON cannot hold" in str(refused(path))
    frame.with_columns(user_prompt=pl.lit(b"x")).write_parquet(path)
    assert "row 1: user_prompt holds binary data" in str(refused(path))


def test_parquet_without_the_needed_columns(tmp_path):
    """The one complaint is about the columns, not about every row."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"prompt": ["x"] * 30}).write_parquet(path)
    error = refused(path)
    assert [problem.message for problem in error.problems] == [
        "no column user_prompt and no column ground_truth; the file has 'prompt'"
    ]


def test_large_parquet_files_are_read_in_batches(tmp_path):
    """Rows from any batch arrive, and only they."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user_prompt": map(str, range(20_000)), "label": ["x"] * 20_000}).write_parquet(path, row_group_size=3000)
    loaded = load(path, "0,8191-8192,19999")
    assert [row.user_prompt for row in loaded.rows] == ["0", "8191", "8192", "19999"]
    assert loaded.total_rows == 20_000


def test_parquet_paths_are_names(tmp_path):
    """Neither brackets nor `key=value` directories in a path mean anything."""
    folder = tmp_path / "label=7" / "[x]*"
    folder.mkdir(parents=True)
    path = folder / "a[1].parquet"
    write_parquet(path)
    assert tuple(load(path).rows) == ROWS


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "footer"])
def test_corrupt_parquet_is_a_clean_error(tmp_path, damage):
    """Whatever is broken, the error names the file."""
    path = tmp_path / "a.parquet"
    write_parquet(path)
    data = path.read_bytes()
    footer = data[:-60] + b"\xff" * 52 + data[-8:]
    path.write_bytes({"empty": b"", "text": b"x" * 100, "truncated": data[:-20], "footer": footer}[damage])
    assert str(path) in refused(path).message


def test_parquet_pages_that_bring_polars_to_abort_are_a_clean_error(tmp_path):
    """Damage inside a page can end the decoding process without an exception; ours goes on and names the file."""
    path = tmp_path / "a.parquet"
    write_parquet(path)
    data = path.read_bytes()
    outcomes = set()
    # Page headers stand in the first bytes of the file; spoil them one after the other.
    for offset in range(4, 200, 28):
        path.write_bytes(data[:offset] + bytes(byte ^ 0xFF for byte in data[offset : offset + 3]) + data[offset + 3 :])
        try:
            load(path)
        except OsmosisError as error:
            outcomes.add(error.message)
    assert outcomes == {f"{path} is not a sound Parquet file."}


def test_the_parquet_child_sees_no_secrets(tmp_path, monkeypatch):
    """Native code that decodes a stranger's file gets neither keys nor our other variables."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "OPENAI_API_KEY" not in parquet_reader._environment()
    assert "sk-secret" not in parquet_reader._environment().values()


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"type": "summary"', b'{"type": "summary", "total_rows": 1, "selected": {"ranges": []}}']
)
def test_an_answer_without_its_end_is_no_answer(damage):
    """A child that died while it spoke has not said that all rows are there."""
    assert parquet_reader._end(damage) is None
    assert parquet_reader._end(b'{"type": "summary", "total_rows": 1, "selected": {"ranges": []}}\n') is not None


@pytest.mark.parametrize("name", ["a.txt", "a", "a.jsonl.gz", ".jsonl"])
def test_other_extensions_are_refused(tmp_path, name):
    """The supported extensions are listed."""
    error = refused(write(tmp_path / name, b"{}"))
    assert ".csv, .jsonl, .parquet" in str(error.hint)


def test_what_is_no_file_is_refused(tmp_path):
    """A missing path, a directory, a named pipe and a socket: none hangs, none is a traceback."""
    assert refused(tmp_path / "no.csv").code is ErrorCode.NOT_FOUND
    (tmp_path / "dir.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.csv"))
        for name in ("dir.csv", "pipe.csv", "s.csv"):
            assert "is not a file" in refused(tmp_path / name).message


@pytest.mark.parametrize("grown", [b'{"user_prompt":"x","label":"y"}\n', b'{"half'])
@pytest.mark.parametrize("how", ["append", "replace"])
def test_a_file_that_changes_while_read_is_refused(tmp_path, monkeypatch, grown, how):
    """A digest of one content never locks the rows of another, and a half-written line is told as what it is."""
    path = tmp_path / "a.jsonl"
    write_jsonl(path)

    def read_and_disturb(chunks, label):
        def disturbed():
            for chunk in chunks:
                yield chunk
                if how == "append":
                    with path.open("ab") as file:
                        file.write(grown)
                else:
                    other = write(tmp_path / "other", grown)
                    other.rename(path)
                return

        yield from read_jsonl(disturbed(), label)

    monkeypatch.setitem(dataset_file._TEXT_FORMATS, ".jsonl", msgspec.structs.replace(JSONL, read=read_and_disturb))
    error = refused(path)
    assert error.message == f"{path} changed while it was read."
    assert error.code is ErrorCode.CONFLICT


def test_polars_is_loaded_for_parquet_only(tmp_path):
    """JSONL and CSV runs do not pay for the import of polars."""
    write_jsonl(tmp_path / "a.jsonl")
    program = (
        "import sys, pathlib; from osmosis.shell.evaluation.dataset_file import read_dataset;"
        "read_dataset(pathlib.Path(sys.argv[1]), rows=None, limit=None); sys.exit('polars' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.jsonl")], check=True)
