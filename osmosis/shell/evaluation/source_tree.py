"""Walks a rollout's source directory and digests it (E19, E23; contract `eval_local.md` section 2).

What the tree may hold: regular files, and symbolic links to regular files, which count by what they point at. What cannot be
digested soundly is refused by name, all of it at once. File contents pass through in chunks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from osmosis.pure.digest import SourceEntry, SourceTree, is_excluded, source_tree_digest
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem

_CHUNK_BYTES = 1024 * 1024
_OWNER_MAY_EXECUTE = 0o100
_SHOWN_PROBLEMS = 20


def scan_source_tree(root: Path, exclude: Path | None = None) -> SourceTree:
    """Digest the files under `root`. `exclude`, usually the output root, is left out if it lies inside.

    Raises OsmosisError when `root` is no directory or is `exclude` itself, and one that names every directory link, broken
    link, special file, unreadable file and name that is not UTF-8; also when a file changes while it is read.
    """
    if not root.is_dir():
        raise OsmosisError(
            f"The rollout directory {root} does not exist.",
            code=ErrorCode.NOT_FOUND,
            hint="Check `rollout` in the config's [experiment] section; it names a directory under rollouts/.",
        )
    if exclude is not None and exclude.resolve() == root.resolve():
        raise OsmosisError(f"The output cannot go to the rollout directory {root} itself.", hint="Give another --output.")
    problems: list[Problem] = []
    entries = list(_walk(root, None if exclude is None else exclude.resolve(), problems))
    if problems:
        raise _refusal(root, problems)
    try:
        return source_tree_digest(entries)
    except OSError as error:
        raise _refusal(root, [Problem(str(error.filename or root), _reason(error))]) from None


def _walk(root: Path, exclude: Path | None, problems: list[Problem]) -> Iterator[SourceEntry]:
    """The files of the tree in no particular order; what has no place there goes to `problems`."""
    directories = [""]
    while directories:
        prefix = directories.pop()
        try:
            with os.scandir(root / prefix) as listing:
                found = [entry for entry in listing if not is_excluded((entry.name,))]
        except OSError as error:
            problems.append(Problem(prefix or str(root), _reason(error)))
            continue
        for entry in sorted(found, key=lambda entry: entry.name):
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if exclude is None or Path(entry.path).resolve() != exclude:
                    directories.append(f"{path}/")
                continue
            status, objection = _examine(entry, path)
            if status is None:
                problems.append(Problem(ascii(path)[1:-1], objection))
            else:
                executable = bool(status.st_mode & _OWNER_MAY_EXECUTE)
                yield SourceEntry(path, executable, status.st_size, _Content(entry.path))


def _examine(entry: os.DirEntry[str], path: str) -> tuple[os.stat_result | None, str]:
    """The status of a regular file, or None and why the entry has no place in a source tree."""
    try:
        path.encode()
        status = entry.stat()
    except UnicodeEncodeError:
        return None, "the name is not UTF-8"
    except OSError as error:
        return None, "a link that leads nowhere" if entry.is_symlink() else _reason(error)
    objection = next((text for is_kind, text in _REFUSED if is_kind(status.st_mode)), None)
    return (None, objection) if objection else (status, "")


_REFUSED: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a link to a directory; copy the directory here, or depend on it in pyproject.toml"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: not stat.S_ISREG(mode), "a device"),
)


class _Content:
    """The chunks of a file, opened only when they are asked for."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __iter__(self) -> Iterator[bytes]:
        # Without O_NONBLOCK a file that has become a pipe since it was looked at would hold us up for ever.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=0) as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                while chunk := file.read(_CHUNK_BYTES):
                    yield chunk


def _reason(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _refusal(root: Path, problems: list[Problem]) -> OsmosisError:
    more = [Problem("", f"... and {len(problems) - _SHOWN_PROBLEMS} more")] if problems[_SHOWN_PROBLEMS:] else []
    return OsmosisError(
        f"The rollout directory {root} holds what its digest cannot cover.",
        problems=[*problems[:_SHOWN_PROBLEMS], *more],
        hint="Remove or replace these, so that a change of the rollout's source is always noticed.",
    )
