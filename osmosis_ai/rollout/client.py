"""Driving rollouts on a server."""

from osmosis.shell.rollout.client import RolloutAdmissionTimeoutError, RolloutClient, RolloutProtocolError
from osmosis.shell.rollout.handle import RolloutHandle

__all__ = ["RolloutAdmissionTimeoutError", "RolloutClient", "RolloutHandle", "RolloutProtocolError"]
