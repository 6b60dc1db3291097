"""Reads files from a directory that somebody else writes to, such as what a rollout left behind (issue 5, must show 5).

Every entry may be a trap, and may become one between a look and a read. So each step goes through the descriptor of a directory
that was opened without following links, and a file is opened as a mere handle first and read only once that handle was seen
to be a regular file of bounded size: opening a pipe would wait for its writer, opening a device may do something. Which entries
may be published is decided by `osmosis.pure.artifacts`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from osmosis.pure.artifacts import ArtifactEntry, EntryKind, publication_problem

MAX_DEPTH = 64
"""Directories inside directories; each open one costs a descriptor while what lies below is looked at."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20
_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}


class Listed(msgspec.Struct, frozen=True):
    """One entry below a directory: its relative path with `/`, and why it is left out (None: it is a file to publish)."""

    path: str
    problem: str | None = None


class Unreadable(Exception):
    """A file that is not read. The text says why, in words that follow the file's name."""


def list_files(root: Path, limit: int) -> Iterator[Listed]:
    """The regular files of at most `limit` bytes below `root`, sorted by their segments, and every entry that is left out.

    A root that is missing, no directory or a link has none.
    """
    try:
        directory = os.open(root, _DIRECTORY)
    except OSError:
        return
    yield from _list(directory, "", limit, 0)


def read_file(root: Path, path: str, limit: int) -> bytes:
    """The bytes of the regular file at a relative path below `root`. Raises Unreadable for anything else."""
    *directories, name = path.split("/")
    try:
        directory = os.open(root, _DIRECTORY)
    except OSError as error:
        raise _unreadable(error) from None
    try:
        for segment in directories:
            inner = os.open(segment, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        return _read(directory, name, limit)
    except OSError as error:
        raise _unreadable(error) from None
    finally:
        os.close(directory)


def _list(directory: int, prefix: str, limit: int, depth: int) -> Iterator[Listed]:
    """Lists what lies in a directory, and closes it."""
    try:
        for name in sorted(os.listdir(directory)):
            path = prefix + name
            try:
                facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except OSError as error:
                yield Listed(path, str(_unreadable(error)))
                continue
            entry = ArtifactEntry(path, _KINDS.get(stat.S_IFMT(facts.st_mode), EntryKind.SPECIAL))
            problem = publication_problem(entry)
            if problem is None and entry.kind is EntryKind.FILE and facts.st_size > limit:
                problem = _too_large(limit)
            if problem is None and entry.kind is EntryKind.DIRECTORY:
                yield from _list_inside(directory, name, path, limit, depth)
            else:
                yield Listed(path, problem)
    finally:
        os.close(directory)


def _list_inside(directory: int, name: str, path: str, limit: int, depth: int) -> Iterator[Listed]:
    if depth == MAX_DEPTH:
        yield Listed(path, f"it is nested more than {MAX_DEPTH} directories deep")
        return
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        yield Listed(path, str(_unreadable(error)))
        return
    yield from _list(inner, path + "/", limit, depth + 1)


def _read(directory: int, name: str, limit: int) -> bytes:
    with _regular_file(directory, name) as (descriptor, size):
        if size > limit:
            raise Unreadable(_too_large(limit))
        data = bytearray()
        # It may grow while it is read, so its size alone bounds nothing.
        while chunk := os.read(descriptor, _CHUNK):
            data += chunk
            if len(data) > limit:
                raise Unreadable(_too_large(limit))
        return bytes(data)


@contextmanager
def _regular_file(directory: int, name: str) -> Iterator[tuple[int, int]]:
    """The descriptor and the size of a regular file. Raises Unreadable for any other entry, without having opened it."""
    handle = os.open(name, _HANDLE, dir_fd=directory)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise Unreadable(f"it is a {_KINDS.get(stat.S_IFMT(facts.st_mode), EntryKind.SPECIAL)}")
        if not hasattr(os, "O_PATH"):
            yield handle, facts.st_size
            return
        # This very handle, whatever the name stands for by now.
        descriptor = os.open(f"/proc/self/fd/{handle}", _READ)
        try:
            yield descriptor, facts.st_size
        finally:
            os.close(descriptor)
    finally:
        os.close(handle)


def _too_large(limit: int) -> str:
    return f"it is larger than {limit >> 20} MiB"


def _unreadable(error: OSError) -> Unreadable:
    return Unreadable(f"it cannot be read: {error.strerror or error}")
