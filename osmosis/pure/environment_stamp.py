"""When a rollout's environment needs no `uv sync`: nothing that decides what is in it has changed since the last one (E20).

The inputs are the project's own files, those of the checkouts it names by path (E21), the `uv` that synced, the variables that
steer it, and what is installed now. They become one fingerprint. Where uv looks further than these (workspaces, metadata that a
build computes, keys of its own), there is no fingerprint, and every start syncs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from osmosis.pure.digest import fingerprint

PROJECT_FILES = ("pyproject.toml", "uv.lock", "uv.toml", ".python-version", "setup.py", "setup.cfg")
"""What uv reads of a project, and of a checkout that a project names by path."""

STEERING_PREFIXES = ("UV_", "PIP_", "PYTHON")
STEERING_NAMES = frozenset({"PATH", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "HOME"})
"""Environment variables that may change what a sync installs."""


class Installed(msgspec.Struct, frozen=True):
    """What there is: `interpreter` describes the environment's Python, `uv` the program; `distributions` are names of metadata
    directories and path files of the environment."""

    interpreter: str
    uv: str
    distributions: tuple[str, ...]


def path_sources(pyproject: bytes) -> tuple[str, ...] | None:
    """The paths that a pyproject.toml names as sources, sorted. None where uv depends on more than files named here."""
    try:
        document = tomllib.loads(pyproject.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    uv = _table(_table(document, "tool"), "uv")
    beyond = ("workspace", "cache-keys", "dependency-metadata", "reinstall", "reinstall-package", "upgrade", "upgrade-package")
    if any(key in uv for key in beyond) or "dynamic" in _table(document, "project"):
        return None
    found: set[str] = set()
    for source in _table(uv, "sources").values():
        for entry in source if isinstance(source, list) else [source]:
            if not isinstance(entry, dict) or "workspace" in entry:
                return None
            if isinstance(path := entry.get("path"), str):
                found.add(path)
    return tuple(sorted(found))


def steering(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environment` that count."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in STEERING_NAMES or name.startswith(STEERING_PREFIXES)
    }


def environment_fingerprint(files: Mapping[str, bytes | None], variables: Mapping[str, str], installed: Installed) -> str:
    """The fingerprint of all inputs. `files` holds contents by absolute path, None for a file that is not there."""
    parts: Sequence[Any] = (
        1,
        [(path, None if data is None else fingerprint(data)) for path, data in sorted(files.items())],
        sorted(steering(variables).items()),
        installed,
    )
    return fingerprint(msgspec.json.encode(parts))


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}
