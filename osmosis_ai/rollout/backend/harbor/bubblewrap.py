"""The Harbor environment that needs neither daemon nor images."""

from osmosis.shell.rollout.harbor.bubblewrap import BubblewrapEnvironment

__all__ = ["BubblewrapEnvironment"]
