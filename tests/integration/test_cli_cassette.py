"""`osmosis cassette` on real files: counts, parts and differences, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osmosis.pure.cassette import CallKey, Cassette, Header, RecordedCall, decode_cassette, encode_cassette
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.cassette_file import open_locked
from osmosis.shell.cli.main import main

HEADER = Header("openai/m", "https://api.example.test/v1", "2026-11-30T12:00:00Z")


def call(row, run, *, status=200, body="x"):
    """A recorded call."""
    return RecordedCall(CallKey(row, run, f"xxh3-128:v1:{row:032x}", 0), {"q": row}, status, body, usage=CallUsage(1, 2, 3))


def write(path: Path, *calls: RecordedCall) -> Path:
    """A cassette file with these calls."""
    path.write_bytes(encode_cassette(Cassette(HEADER, {each.key: each for each in calls})))
    return path


@pytest.fixture
def file(tmp_path):
    """Three rows with two runs each; one refusal."""
    return write(
        tmp_path / "c.jsonl", *(call(row, run, status=400 if row == 2 else 200) for row in range(3) for run in range(2))
    )


def run(capsys, *arguments):
    """Run the command in JSON mode: (exit code, envelope)."""
    code = main(["--json", "cassette", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or captured.err)


def test_inspect(capsys, file):
    """It tells model, counts, tokens and every call."""
    code, envelope = run(capsys, "inspect", file)
    held = envelope["resource"]["contents"]
    assert code == 0
    assert (held["calls"], held["rows"], held["runs"], held["refusals"], held["tokens"]) == (6, 3, 2, 2, 18)
    assert len(envelope["resource"]["calls"]) == 6
    assert main(["--plain", "cassette", "inspect", str(file)]) == 0
    assert "Recorded From: https://api.example.test/v1" in capsys.readouterr().out


def test_prune_in_place_and_elsewhere(capsys, file, tmp_path):
    """Elsewhere leaves the file alone; in place replaces it; both keep exactly what was asked for."""
    before = file.read_bytes()
    other = tmp_path / "part.jsonl"
    code, envelope = run(capsys, "prune", file, "--rows", "0,2", "--runs", "1", "--output", other)
    assert (code, envelope["resource"]["kept"], envelope["resource"]["removed"]) == (0, 2, 4)
    assert file.read_bytes() == before
    assert {key.row for key in decode_cassette(other.read_bytes(), "c").cassette.calls} == {0, 2}
    run(capsys, "prune", file, "--drop-refusals")
    assert len(decode_cassette(file.read_bytes(), "c").cassette.calls) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"c.jsonl", "part.jsonl"}


def test_prune_waits_for_nobody(capsys, file):
    """A file that a run records into is refused and stays as it is."""
    before = file.read_bytes()
    with open(open_locked(file), "wb", buffering=0):
        code, envelope = run(capsys, "prune", file, "--rows", "0")
    assert (code, envelope["error"]["code"]) == (1, "CONFLICT")
    assert file.read_bytes() == before


def test_diff(capsys, file, tmp_path):
    """It tells what is gone, new and changed; equal recordings are the same."""
    other = write(tmp_path / "d.jsonl", call(0, 0), call(1, 0, body="y"), call(7, 0))
    code, envelope = run(capsys, "diff", file, other)
    difference = envelope["resource"]["difference"]
    assert (code, envelope["status"]) == (0, "different")
    assert [len(difference[name]) for name in ("removed", "added", "changed")] == [4, 1, 1]
    assert difference["unchanged"] == 1
    assert run(capsys, "diff", file, file)[1]["status"] == "same"


def test_a_file_that_is_no_cassette(capsys, tmp_path):
    """A missing or damaged file is an error with its name, never a traceback."""
    assert run(capsys, "inspect", tmp_path / "absent")[1]["error"]["code"] == "NOT_FOUND"
    damaged = tmp_path / "x.jsonl"
    damaged.write_bytes(b"{}\n{}\n")
    code, envelope = run(capsys, "inspect", damaged)
    assert (code, "no cassette header" in json.dumps(envelope)) == (1, True)
