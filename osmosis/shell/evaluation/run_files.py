"""Looks at what lies in a run directory, without following a link and without changing anything (`eval verify`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import READ_WHOLE
from osmosis.pure.digest import ContentHasher
from osmosis.pure.finding import FileFact
from osmosis.pure.projection_audit import COPIES

_CHUNK = 1 << 20
_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}


def kind_of(path: Path) -> EntryKind | None:
    """What lies at `path` itself; None when nothing does."""
    try:
        return _KINDS.get(stat.S_IFMT(path.lstat().st_mode), EntryKind.SPECIAL)
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_regular(path: Path) -> int:
    """A descriptor that reads the regular file at `path`. Neither a link nor a pipe can put something else in its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no longer a regular file")
    return descriptor


def read_regular(path: Path) -> bytes | None:
    """The bytes of a regular file; None when there is none that can be read."""
    try:
        return b"".join(_chunks(path))
    except OSError:
        return None


def survey(root: Path) -> dict[str, FileFact]:
    """Every entry of the run directory by its POSIX path: the top level, and everything below the directories of copies."""
    return {path.relative_to(root).as_posix(): _fact(root, path) for path in _walk(root)}


def _walk(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        yield path
        if path.name in COPIES and kind_of(path) is EntryKind.DIRECTORY:
            for directory, directories, names in os.walk(path, onerror=_raise):
                yield from (Path(directory, name) for name in sorted([*directories, *names]))


def _raise(error: OSError) -> None:
    raise error


def _fact(root: Path, path: Path) -> FileFact:
    status = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.SPECIAL)
    mode = stat.S_IMODE(status.st_mode)
    relative = path.relative_to(root)
    whole = relative.as_posix() in READ_WHOLE
    if kind is not EntryKind.FILE or not (whole or relative.parts[0] in COPIES):
        return FileFact(kind, mode)
    hasher = ContentHasher()
    content = []
    try:
        for chunk in _chunks(path):
            hasher.update(chunk)
            if whole:
                content.append(chunk)
    except OSError as error:
        return FileFact(kind, mode, trouble=error.strerror or str(error))
    return FileFact(kind, mode, hasher.fingerprint, b"".join(content) if whole else None)


def _chunks(path: Path) -> Iterator[bytes]:
    with open(open_regular(path), "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
