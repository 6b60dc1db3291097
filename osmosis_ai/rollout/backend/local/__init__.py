"""The backend that runs rollouts in the server's own process."""

from osmosis.shell.rollout.local_backend import LocalBackend

__all__ = ["LocalBackend"]
