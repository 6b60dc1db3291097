"""The lock of a run is for runs: whoever only looks must not turn one away (decision 0012, decision 0051)."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.evaluation import run_directory
from osmosis.shell.evaluation.run_directory import RunDirectory, locked

HOLDER = {"pid": os.getpid(), "command": "osmosis eval list", "started_at": "2026-11-30T12:00:00.000000Z"}
"""Somebody who lives, so that nobody waits for a name."""


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """A run whose lock file names a living process."""
    found = RunDirectory(tmp_path, "watched")
    found.lock.parent.mkdir(parents=True)
    found.lock.write_text(json.dumps(HOLDER))
    return found


class Watch:
    """Somebody else's hold of a lock, which ends just before the try of that number begins; 0: never.

    Before the try number `names_itself` it says who it is.
    """

    def __init__(self, path: Path, ends_before: int, monkeypatch: pytest.MonkeyPatch, names_itself: int = 0) -> None:
        self.tries = 0
        self._ends_before = ends_before
        self._names_itself = names_itself
        self._descriptor = os.open(path, os.O_RDWR)
        self._flock = fcntl.flock
        self._flock(self._descriptor, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", self._counted)

    def _counted(self, descriptor: int, operation: int) -> None:
        self.tries += 1
        if self.tries == self._ends_before:
            self.end()
        if self.tries == self._names_itself:
            os.pwrite(self._descriptor, json.dumps(HOLDER).encode(), 0)
        self._flock(descriptor, operation)

    def end(self) -> None:
        """Let go."""
        self._flock(self._descriptor, fcntl.LOCK_UN)


def test_a_look_at_the_lock_turns_no_run_away(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is held at the first try and free at the second is taken, and is a real one."""
    watch = Watch(directory.lock, 2, monkeypatch)
    with locked(directory) as lock:
        assert watch.tries == 2
        lock.identify("2026-11-30T12:00:01.000000Z")
        with pytest.raises(OsmosisError, match=f"process {os.getpid()}"), locked(directory):
            pytest.fail("two hold one lock")
    with locked(directory):
        assert watch.tries == 5


def test_a_lock_that_stays_held_is_refused(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the second try the holder is named; nothing is waited for, and nothing is left held."""
    watch = Watch(directory.lock, 0, monkeypatch)
    with pytest.raises(OsmosisError, match="osmosis eval list") as caught, locked(directory):
        pytest.fail("two hold one lock")
    assert (caught.value.code, watch.tries) == (ErrorCode.CONFLICT, 2)
    watch.end()
    with locked(directory):
        assert watch.tries == 3


LATE = 100
"""Tries in which a slow holder has not come so far yet."""


def test_a_holder_that_is_slow_to_name_itself_is_named(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking the lock and saying so, it reads a whole journal: whoever is refused meanwhile is told by whom."""
    directory.lock.write_text("")
    monkeypatch.setattr(run_directory, "_POLL_SECONDS", 0.0)
    watch = Watch(directory.lock, 0, monkeypatch, LATE)
    with pytest.raises(OsmosisError, match=f"process {os.getpid()}"), locked(directory):
        pytest.fail("two hold one lock")
    assert watch.tries >= LATE


def test_a_nameless_holder_that_lets_go_turns_nobody_away(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several who only look, one after the other, or one who looks for long: the lock is taken once it is free."""
    directory.lock.write_text("")
    monkeypatch.setattr(run_directory, "_POLL_SECONDS", 0.0)
    watch = Watch(directory.lock, LATE, monkeypatch)
    with locked(directory):
        assert watch.tries == LATE


def test_a_holder_that_never_says_who_it_is_is_refused_all_the_same(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has an end, and the refusal then says that it was somebody."""
    directory.lock.write_text("")
    monkeypatch.setattr(run_directory, "_IDENTIFICATION_SECONDS", -1.0)
    Watch(directory.lock, 0, monkeypatch)
    with pytest.raises(OsmosisError, match="another process"), locked(directory):
        pytest.fail("two hold one lock")
