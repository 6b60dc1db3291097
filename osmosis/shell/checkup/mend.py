"""`osmosis doctor --fix`: makes missing directories and a line of `.gitignore`. Nothing is overwritten, no link followed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem

IGNORED = ".osmosis/"


def make_directories(workspace: Path, paths: Iterable[str]) -> list[str]:
    """Make each missing directory with a `.gitkeep` in it, so that git keeps it. Returns what was made, as paths from the
    workspace.

    Raises OsmosisError (CONFLICT) before anything is made when a part of a path is a link or not a directory.
    """
    wanted = list(paths)
    in_the_way = [part for path in wanted for part in _parts(workspace, path) if _in_the_way(part)]
    if in_the_way:
        raise OsmosisError(
            "Something is in the way of the workspace's directories.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(str(part), "is a link or not a directory") for part in dict.fromkeys(in_the_way)],
            hint="Move it away and run the command again. Nothing was changed.",
        )
    made = []
    for path in wanted:
        if not (workspace / path).is_dir():
            (workspace / path).mkdir(parents=True)
            (workspace / path / ".gitkeep").touch()
            made.append(f"{path}/.gitkeep")
    return made


def ignore_results(workspace: Path) -> list[str]:
    """Add `.osmosis/` to the workspace's `.gitignore`. Raises OsmosisError when that is a link."""
    path = workspace / ".gitignore"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise OsmosisError(
            f"{path} cannot be written: {error.strerror}.", code=ErrorCode.CONFLICT, hint=f"Add the line {IGNORED} by hand."
        ) from None
    with open(descriptor, "r+b") as file:
        before = file.read()
        file.write((b"" if not before or before.endswith(b"\n") else b"\n") + IGNORED.encode() + b"\n")
    return [".gitignore"]


def _parts(workspace: Path, path: str) -> list[Path]:
    target = workspace / path
    return [part for part in (*reversed(target.parents), target) if part.is_relative_to(workspace) and part != workspace]


def _in_the_way(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not path.is_dir())
