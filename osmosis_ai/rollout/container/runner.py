"""Runs a workflow or a grader inside a sandbox."""

from osmosis.shell.rollout.container.runner import agent_main, grader_main

__all__ = ["agent_main", "grader_main"]
