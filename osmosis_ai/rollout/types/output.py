"""What a workflow returns."""

from osmosis.shell.rollout.types.output import AgentWorkflowOutput, coerce_output

__all__ = ["AgentWorkflowOutput", "coerce_output"]
