"""Opens the files of a run directory that are the run's own: regular files, no links, and no larger than somebody can hold.

A run may have come from anywhere, and whoever only looks at one must not be led to other files, wait for a pipe, or run out of
memory. Errors are OSErrors whose words follow the file's name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.artifacts import EntryKind

SMALL = 64 << 20
"""Bytes of a manifest, of metrics and other files that do not grow with the run."""
TABLE = 4 << 30
"""Bytes of a file with a line for each row or result, and of a copy."""

_CHUNK = 1 << 20
_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}


def kind_in(mode: int) -> EntryKind:
    """What a mode of `lstat` stands for."""
    return _KINDS.get(stat.S_IFMT(mode), EntryKind.SPECIAL)


def kind_of(path: Path) -> EntryKind | None:
    """What lies at `path` itself; None when nothing does."""
    try:
        return kind_in(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_regular(path: Path) -> int:
    """A descriptor that reads the regular file at `path`. Neither a link nor a pipe can put something else in its place.
    Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, EntryKind.SYMLINK) from None
        raise
    kind = kind_in(os.fstat(descriptor).st_mode)
    if kind is not EntryKind.FILE:
        os.close(descriptor)
        raise _refused(path, kind)
    return descriptor


def _refused(path: Path, kind: EntryKind) -> OSError:
    return OSError(errno.EINVAL, f"it is a {kind}", str(path))


def chunks_of(path: Path, limit: int) -> Iterator[bytes]:
    """The content of the regular file at `path`. Raises OSError, also as soon as it goes on beyond `limit` bytes."""
    with open(open_regular(path), "rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_large(path, limit)
        read = 0  # it may grow meanwhile
        while chunk := file.read(_CHUNK):
            read += len(chunk)
            if read > limit:
                raise _too_large(path, limit)
            yield chunk


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {limit >> 20} MiB", str(path))


def read_own(path: Path, limit: int) -> bytes:
    """The bytes of the regular file at `path`, at most `limit`. Raises OSError."""
    return b"".join(chunks_of(path, limit))


def read_regular(path: Path, limit: int = SMALL) -> bytes | None:
    """The bytes of a regular file; None when there is none that can be read."""
    try:
        return read_own(path, limit)
    except OSError:
        return None
