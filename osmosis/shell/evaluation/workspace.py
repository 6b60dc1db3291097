"""Finds the workspace, and what git knows about it (ruling 11; git is provenance and not required for a local run)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.evaluation.missing_file import meant_beside

CONFIG_DIRECTORY = Path("configs/eval")
ROLLOUTS_DIRECTORY = Path("rollouts")
DEFAULT_OUTPUT = Path(".osmosis/evals")
_GIT_TIMEOUT = 10.0


class GitState(msgspec.Struct, frozen=True):
    """The commit a workspace stands at. `branch` is None on a detached head."""

    head: str | None = None
    branch: str | None = None
    dirty: bool | None = None


def find_workspace(start: Path) -> Path:
    """The nearest directory at or above `start` that holds `configs/eval/` and `rollouts/`. Raises OsmosisError."""
    for candidate in (start, *start.parents):
        if (candidate / CONFIG_DIRECTORY).is_dir() and (candidate / ROLLOUTS_DIRECTORY).is_dir():
            return candidate
    raise OsmosisError(
        f"{start} is not inside a workspace.",
        code=ErrorCode.WORKSPACE_REQUIRED,
        hint=f"A workspace is a directory with {CONFIG_DIRECTORY}/ and {ROLLOUTS_DIRECTORY}/. Change into one, or create them.",
    )


def locate_config(path: Path, working_directory: Path) -> tuple[Path, Path]:
    """(workspace, config file), both absolute. The config must lie below the workspace's `configs/eval/` (E1)."""
    config = (working_directory / path).resolve()
    if not config.is_file():
        wrong = "is not a file." if config.exists() else f"does not exist.{meant_beside(config)}"
        raise OsmosisError(
            f"The config {path} {wrong}",
            code=ErrorCode.NOT_FOUND,
            hint=f"Eval configs are TOML files below {CONFIG_DIRECTORY}/ of a workspace.",
        )
    workspace = find_workspace(config.parent)
    if not config.is_relative_to(workspace / CONFIG_DIRECTORY) or config.suffix != ".toml":
        raise OsmosisError(
            f"{path} is not an eval config.",
            hint=f"Eval configs are .toml files below {workspace / CONFIG_DIRECTORY}.",
        )
    return workspace, config


def git_state(workspace: Path) -> GitState:
    """What git says about the workspace; nothing where there is no git, no repository, or no answer in time."""
    command = ["git", "-C", str(workspace), "status", "--porcelain=v2", "--branch"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_GIT_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return GitState()
    headers = dict(line[2:].split(" ", 1) for line in found.stdout.splitlines() if line.startswith("# branch."))
    head, branch = headers.get("branch.oid"), headers.get("branch.head")
    return GitState(
        head=None if head == "(initial)" else head,
        branch=None if branch == "(detached)" else branch,
        dirty=any(not line.startswith("#") for line in found.stdout.splitlines()),
    )
