"""Takes digests of a run's files for the journal (decision 0014): what is recorded of them, and what lies there now.

What a rollout left is hostile: nothing is followed, nothing but regular files is opened, and what cannot be read is said to be
so. Taking evidence never fails a result.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from osmosis.pure.evidence import PASSED_OVER, ContentDigest, Evidence, LogMark, digest_of, record_files
from osmosis.pure.journal import InvocationEnded, InvocationStarted, Record, Result
from osmosis.shell.evaluation.run_directory import RunDirectory

SYMLINK, SPECIAL, UNREADABLE, TOO_DEEP = "a symlink", "a special file", "not readable", "nested too deep"
LARGEST_DIGESTED = 256 << 20
"""Bytes. Of larger files, which are not copied either, only the size is recorded: a result must not wait for their digests."""
MAX_DEPTH = 64
"""Directories inside directories; each open one costs a descriptor while what lies below is looked at."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 18


class RunEvidence:
    """What the journal of one run records of the run's files."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def trial(self, rollout_id: str) -> Path:
        """The directory that a result stands on."""
        return self._directory.trial(rollout_id)

    @property
    def log(self) -> Path:
        """What the end of an invocation stands on."""
        return self._directory.log

    def of(self, record: Record, *, first: bool = False, over: bool = True) -> Evidence | None:
        """The evidence for one record. `first`: it opens the journal; `over`: its rollout writes no more."""
        match record:
            case InvocationStarted() if first:
                return Evidence(files=own_files(self._directory))
            case InvocationEnded():
                return Evidence(log=log_mark(self._directory))
            case Result() if over:
                return Evidence(files=record_files(trial_entries(self._directory.trial(record.rollout_id))))
        return None


def own_files(directory: RunDirectory) -> dict[str, str]:
    """Digests of the files that are written once, before the first dispatch."""
    paths = (directory.manifest, directory.source_files, directory.dataset_rows)
    return {path.name: digest for path in paths if (digest := _digest_at(path)) is not None}


def log_mark(directory: RunDirectory) -> LogMark | None:
    """The log as it is now; None where there is none."""
    try:
        size = directory.log.stat(follow_symlinks=False).st_size
    except OSError:
        return None
    digest = _digest_at(directory.log, size)
    return None if digest is None else LogMark(size, digest)


def log_digests(directory: RunDirectory, sizes: Sequence[int]) -> tuple[str, ...]:
    """The digests of the log's first bytes, one for each of `sizes` (ascending) that it reaches."""
    found: list[str] = []
    hasher, position = ContentDigest(), 0
    try:
        with open(os.open(directory.log, _FILE), "rb") as file:
            for size in sizes:
                for chunk in _chunks(file.fileno(), size - position):
                    hasher.update(chunk)
                    position += len(chunk)
                if position < size:
                    break
                found.append(hasher.digest)
    except OSError:
        pass
    return tuple(found)


def _digest_at(path: Path, limit: int | None = None) -> str | None:
    try:
        descriptor = os.open(path, _FILE)
    except OSError:
        return None
    return _digest_open(descriptor, limit)


def trial_entries(root: Path) -> dict[str, str]:
    """What lies below a trial's directory: relative path -> digest of a regular file, or a word for anything else. Empty
    directories are nothing."""
    found: dict[str, str] = {}
    try:
        directory = os.open(root, _DIRECTORY)
    except OSError:
        return found
    _walk(directory, "", 0, found)
    return found


def _walk(directory: int, prefix: str, depth: int, found: dict[str, str]) -> None:
    """Notes everything below an open directory, and closes it."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                path = prefix + entry.name
                if path in PASSED_OVER:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    found[path] = _described(directory, entry)
                elif depth == MAX_DEPTH:
                    found[path] = TOO_DEEP
                else:
                    try:
                        inner = os.open(entry.name, _DIRECTORY, dir_fd=directory)
                    except OSError:
                        found[path] = UNREADABLE
                        continue
                    _walk(inner, path + "/", depth + 1, found)
    except OSError:
        found[prefix or "."] = UNREADABLE
    finally:
        os.close(directory)


def _described(directory: int, entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return SYMLINK
    if not entry.is_file(follow_symlinks=False):
        return SPECIAL
    try:
        descriptor = os.open(entry.name, _FILE, dir_fd=directory)
    except OSError:
        return UNREADABLE
    size = os.fstat(descriptor).st_size
    if size > LARGEST_DIGESTED:
        os.close(descriptor)
        return f"{size} bytes long"
    return _digest_open(descriptor) or UNREADABLE


def _digest_open(descriptor: int, limit: int | None = None) -> str | None:
    """The digest of an open regular file, as far as it went when it was opened; None for anything else. Closes it."""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return None
        return digest_of(_chunks(descriptor, facts.st_size if limit is None else limit))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _chunks(descriptor: int, left: int) -> Iterator[bytes]:
    while left > 0 and (chunk := os.read(descriptor, min(left, _CHUNK))):
        left -= len(chunk)
        yield chunk
