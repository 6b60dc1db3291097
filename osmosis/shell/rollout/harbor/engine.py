"""Asks the container engine of docker and podman trials two things: its gateway, and what a trial left (E24; ruling 26)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
from collections.abc import Sequence

logger = logging.getLogger(__name__)

_TIMEOUT_SEC = 20.0
_PROJECT_LABELS = ("com.docker.compose.project", "io.podman.compose.project")
_NETWORKS = {"docker": "bridge", "podman": "podman"}


def gateway_of(engine: str) -> str | None:
    """The address of this machine in the engine's default network; None if the engine does not tell."""
    text = _output([engine, "network", "inspect", _NETWORKS[engine]])
    try:
        return None if text is None else _gateway(json.loads(text))
    except (ValueError, LookupError, TypeError):
        return None


def _gateway(networks: list[dict[str, object]]) -> str | None:
    found: list[str] = re.findall(r'"[Gg]ateway": "([0-9.]+)"', json.dumps(networks))
    return found[0] if found else None


def project_name(session_id: str) -> str:
    """The compose project of an environment: Harbor's session id as compose spells it."""
    name = session_id.lower()
    return re.sub(r"[^a-z0-9_-]", "-", name if re.match("[a-z0-9]", name) else f"0{name}")


async def sweep(engine: str, project: str) -> None:
    """Remove containers and networks of a compose project that a cancelled start may have left behind its own end."""
    await asyncio.to_thread(sweep_now, engine, project)


def sweep_now(engine: str, project: str) -> None:
    """The same, at once. Never raises: what cannot be removed is logged."""
    for label in _PROJECT_LABELS:
        marked = f"label={label}={project}"
        _remove([engine, "ps", "--all", "--quiet", "--filter", marked], [engine, "rm", "--force", "--volumes"])
        _remove([engine, "network", "ls", "--quiet", "--filter", marked], [engine, "network", "rm"])


def _remove(listing: Sequence[str], removal: Sequence[str]) -> None:
    found = (_output(listing) or "").split()
    if found and _output([*removal, *found]) is None:
        logger.warning("%s could not be removed: %s", removal[1], ", ".join(found))


def _output(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SEC, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
