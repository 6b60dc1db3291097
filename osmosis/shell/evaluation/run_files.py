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
from osmosis.shell.evaluation.hostile_files import MAX_DEPTH
from osmosis.shell.evaluation.own_files import SMALL, TABLE, chunks_of, kind_in, kind_of

DEEPEST = MAX_DEPTH + 2
"""Directories below `artifacts/` or `trajectories/`: an item's own, and those that `hostile_files` goes down to."""


def survey(root: Path) -> dict[str, FileFact]:
    """Every entry of the run directory by its POSIX path: the top level, and everything below the directories of copies."""
    return {path.relative_to(root).as_posix(): _fact(root, path) for path in _walk(root)}


def _walk(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        yield path
        if path.name in COPIES and kind_of(path) is EntryKind.DIRECTORY:
            yield from _below(path)


def _below(root: Path) -> Iterator[Path]:
    """Everything below a directory of copies, as deep as anything is copied; what lies deeper goes with its parent."""
    waiting = [(root, 0)]
    while waiting:
        directory, depth = waiting.pop()
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            yield directory / entry.name
            if entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
                waiting.append((directory / entry.name, depth + 1))


def _fact(root: Path, path: Path) -> FileFact:
    status = path.lstat()
    kind = kind_in(status.st_mode)
    mode = stat.S_IMODE(status.st_mode)
    relative = path.relative_to(root)
    whole = relative.as_posix() in READ_WHOLE
    limit = SMALL if relative.as_posix() in SMALL_FILES else TABLE
    if kind is EntryKind.DIRECTORY and len(relative.parts) > DEEPEST + 1:
        return FileFact(kind, mode, trouble="is nested deeper than anything that is copied")
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
