"""Looks at what lies in a run directory, without following a link and without changing anything (`eval verify`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import READ_WHOLE, SMALL_FILES
from osmosis.pure.digest import ContentHasher
from osmosis.pure.finding import FileFact
from osmosis.pure.projection_audit import COPIES
from osmosis.shell.evaluation.own_files import SMALL, TABLE, chunks_of, kind_in, kind_of


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
    kind = kind_in(status.st_mode)
    mode = stat.S_IMODE(status.st_mode)
    relative = path.relative_to(root)
    whole = relative.as_posix() in READ_WHOLE
    limit = SMALL if relative.as_posix() in SMALL_FILES else TABLE
    if kind is not EntryKind.FILE or not (whole or relative.parts[0] in COPIES):
        return FileFact(kind, mode)
    hasher = ContentHasher()
    content = []
    try:
        for chunk in chunks_of(path, limit):
            hasher.update(chunk)
            if whole:
                content.append(chunk)
    except OSError as error:
        return FileFact(kind, mode, trouble=error.strerror or str(error))
    return FileFact(kind, mode, hasher.fingerprint, b"".join(content) if whole else None)
