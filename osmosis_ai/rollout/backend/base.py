"""The interface of backends."""

from osmosis.shell.rollout.backend import ExecutionBackend

__all__ = ["ExecutionBackend"]
