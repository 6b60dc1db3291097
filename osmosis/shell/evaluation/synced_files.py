"""Makes durable what somebody else wrote: one file, one directory, or whole trees, side by side (decision 0062).

One after the other, each file would wait for the disk by itself; what many wait for, it settles in one go. The threads do
nothing but wait: walking, opening and closing is done by the caller's, so that they do not fight for the interpreter.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_SIDE_BY_SIDE: Final = 4
"""Threads that wait for the disk, the caller's among them."""

_OPEN_AT_ONCE: Final = 32
"""Files or directories that are open for that at once: a process has few descriptors to spare."""

_NOT_OURS: Final = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP})

_Path = Path | str


def sync_file(path: _Path) -> None:
    """A regular file; anything else is left alone."""
    _sync(_FILES, path)


def sync_directory(path: _Path) -> None:
    """The names in a directory. File systems that cannot sync a directory do not need it."""
    _sync(_DIRECTORIES, path)


def sync_trees(paths: Iterable[_Path], without: Container[str] = ()) -> None:
    """All names and regular files below these directories but those named in `without`. Links are not followed; what goes away
    meanwhile, or may not be read, is left out."""
    directories: list[_Path] = []
    _sync_side_by_side(_FILES, below(paths, directories, without))
    _sync_side_by_side(_DIRECTORIES, iter(directories))


def below(paths: Iterable[_Path], directories: list[_Path], without: Container[str] = ()) -> Iterator[str]:
    """Everything below these directories that is none itself. Directories go to `directories`, each behind the one it is in."""
    # Most trees are a handful of entries, and there is one for each result: plain strings, and one look at each entry.
    pending = list(paths)
    for directory in pending:
        directories.append(directory)
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.name in without:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry.path


def _open_file(path: _Path) -> int | None:
    try:
        # A pipe that somebody left there must not make us wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NOT_OURS:
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _open_directory(path: _Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return None


class _Kind(NamedTuple):
    """How to open what is to be synced (None: it is left alone), and which errors say that it need not be."""

    open: Callable[[_Path], int | None]
    needless: frozenset[int]


_FILES: Final = _Kind(_open_file, frozenset())
_DIRECTORIES: Final = _Kind(_open_directory, frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES}))


def _sync(kind: _Kind, path: _Path) -> None:
    descriptor = kind.open(path)
    if descriptor is not None:
        try:
            _sync_all(kind, (descriptor,))
        finally:
            os.close(descriptor)


def _sync_side_by_side(kind: _Kind, paths: Iterator[_Path]) -> None:
    """Sync many; what is gone meanwhile is left out."""
    while some := tuple(islice(paths, _OPEN_AT_ONCE)):
        descriptors: list[int] = []
        try:
            for path in some:
                with suppress(FileNotFoundError):
                    if (descriptor := kind.open(path)) is not None:
                        descriptors.append(descriptor)
            _share_out(kind, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _share_out(kind: _Kind, descriptors: Sequence[int]) -> None:
    """Sync in several threads, of which this is one."""
    from concurrent.futures import wait  # noqa: PLC0415 - brings logging, which a look at a run does without

    mine, *shares = (descriptors[first::_SIDE_BY_SIDE] for first in range(_SIDE_BY_SIDE))
    others = [_helpers().submit(_sync_all, kind, share) for share in shares if share]
    try:
        _sync_all(kind, mine)
    finally:
        # Whatever happens, nobody may be left at work on descriptors that are about to be closed.
        wait(others)
    for other in others:
        other.result()


def _sync_all(kind: _Kind, descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in kind.needless:
                raise


@cache
def _helpers() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

    return ThreadPoolExecutor(_SIDE_BY_SIDE - 1, thread_name_prefix="sync")
