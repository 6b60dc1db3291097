"""Samples and their messages."""

from osmosis.shell.rollout.types.sample import MessageDict, Messages, RolloutSample

__all__ = ["MessageDict", "Messages", "RolloutSample"]
