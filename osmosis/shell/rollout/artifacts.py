"""The directories that rollouts write to (contract: rollout_protocol section 10)."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV
from osmosis.shell.rollout.file_worker import off_loop

logger = logging.getLogger(__name__)

MARKER_NAME = ".osmosis-health-check"
MARKER = b"osmosis-health-check"
_RETRY_DELAYS_SEC = (0.5, 1.0)


def artifact_root() -> Path:
    """Where rollouts keep their files: the runner's choice in the environment, else `~/.osmosis`."""
    configured = os.environ.get(ARTIFACT_ROOT_ENV)
    return Path(configured) if configured else Path.home() / ".osmosis"


async def prepare_artifacts_dir(root: Path, rollout_id: str) -> Path | None:
    """Make `<root>/<rollout_id>/artifacts` and prove that it can be written to; None if three tries fail.

    The rollout goes on without a directory, since most write no files.
    """
    directory = os.path.join(root, rollout_id)
    for delay in (*_RETRY_DELAYS_SEC, None):
        try:
            return Path(await off_loop(lambda: _prepare(directory)))
        except OSError as error:
            if delay is None:
                logger.warning("No artifacts directory for rollout %s: %s", rollout_id, error)
                return None
            await asyncio.sleep(delay)
    return None


def _prepare(directory: str) -> str:
    artifacts = os.path.join(directory, "artifacts")
    make_directory(directory)
    make_directory(artifacts)
    try:
        descriptor = os.open(os.path.join(directory, MARKER_NAME), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return artifacts
    try:
        os.write(descriptor, MARKER)
    finally:
        os.close(descriptor)
    return artifacts


def make_directory(path: str) -> None:
    """Make one directory, and those above it only if they are missing, which is rare. Raises OSError."""
    try:
        os.mkdir(path)
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
