"""Finds run directories: one by name or path, or all of a workspace (E5, E11). Light to import; reads no file of a run."""

from __future__ import annotations

import os
import re
from pathlib import Path

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.near_miss import did_you_mean
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.workspace import DEFAULT_OUTPUT, find_workspace

ARCHIVED = re.compile(r".+\.archive-\d{8}T\d{6}Z(?:-\d+)?")
"""Names of runs that `--fresh` moved aside (E22)."""


def output_root(working_directory: Path, output: Path | None = None) -> Path:
    """The directory of all runs: `output`, or `.osmosis/evals` of the workspace. Raises OsmosisError outside a workspace."""
    root = output.expanduser() if output else find_workspace(working_directory) / DEFAULT_OUTPUT
    return (working_directory / root).resolve()


def run_directories(root: Path) -> list[RunDirectory]:
    """Every directory below `root` that has a manifest, in no order; none where there is no such root. Links are not
    followed. Raises OsmosisError for a root that cannot be read."""
    try:
        with os.scandir(root) as entries:
            found = [RunDirectory(root, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OsmosisError(
            f"The runs at {root} cannot be listed.",
            problems=[Problem(str(error.filename or root), error.strerror or str(error))],
            hint="Check the permissions, or name another place with --output.",
        ) from None
    return [directory for directory in found if _may_have_a_manifest(directory)]


def _may_have_a_manifest(directory: RunDirectory) -> bool:
    """Whether a manifest is there, or cannot be looked for; whoever reads it then says why not."""
    try:
        return directory.manifest.is_file()
    except OSError:
        return True


def locate_run(run: str, working_directory: Path, output: Path | None = None, *, lost_manifest: bool = False) -> RunDirectory:
    """The directory of `run`: a path if it holds a separator or is `.` or `..`, else a name below `output`.

    `output` is `.osmosis/evals` of the workspace unless given. Raises OsmosisError when no manifest is there; it names the run
    that was probably meant. A run that has `lost_manifest` is still one if its journal is there.
    """
    given = Path(run).expanduser()
    if os.sep in run or run in ("", ".", "..") or run.startswith("~"):
        path = (working_directory / given).resolve()
        directory = RunDirectory(path.parent, path.name)
    else:
        directory = RunDirectory(output_root(working_directory, output), run)
        _refuse_link(directory)
    if not (_may_have_a_manifest(directory) or (lost_manifest and _holds_part_of_a_run(directory))):
        names = sorted(found.name for found in run_directories(directory.output_root))
        raise OsmosisError(
            f"There is no run at {directory.path}.{did_you_mean(directory.name, names)}",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(directory.manifest), "no such file")],
            hint="Give the name of a run below .osmosis/evals (or below --output), or the path of a run directory: ./NAME. "
            "`osmosis eval list` shows them.",
        )
    return directory


def _refuse_link(directory: RunDirectory) -> None:
    if directory.path.is_symlink():
        raise OsmosisError(
            f"{directory.path} is a symbolic link, and runs are not looked for behind links.",
            problems=[Problem(str(directory.path), "leads elsewhere")],
            hint="Give the path of the run directory itself.",
        )


def _holds_part_of_a_run(directory: RunDirectory) -> bool:
    return os.path.lexists(directory.manifest) or os.path.lexists(directory.journal)
