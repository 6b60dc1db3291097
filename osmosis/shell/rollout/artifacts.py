"""The directories that rollouts write to (contract: rollout_protocol section 10)."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV

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
    for delay in (*_RETRY_DELAYS_SEC, None):
        try:
            return await asyncio.to_thread(_prepare, root / rollout_id)
        except OSError as error:
            if delay is None:
                logger.warning("No artifacts directory for rollout %s: %s", rollout_id, error)
                return None
            await asyncio.sleep(delay)
    return None


def _prepare(directory: Path) -> Path:
    artifacts = directory / "artifacts"
    artifacts.mkdir(parents=True, exist_ok=True)
    marker = directory / MARKER_NAME
    if not marker.exists():
        marker.write_bytes(MARKER)
    return artifacts
