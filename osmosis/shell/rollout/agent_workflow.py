"""The workflow: what an author writes to run an agent on one row (contract: rollout_protocol section 4; E28)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from osmosis.shell.rollout.context import AgentWorkflowContext
from osmosis.shell.rollout.types.config import BaseConfig
from osmosis.shell.rollout.types.output import AgentWorkflowOutput
from osmosis.shell.rollout.types.sample import Messages

WorkflowConfigT = TypeVar("WorkflowConfigT", bound=BaseConfig)


class AgentWorkflow(ABC, Generic[WorkflowConfigT]):
    """Subclass and implement `run`. A new instance is made for each rollout, with its own copy of the configuration."""

    def __init__(self, config: WorkflowConfigT | None = None) -> None:
        """Keep the configuration as `self.config`."""
        self.config = config

    @abstractmethod
    async def run(self, ctx: AgentWorkflowContext[WorkflowConfigT]) -> AgentWorkflowOutput | Messages | None:
        """Run the agent. Return its conversation, or None if a sample source was registered on the rollout context."""
