"""Driving rollouts on a server."""

from osmosis.shell.rollout.client import RolloutAdmissionTimeoutError, RolloutClient, RolloutHandle, RolloutProtocolError

__all__ = ["RolloutAdmissionTimeoutError", "RolloutClient", "RolloutHandle", "RolloutProtocolError"]
