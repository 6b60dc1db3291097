"""Backends: what executes rollouts."""

from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.local_backend import LocalBackend

__all__ = ["ExecutionBackend", "LocalBackend"]
