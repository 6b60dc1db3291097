"""The grader that a rollout's author writes."""

from osmosis.shell.rollout.grader import Grader

__all__ = ["Grader"]
