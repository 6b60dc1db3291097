"""Gathers the facts of a checkup. Nothing is changed, nothing is decided, and whatever cannot be looked at is left open."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from osmosis.pure.checkup import PLATFORM_PATHS, REQUIRED_PATHS, ConfigFact, Facts, ModelFact, missing_variables
from osmosis.pure.config import EvalConfig, decode_config
from osmosis.pure.errors import OsmosisError
from osmosis.pure.providers import Endpoint, resolve
from osmosis.shell.evaluation.workspace import CONFIG_DIRECTORY, DEFAULT_OUTPUT, ROLLOUTS_DIRECTORY, find_workspace

_PATIENCE = 5.0
_MODULES = ("aiohttp", "fastapi", "filelock", "litellm", "polars", "pydantic", "uvicorn")
"""Of the `eval` extra."""


def gather(start: Path, environment: Mapping[str, str]) -> Facts:
    """The facts about this machine and the workspace at or above `start`."""
    workspace = workspace_at(start)
    configs = tuple(_configs(workspace)) if workspace else ()
    readable = [config for _, config in configs if config is not None]
    required = (name for config in readable for name in config.secret_names)
    models = sorted({config.experiment.model_path for config in readable})
    root = workspace or start
    return Facts(
        python=sys.version_info[:3],
        today=f"{datetime.now(UTC):%Y-%m-%d}",
        workspace=str(workspace) if workspace else None,
        missing=tuple(path for path in (*REQUIRED_PATHS, *PLATFORM_PATHS) if not (root / path).is_dir()),
        git=_git(root, "rev-parse", "--git-dir") == 0,
        ignored=_ignored(root),
        lacking=tuple(name for name in _MODULES if importlib.util.find_spec(name) is None),
        uv=_uv(environment),
        configs=tuple(fact for fact, _ in configs),
        secrets_missing=tuple(missing_variables(required, (name for name, value in environment.items() if value))),
        models=tuple(_models(models, environment)),
        free_bytes=_free(root),
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def workspace_at(start: Path) -> Path | None:
    """The workspace at or above `start`, None outside of one."""
    try:
        return find_workspace(start)
    except OsmosisError:
        return None


def git_top_level(start: Path) -> Path | None:
    """The top of the repository around `start`."""
    try:
        found = subprocess.run(
            ["git", "-C", str(start), "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(found.stdout.removesuffix("\n"))


def _git(directory: Path, *arguments: str) -> int | None:
    """The exit code of a git command; None where there is no git or no answer."""
    nowhere = subprocess.DEVNULL
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode


def _ignored(workspace: Path) -> bool | None:
    code = _git(workspace, "check-ignore", "--quiet", f"{DEFAULT_OUTPUT}/x")
    return {0: True, 1: False}.get(code) if code is not None else None


def _uv(environment: Mapping[str, str]) -> str | None:
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv", path=environment.get("PATH"))
    if program is None:
        return None
    try:
        found = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def _configs(workspace: Path) -> Iterator[tuple[ConfigFact, EvalConfig | None]]:
    for path in sorted((workspace / CONFIG_DIRECTORY).rglob("*.toml")):
        label = path.relative_to(workspace).as_posix()
        try:
            config = decode_config(path.read_bytes(), label)
        except OsmosisError as error:
            yield ConfigFact(label, tuple(problem.message for problem in error.problems) or (error.message,)), None
            continue
        except OSError as error:
            yield ConfigFact(label, (error.strerror or str(error),)), None
            continue
        project = workspace / ROLLOUTS_DIRECTORY / config.experiment.rollout
        wanted = (project / config.experiment.entrypoint, project / "pyproject.toml")
        lacking = tuple(f"{file.relative_to(workspace)} does not exist" for file in wanted if not file.is_file())
        yield ConfigFact(label, lacking), config


def _models(paths: Iterable[str], environment: Mapping[str, str]) -> Iterator[ModelFact]:
    for path in paths:
        try:
            endpoint = resolve(path, environment)
        except OsmosisError as error:
            yield ModelFact(path, problem="; ".join(map(str, error.problems)) or error.message)
            continue
        yield _ask(path, endpoint)


def _ask(path: str, endpoint: Endpoint) -> ModelFact:
    """Ask the host for its models: that costs nothing, and any answer proves that it can be reached."""
    if not endpoint.base_url:
        return ModelFact(path, endpoint.host)
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    try:
        reply = httpx.get(f"{endpoint.base_url}/models", headers=headers, timeout=_PATIENCE, follow_redirects=False)
    except httpx.TimeoutException:
        return ModelFact(path, endpoint.host, trouble=f"no answer within {_PATIENCE:.0f} s")
    except (httpx.HTTPError, OSError) as error:
        return ModelFact(path, endpoint.host, trouble=_words(error))
    return ModelFact(path, endpoint.host, status=reply.status_code, skew_s=_skew(reply.headers.get("date"), time.time()))


def _words(error: Exception) -> str:
    """The reason without the number that the operating system has for it."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


def _skew(date: str | None, now: float) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        return parsedate_to_datetime(date or "").timestamp() - now
    return None


def _free(directory: Path) -> int | None:
    with suppress(OSError):
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize
    return None
