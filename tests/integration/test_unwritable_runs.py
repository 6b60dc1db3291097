"""A run that nobody may write to can be looked at: a read-only file system, somebody else's directory (issue 9)."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis.pure.errors import OsmosisError
from osmosis.shell.evaluation.verify import VerifyRequest, verify_run
from tests.integration.stored_runs import write_run
from tests.strategies.comparisons import Cell, stored_run

CELLS: list[list[Cell]] = [[1.0, 0.0], [None, "timeout"], [0.5, 1.0]]

READ_ONLY = """
import errno, os, sys

MADE = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.utime", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
refused = []

def look(event, given):
    if event in MADE or (event == "open" and isinstance(given[2], int) and given[2] & WRITING):
        place = given[0]
        if isinstance(place, str | os.PathLike) and os.path.abspath(os.fspath(place)).startswith(sys.argv[1]):
            refused.append(f"{event} {place}")
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)

sys.addaudithook(look)
from osmosis.shell.cli.main import main

code = main(sys.argv[2:])
print(code, *refused, sep="\\n", file=sys.stderr)
"""
"""A command for which everything below a directory lies on a read-only file system, and which tells of each try to write."""

LOOKS = [
    ("list --output runs", 0),
    ("info runs/a", 0),
    ("logs runs/a", 0),
    ("verify runs/a", 1),  # its trials are not there
    ("compare runs/a runs/b", 0),
    ("gate runs/a --baseline runs/b", 5),
    ("export runs/a --format csv --to a.csv", 0),
    ("export runs/a --format jsonl --to a.jsonl", 0),
    ("report runs/a --to a.html", 0),
    ("report runs/a --baseline runs/b --to a.html", 0),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with two finished runs in `runs`, without locks, as a copy has none."""
    for name in ("a", "b"):
        write_run(tmp_path / "runs", stored_run(name, CELLS))
    return tmp_path


def contents(root: Path) -> dict[str, int]:
    """Every path below `root`, and when it was changed."""
    return {str(path.relative_to(root)): path.lstat().st_mtime_ns for path in (root, *root.rglob("*"))}


@pytest.mark.parametrize(("words", "code"), LOOKS, ids=[words for words, _ in LOOKS])
def test_a_run_that_cannot_be_written_can_be_looked_at(place: Path, words: str, code: int) -> None:
    """Neither a file nor a lock is made, and none is tried to be; what is asked for comes out."""
    before = contents(place / "runs")
    command = [sys.executable, "-c", READ_ONLY, str(place / "runs"), "eval", *words.split(), "--json"]
    told = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert told.stderr.splitlines() == [str(code)]
    assert told.stdout.startswith('{"schema_version": 1, ')
    assert contents(place / "runs") == before


def test_a_report_that_has_no_place_says_where_it_could_go(place: Path) -> None:
    """The default place is in the run's own directory: an error that names --to."""
    command = [sys.executable, "-c", READ_ONLY, str(place / "runs"), "eval", "report", "runs/a", "--plain"]
    told = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert "Read-only file system" in told.stderr
    assert "--to" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_look_waits_for_nobody_who_looks_and_refuses_where_somebody_works(place: Path) -> None:
    """Two may look at once; while a run is being changed it is not audited."""
    lock = place / "runs" / ".locks" / "a.lock"
    lock.parent.mkdir()
    lock.touch()
    request = VerifyRequest("runs/a", place)
    with open(lock) as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert verify_run(request).run_name == "a"
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OsmosisError, match="is being worked on"):
            verify_run(request)
