"""The workflow that a rollout's author writes."""

from osmosis.shell.rollout.agent_workflow import AgentWorkflow

__all__ = ["AgentWorkflow"]
