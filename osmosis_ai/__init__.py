"""Documented import names for people who write rollouts and rewards; re-exports only."""

from osmosis import __version__

__all__ = ["__version__"]
