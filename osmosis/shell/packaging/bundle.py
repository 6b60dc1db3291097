"""Builds bundles and looks into them (contract: rollout_protocol section 15).

A copy of the project's sources is built by uv with whatever build backend the project names. The generated module, the console
scripts and changed requirements go into the finished wheel, so no build backend has to understand them. A wheel is kept under a
key of everything it follows from, and appears in the cache whole or not at all.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from osmosis.pure.bundle import (
    MAIN_MODULE,
    BundleInfo,
    BundleReferences,
    bundle_key,
    bundle_scripts,
    main_module,
    normalised,
    requirements_of,
    script_names,
    with_requirements,
    with_scripts,
)
from osmosis.shell.packaging.project import PYPROJECT, cache_directory, find_package_dir, find_uv, source_files
from osmosis.shell.packaging.wheel_file import dist_info, read_wheel, write_wheel

BUNDLES_DIR = cache_directory() / "bundles"

_FORMAT = "2"
_BUILD_TIMEOUT_SEC = 600.0
_SHOWN_CHARACTERS = 2000


class BundleBuildError(RuntimeError):
    """uv could not build the project's wheel; the message quotes the end of what it said."""


def build_bundle(
    code_dir: Path | str,
    *,
    workflow: str | None = None,
    grader: str | None = None,
    workflow_config: str | None = None,
    grader_config: str | None = None,
    deps: Sequence[str] | None = None,
    package: str | None = None,
    bundles_dir: Path | str | None = None,
) -> Path:
    """Build the project in `code_dir` as a bundle and return its wheel; an equal one that was built before is reused.

    References are `module:attribute`. `deps` take the place of requirements of the same name. Raises ValueError for a project
    that cannot be a bundle (no `pyproject.toml`, no single package, no workflow and no grader, dynamic dependencies with
    `deps`), BundleBuildError if the build fails.
    """
    code_dir = Path(code_dir).resolve()
    references = BundleReferences(
        workflow=workflow, grader=grader, workflow_config=workflow_config, grader_config=grader_config
    )
    project = _project(code_dir)
    if deps and "dependencies" in project.get("dynamic", ()):
        raise ValueError(f"{code_dir / PYPROJECT} has dynamic dependencies, so deps= cannot replace any of them")
    name = find_package_dir(code_dir, package).name
    files = {path: file.read_bytes() for path, file in source_files(code_dir)}
    settings = (
        _FORMAT,
        main_module(references).decode(),
        *(deps or ()),
        name,
        sys.implementation.cache_tag or "",
        platform.platform(),
    )
    root = Path(bundles_dir) if bundles_dir is not None else BUNDLES_DIR
    place = root / normalised(str(project.get("name", code_dir.name))) / bundle_key(files.items(), settings)
    if (kept := _only_wheel(place)) is not None:
        return kept
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=place.parent) as scratch:
        built = _build(files, Path(scratch))
        finished = Path(scratch) / "bundle"
        finished.mkdir()
        _finish(built, finished / built.name, references, name, deps or ())
        try:
            finished.rename(place)
        except OSError:
            # Somebody built the same at the same time; theirs is as good.
            if _only_wheel(place) is None:
                raise
    wheel = _only_wheel(place)
    assert wheel is not None
    return wheel


def inspect_bundle(wheel: Path | str) -> BundleInfo:
    """What a bundle offers and needs. Raises ValueError for a file that is no bundle."""
    wheel = Path(wheel)
    files = read_wheel(wheel)
    info = dist_info(files, str(wheel))
    entry_points = files.get(f"{info}/entry_points.txt", b"").decode("utf-8", "replace")
    agent, grader, package = bundle_scripts(entry_points)
    if package is None:
        raise ValueError(f"{wheel} is not a bundle: no console script of it starts a {MAIN_MODULE}")
    metadata = files.get(f"{info}/METADATA", b"").decode("utf-8", "replace")
    return BundleInfo(str(wheel), agent, grader, requirements_of(metadata), package)


def _project(code_dir: Path) -> dict[str, Any]:
    path = code_dir / PYPROJECT
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{code_dir} has no {PYPROJECT}") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    project = document.get("project")
    return project if isinstance(project, dict) else {}


def _only_wheel(place: Path) -> Path | None:
    found = sorted(place.glob("*.whl"))
    return found[0] if found else None


def _build(files: Mapping[str, bytes], scratch: Path) -> Path:
    staged, output = scratch / "source", scratch / "wheels"
    for path, data in files.items():
        target = staged / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    command = [find_uv(), "build", "--wheel", "--quiet", "--no-config", "--out-dir", str(output), str(staged)]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, timeout=_BUILD_TIMEOUT_SEC, check=False
        )
    except subprocess.TimeoutExpired:
        raise BundleBuildError(f"uv did not build the bundle within {_BUILD_TIMEOUT_SEC:.0f} s") from None
    wheel = _only_wheel(output) if output.is_dir() else None
    shutil.rmtree(staged)
    if done.returncode != 0 or wheel is None:
        raise BundleBuildError(f"uv could not build the bundle:\n{(done.stderr or done.stdout).strip()[-_SHOWN_CHARACTERS:]}")
    return wheel


def _finish(built: Path, target: Path, references: BundleReferences, package: str, deps: Sequence[str]) -> None:
    files = read_wheel(built)
    info = dist_info(files, str(built))
    if f"{package}/__init__.py" not in files:
        raise BundleBuildError(f"the wheel of the project does not hold its package {package!r}; look at its build settings")
    files[f"{package}/{MAIN_MODULE}.py"] = main_module(references)
    entry_points = files.get(f"{info}/entry_points.txt", b"").decode()
    files[f"{info}/entry_points.txt"] = with_scripts(entry_points, script_names(package, references)).encode()
    if deps:
        files[f"{info}/METADATA"] = with_requirements(files[f"{info}/METADATA"].decode(), deps).encode()
    write_wheel(target, files, info)
