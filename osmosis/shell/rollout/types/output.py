"""What a workflow may return (contract: rollout_protocol sections 2.3 and 4)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from osmosis.shell.rollout.types.sample import Messages


class AgentWorkflowOutput(BaseModel):
    """A finished conversation and what the workflow measured. Without `messages` the registered sample source speaks.

    `info` is reserved and reaches no grader. Instances are validated again when they are passed on, so that changes made in
    place are checked too.
    """

    model_config = ConfigDict(extra="forbid", revalidate_instances="always")

    messages: Messages | None = None
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)
    info: dict[str, Any] = Field(default_factory=dict)


def coerce_output(value: object) -> AgentWorkflowOutput | None:
    """What a workflow returned, as an `AgentWorkflowOutput`; None stays None.

    Raises TypeError for anything but an output, a list of messages or None, ValueError for a list of something else.
    """
    match value:
        case None:
            return None
        case AgentWorkflowOutput():
            return AgentWorkflowOutput.model_validate(value)
        case list():
            return AgentWorkflowOutput(messages=value)
        case _:
            raise TypeError(
                f"AgentWorkflow.run() must return AgentWorkflowOutput, a list of messages or None, not {type(value).__name__}"
            )
