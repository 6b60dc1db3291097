"""Writes a new rollout into a workspace (requirement E21; contract: rollout_protocol section 18).

The rollout's directory appears whole: it is written beside its place and renamed. Nothing is replaced without being asked, and
never through a symlink.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import osmosis
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.scaffold import TEMPLATES, Scaffold, ScaffoldReport, check_name, scaffold

_DISTRIBUTION = "osmosis-ai"


def write_rollout(workspace: Path, name: str, *, force: bool, force_hint: str) -> ScaffoldReport:
    """Write the rollout `name`. With `force` existing targets are replaced: a real directory, regular files.

    Raises OsmosisError for a name that is none, for targets that exist (`force_hint` is the command that replaces them), and
    where the file system refuses.
    """
    check_name(name)
    rollout_directory = workspace / "rollouts" / name
    plan = scaffold(name, _templates(), _sdk_checkout(workspace, rollout_directory))
    existing = [path for path in _targets(workspace, plan) if os.path.lexists(path)]
    if existing and not force:
        shown = [Problem(_shown(path, workspace), "exists already") for path in existing]
        raise OsmosisError(
            f"The rollout {name} cannot be written: {len(shown)} of its targets exist.",
            code=ErrorCode.CONFLICT,
            problems=shown,
            hint=f"Choose another name, or replace them: {force_hint}",
            details={"conflicts": [problem.where for problem in shown]},
        )
    _refuse_strange(existing, rollout_directory, workspace)
    try:
        _write_directory(rollout_directory, plan)
        for file in plan.outside:
            _write_file(workspace / file.path, file.text)
    except OSError as error:
        raise OsmosisError(
            f"The rollout {name} could not be written.",
            problems=[Problem(str(error.filename or rollout_directory), error.strerror or str(error))],
            hint="Look at the permissions and the free space of the workspace.",
        ) from None
    configs = {kind: str(workspace / "configs" / kind / f"{name}.toml") for kind in ("eval", "training")}
    return ScaffoldReport(
        name=name,
        workspace_directory=str(workspace),
        rollout_directory=str(rollout_directory),
        configs=configs,
        dataset=str(workspace / "data" / f"{name}.jsonl"),
        files=tuple(str(workspace / file.path) for file in plan.files),
        replaced=tuple(_shown(path, workspace) for path in existing),
    )


def _templates() -> dict[str, str]:
    directory = files("osmosis.shell") / "rollout_template"
    return {name: (directory / name).read_text("utf-8") for name in TEMPLATES}


def _sdk_checkout(workspace: Path, rollout_directory: Path) -> str | None:
    """The source checkout that this package runs from, relative where the workspace lies inside it; None for an installed
    package."""
    roots = (Path(osmosis.__file__).resolve().parents[1], _installed_from())
    root = next((path for path in roots if path is not None and _is_checkout(path)), None)
    if root is None:
        return None
    inside = workspace.resolve().is_relative_to(root)
    return Path(os.path.relpath(root, rollout_directory.resolve())).as_posix() if inside else root.as_posix()


def _is_checkout(root: Path) -> bool:
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8")).get("project", {})
    except (OSError, ValueError):
        return False
    return bool(project.get("name") == _DISTRIBUTION)


def _installed_from() -> Path | None:
    """The directory that `pip install DIRECTORY` took the package from, as its installation records it (PEP 610)."""
    try:
        record = distribution(_DISTRIBUTION).read_text("direct_url.json")
        url = json.loads(record or "{}").get("url", "")
    except (PackageNotFoundError, OSError, ValueError):
        return None
    return Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None


def _targets(workspace: Path, plan: Scaffold) -> list[Path]:
    return [workspace / plan.rollout_directory, *(workspace / file.path for file in plan.outside)]


def _shown(path: Path, workspace: Path) -> str:
    relative = path.relative_to(workspace).as_posix()
    return relative + "/" if path.is_dir() and not path.is_symlink() else relative


def _refuse_strange(existing: Iterable[Path], rollout_directory: Path, workspace: Path) -> None:
    problems = []
    for path in existing:
        mode = path.lstat().st_mode
        wanted, right = ("directory", stat.S_ISDIR) if path == rollout_directory else ("regular file", stat.S_ISREG)
        if not right(mode):
            problems.append(Problem(_shown(path, workspace), f"is not a {wanted} and is not replaced"))
    if problems:
        raise OsmosisError(
            "Some targets cannot be replaced.", code=ErrorCode.CONFLICT, problems=problems, hint="Move them away first."
        )


def _write_directory(target: Path, plan: Scaffold) -> None:
    """Put the rollout's directory in place, whole; what was there before is removed last."""
    fresh, old = (target.with_name(f".{target.name}.{os.getpid()}.{kind}") for kind in ("new", "old"))
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh.mkdir()
    try:
        for file in plan.inside:
            (fresh / Path(file.path).name).write_text(file.text, "utf-8")
        replaced = target.exists()
        if replaced:
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if replaced:
                old.rename(target)
            raise
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_file(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        fresh.write_text(text, "utf-8")
        fresh.replace(target)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
