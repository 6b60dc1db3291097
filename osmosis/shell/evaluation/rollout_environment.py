"""The virtual environment of a rollout: where it lies, which Python it has, and whether `uv sync` has anything to do (E20).

A sync that succeeded leaves a stamp inside the environment. What counts is decided by `osmosis.pure.environment_stamp`; this
module only looks. Whatever it cannot see makes the next start sync, as the first one does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from osmosis.pure.environment_stamp import PROJECT_FILES, Installed, environment_fingerprint, path_sources
from osmosis.pure.errors import OsmosisError

_STAMP = ".osmosis-synced"
_LISTED = (".dist-info", ".egg-link", ".pth")


def find_uv() -> str:
    """The `uv` beside this interpreter, else the one on the PATH. Raises OsmosisError when there is none."""
    beside = Path(sys.executable).with_name("uv")
    if beside.exists():
        return str(beside)
    import shutil  # noqa: PLC0415 - brings every kind of compression

    found = shutil.which("uv")
    if found is None:
        raise OsmosisError("uv was not found.", hint='Install it with: pip install "osmosis-ai[eval]"')
    return found


def for_uv(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what would make `uv` use our virtual environment for the rollout."""
    return {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}


def interpreter(project: Path, environment: Mapping[str, str]) -> Path | None:
    """The Python of the environment that `uv` makes for `project`; None when it is not there, or `uv run` has more to do."""
    if environment.get("UV_ENV_FILE"):
        return None
    python = _directory(project, environment) / "bin" / "python"
    return python if os.access(python, os.X_OK) else None


def is_synced(project: Path, environment: Mapping[str, str], uv: str) -> bool:
    """Whether nothing has changed since the stamp was left."""
    try:
        stamp = (_directory(project, environment) / _STAMP).read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return stamp == _fingerprint(project, environment, uv)


def leave_stamp(project: Path, environment: Mapping[str, str], uv: str) -> None:
    """Remember what was just synced, if that can be known. Without a stamp the next start syncs again."""
    current = _fingerprint(project, environment, uv)
    if current is not None:
        with suppress(OSError):
            (_directory(project, environment) / _STAMP).write_text(current)


def activated(environment: Mapping[str, str], python: Path) -> dict[str, str]:
    """`environment` as `uv run` hands it to a program."""
    path = environment.get("PATH")
    return {
        **environment,
        "VIRTUAL_ENV": str(python.parent.parent),
        "PATH": f"{python.parent}{os.pathsep}{path}" if path else str(python.parent),
    }


def _directory(project: Path, environment: Mapping[str, str]) -> Path:
    return project / (environment.get("UV_PROJECT_ENVIRONMENT") or ".venv")


def _fingerprint(project: Path, environment: Mapping[str, str], uv: str) -> str | None:
    try:
        files = _files(project)
        installed = _installed(project, environment, uv)
    except OSError:
        return None
    return None if files is None or installed is None else environment_fingerprint(files, environment, installed)


def _files(project: Path) -> dict[str, bytes | None] | None:
    """Everything that uv reads of the project and of the checkouts it names. None where it may read more."""
    found: dict[str, bytes | None] = {}
    # A workspace or a configuration further up would take part, and `uv` finds those by walking up.
    for parent in project.parents:
        for name in ("pyproject.toml", "uv.toml"):
            found[str(parent / name)] = _content(parent / name)
    pending = [project]
    while pending:
        directory = pending.pop()
        if str(directory / "pyproject.toml") in found and directory != project:
            continue
        for name in PROJECT_FILES:
            found[str(directory / name)] = _content(directory / name)
        pyproject = found[str(directory / "pyproject.toml")]
        if pyproject is None:
            # A wheel, an archive, or a project without metadata of its own: its name says nothing of its content.
            return None
        sources = path_sources(pyproject)
        if sources is None:
            return None
        pending += [Path(os.path.normpath(directory / source)) for source in sources]
    return found


def _installed(project: Path, environment: Mapping[str, str], uv: str) -> Installed | None:
    directory = _directory(project, environment)
    python = interpreter(project, environment)
    packages = sorted((directory / "lib").glob("python*/site-packages"))
    if python is None or len(packages) != 1:
        return None
    base, program = os.stat(python), os.stat(uv)
    return Installed(
        interpreter=f"{os.path.realpath(python)} {base.st_size} {base.st_mtime_ns} {_text(directory / 'pyvenv.cfg')}",
        uv=f"{uv} {program.st_size} {program.st_mtime_ns}",
        distributions=tuple(sorted(name for name in os.listdir(packages[0]) if name.endswith(_LISTED))),
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
