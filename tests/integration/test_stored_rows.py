"""Rows that lie in the dataset's file until they are needed (issue 6)."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import IO

import polars as pl
import pytest

from osmosis.pure.dataset import Row
from osmosis.pure.dataset_formats import MAX_RECORD_BYTES
from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.digest import fingerprint
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.known_dataset import KnownDataset
from osmosis.pure.selection import parse_rows
from osmosis.shell.evaluation import file_digest, stored_rows
from osmosis.shell.evaluation.dataset_file import LoadedDataset, read_dataset, recognise_dataset

TEXT = "What is 2*2? é " + "x" * 400


def jsonl(count: int) -> bytes:
    """A dataset of `count` rows, each different."""
    return b"".join(json.dumps({"user_prompt": f"{TEXT}{i}", "ground_truth": str(i)}).encode() + b"\n" for i in range(count))


def csv(count: int) -> bytes:
    """The same as CSV, with a line's end in each prompt."""
    return b"user_prompt,ground_truth\n" + "".join(f'"{TEXT}\n{i}",{i}\n' for i in range(count)).encode()


WRITERS: dict[str, Callable[[int], bytes]] = {"jsonl": jsonl, "csv": csv}


@pytest.fixture(params=[0, stored_rows.HELD_BYTES], ids=["read again", "held"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How much of a dataset is held in memory: nothing, or all of these small ones."""
    monkeypatch.setattr(stored_rows, "HELD_BYTES", request.param)
    return request.param


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every dataset is large."""
    monkeypatch.setattr(stored_rows, "HELD_BYTES", 0)


def load(path: Path, content: bytes | None = None, rows: str = "", limit: int | None = None) -> LoadedDataset:
    """The dataset at `path`, which is written first if a content is given."""
    if content is not None:
        path.write_bytes(content)
    return read_dataset(path, rows=parse_rows(rows), limit=limit)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("kind", [*WRITERS, "parquet"])
@pytest.mark.parametrize("rows", ["", "0", "7,900-1200,2999", "2999"])
def test_rows_come_in_any_order_as_often_as_asked(tmp_path, kind, rows):
    """One by one from either end, and all in a row: always the same row at the same place, numbered as in the file."""
    path = tmp_path / f"data.{kind}"
    if kind == "parquet":
        pl.DataFrame({"user_prompt": [f"{TEXT}{i}" for i in range(3000)], "label": map(str, range(3000))}).write_parquet(path)
    else:
        path.write_bytes(WRITERS[kind](3000))
    loaded = load(path, rows=rows)
    whole = list(loaded.rows)
    assert [row.source_row_index for row in whole] == list(loaded.selected.indices())
    assert [row.label for row in whole] == [str(row.source_row_index) for row in whole]
    positions = range(len(loaded.rows))
    assert [loaded.rows[position] for position in reversed(positions)] == whole[::-1]
    assert [loaded.rows[position] for position in positions] == whole == list(loaded.rows)
    with pytest.raises(IndexError):
        loaded.rows[len(positions)]


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize("kind", WRITERS)
def test_memory_does_not_grow_with_the_file(tmp_path, kind, monkeypatch):
    """Four times the rows take no more memory, from the first look to the last byte of `dataset_rows.jsonl`.

    Chunks are small, so that it says little how many of them were under way.
    """
    monkeypatch.setattr(file_digest, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr("tests.integration.test_stored_rows.TEXT", TEXT * 10)
    counts = (5_000, 20_000)
    for count in counts:
        (tmp_path / f"{count}.{kind}").write_bytes(WRITERS[kind](count))
    peaks = []
    for count in (counts[0], *counts):  # once for what is only made once
        tracemalloc.start()
        rows = load(tmp_path / f"{count}.{kind}").rows
        assert rows[count - 1].source_row_index == count - 1
        written = sum(map(len, encode_dataset_rows(rows)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert written > 2000 * count
    assert peaks[2] < peaks[1] + 1_000_000


@pytest.mark.usefixtures("nothing_held")
def test_a_file_put_in_its_place_changes_nothing(tmp_path):
    """An editor that saves under another name and renames, or a deletion: the run goes on with what it began with."""
    path = tmp_path / "a.jsonl"
    rows = load(path, jsonl(3000)).rows
    (tmp_path / "b").write_bytes(jsonl(3000).replace(b"2*2", b"3*3"))
    (tmp_path / "b").rename(path)
    assert rows[2000].user_prompt == f"{TEXT}2000"
    path.unlink()
    assert rows[10].user_prompt == f"{TEXT}10"


@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize("how", ["edit", "truncate"])
def test_a_change_in_place_is_found_out(tmp_path, how):
    """A row never comes from other bytes than those that were surveyed; rows in untouched places still come."""
    path = tmp_path / "a.jsonl"
    rows = load(path, jsonl(3000)).rows
    with path.open("r+b") as file:
        if how == "edit":
            file.seek(-400, os.SEEK_END)
            file.write(b"y")
        else:
            file.truncate(path.stat().st_size - 1)
    assert rows[0].user_prompt == f"{TEXT}0"
    with pytest.raises(OsmosisError, match="was changed in place") as caught:
        rows[2999]
    assert caught.value.code is ErrorCode.CONFLICT
    assert caught.value.hint
    with pytest.raises(OsmosisError, match="was changed in place"):
        list(rows)


@pytest.mark.usefixtures("nothing_held")
def test_what_is_appended_changes_nothing(tmp_path):
    """Rows behind those of the run are no rows of the run."""
    path = tmp_path / "a.jsonl"
    rows = load(path, jsonl(2000)).rows
    with path.open("ab") as file:
        file.write(jsonl(5))
    assert [row.label for row in rows] == [str(i) for i in range(2000)]


def test_a_small_dataset_may_be_edited(tmp_path):
    """What is held in memory does not look at the file again."""
    path = tmp_path / "a.jsonl"
    rows = load(path, jsonl(20)).rows
    path.write_bytes(b"")
    assert [row.label for row in rows] == [str(i) for i in range(20)]


@pytest.mark.usefixtures("nothing_held")
def test_no_descriptor_is_left_behind(tmp_path):
    """A store that nobody uses any more has closed its file."""
    path = tmp_path / "a.jsonl"
    rows = load(path, jsonl(3)).rows
    before = set(os.listdir("/proc/self/fd"))
    del rows
    assert len(set(os.listdir("/proc/self/fd"))) == len(before) - 1


# A file that a manifest knows ------------------------------------------------------------------------------------------------


def test_a_known_file_is_not_read_as_a_dataset(tmp_path):
    """The same bytes have the same rows: only their fingerprint is taken, and what they hold is seen when a row is wanted."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"no JSON at all\n")
    known = KnownDataset("0" * 64, fingerprint(path.read_bytes()), 5)
    found = recognise_dataset(path, known, rows=None, limit=3)
    assert found is not None
    assert (found.sha256, found.total_rows, str(found.selected), len(found.rows)) == ("0" * 64, 5, "0-2", 3)
    with pytest.raises(OsmosisError, match="not a valid dataset"):
        found.rows[0]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_known_file_has_its_rows(tmp_path, kind):
    """Recognised, a dataset is in every part the one that was read."""
    path = tmp_path / f"a.{kind}"
    read = load(path, WRITERS[kind](3000), "5-9,2000-2999")
    known = KnownDataset(read.sha256, read.fingerprint, read.total_rows)
    found = recognise_dataset(path, known, rows=parse_rows("5-9,2000-2999"), limit=None)
    assert found is not None
    assert list(found.rows) == list(read.rows)
    same = ("total_rows", "selected", "sha256", "fingerprint", "size", "label")
    assert [getattr(found, name) for name in same] == [getattr(read, name) for name in same]
    with pytest.raises(OsmosisError, match="does not have: 3000-4000"):
        recognise_dataset(path, known, rows=parse_rows("3000-4000"), limit=None)


def test_another_file_is_not_recognised(tmp_path):
    """One byte of difference is enough; a file that changes after it was recognised is refused."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(4))
    known = KnownDataset("0" * 64, fingerprint(jsonl(5)), 5)
    assert recognise_dataset(path, known, rows=None, limit=None) is None
    path.write_bytes(jsonl(5))
    found = recognise_dataset(path, known, rows=None, limit=None)
    path.write_bytes(jsonl(6))
    assert found is not None
    with pytest.raises(OsmosisError, match="changed while it was read"):
        found.rows.load()


def test_a_manifest_that_miscounts_the_rows_is_told(tmp_path):
    """A number of rows that somebody wrote into the manifest is not believed once the rows are looked at."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(5))
    found = recognise_dataset(path, KnownDataset("0" * 64, fingerprint(jsonl(5)), 7), rows=None, limit=None)
    assert found is not None
    with pytest.raises(OsmosisError, match="has 5 rows, and the run's manifest says 7"):
        found.rows.load()


# Hostile files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("held")
def test_hard_rows_come_again(tmp_path):
    """A byte order mark, CRLF, blank lines, half characters, huge integers, NUL escapes and a last line without its end."""
    deep = '{"a":' * 120 + "1" + "}" * 120
    lines = [
        '{"user_prompt":"\\ud800","label":"\\u0000"}',
        "   ",
        '{"user_prompt":' + "9" * 4000 + ',"ground_truth":1e-7}',
        '{"metadata":' + deep + "}",
        '{"metadata":"{\\"a\\":\\"\\\\ud800\\"}","user_prompt":"\u2028"}',
    ]
    content = b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
    rows = load(tmp_path / "a.jsonl", content).rows
    assert list(rows) == [
        Row(0, None, "\ud800", "\0"),
        Row(1, None, "9" * 4000, "1e-07"),
        Row(2, None, None, None, json.loads(deep)),
        Row(3, None, "\u2028", None, {"a": "\ud800"}),
    ]
    assert [rows[i] for i in (3, 2, 1, 0)] == list(rows)[::-1]
    data = b"".join(encode_dataset_rows(rows))
    assert data.decode().count("\n") == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"user_prompt":"","label":"x"}', "row 1: user_prompt is empty"),
        (b'{"user_prompt":null,"label":"x"}', "row 1: user_prompt is null"),
        (b'{"user_prompt":"x","label":""}', "row 1: label is empty"),
        (b'{"label":"x"}', "row 1: user_prompt is missing"),
        (
            b'{"user_prompt":' + b"9" * 5000 + b"}",
            "not acceptable as JSON: a whole number of 5,000 digits; write it as a string",
        ),
        (b'{"n":-' + b"9" * 5000 + b"}", "not acceptable as JSON: a whole number of 5,000 digits; write it as a string"),
        (b'{"metadata":"' + b"9" * 5000 + b'"}', "metadata is a string that is not JSON: a whole number of 5,000 digits"),
        (b'{"user_prompt":NaN}', "NaN is not JSON"),
        (b'{"label":"x","label":"y"}', "duplicate key 'label'"),
        (b'{"metadata":{"a":1,"a":1}}', "duplicate key 'a'"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"user_prompt":"a\0"}', "control character"),
        (b"\0" * 100, "not valid JSON"),
        (b'{"metadata":' + b'{"a":' * 200 + b"1" + b"}" * 201, "row 1: metadata is nested too deeply: more than 128 levels"),
        (b'{"metadata":' + b"[" * 100_000, "nested too deeply"),
    ],
    ids=lambda value: value[:24].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_a_bad_line_is_told_with_its_place(tmp_path, line, message):
    """Whatever is wrong, the file, the line and the reason are told, in words about the file and not about Python."""
    path = tmp_path / "a.jsonl"
    with pytest.raises(OsmosisError) as caught:
        load(path, jsonl(1) + line + b"\n" + jsonl(1))
    (problem,) = caught.value.problems
    assert problem.where == f"{path}:2"
    assert message in problem.message
    assert "sys." not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("filling", ["hole", "text"])
def test_a_line_of_200_megabytes_is_refused_without_being_held(tmp_path, suffix, filling):
    """A file without lines, of zeroes or of text, is refused at its line with little more memory than a record may have."""
    path = tmp_path / f"a.{suffix}"
    with path.open("wb") as file:
        file.write(jsonl(1) if suffix == "jsonl" else csv(1))
        if filling == "hole":
            file.truncate(200_000_000)
        else:
            for _ in range(100):
                file.write(b"x" * 2_000_000)
    tracemalloc.start()
    with pytest.raises(OsmosisError) as caught:
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (problem,) = caught.value.problems
    assert problem.where == f"{path}:{2 if suffix == 'jsonl' else 4}"
    assert "longer than 64 MiB" in problem.message
    assert peak < 3 * MAX_RECORD_BYTES


def test_a_full_disk_while_unpacking_is_told(tmp_path, monkeypatch):
    """Parquet is unpacked beside the run; when that fails for want of room, the hint says where it happens."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user_prompt": ["x" * 1000] * 100, "label": ["y"] * 100}).write_parquet(path)

    def full(**_: object) -> IO[bytes]:
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr("osmosis.shell.evaluation.parquet_reader.tempfile.TemporaryFile", full)
    with pytest.raises(OsmosisError, match="cannot be unpacked: No space left on device") as caught:
        load(path)
    assert "TMPDIR" in str(caught.value.hint)
