"""Writing rollouts: workflow, grader, contexts, types, LocalBackend. The server is in `osmosis_ai.rollout.server`."""

from osmosis.shell.rollout.agent_workflow import AgentWorkflow
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.context import AgentWorkflowContext, GraderContext, RolloutContext, SampleSource, get_rollout_context
from osmosis.shell.rollout.grader import Grader
from osmosis.shell.rollout.local_backend import LocalBackend
from osmosis.shell.rollout.types.config import AgentWorkflowConfig, BaseConfig, ConcurrencyConfig, GraderConfig
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult
from osmosis.shell.rollout.types.output import AgentWorkflowOutput
from osmosis.shell.rollout.types.protocol import (
    RolloutErrorCategory,
    RolloutInitRequest,
    RolloutInitResponse,
    RolloutResultResponse,
    RolloutStatus,
)
from osmosis.shell.rollout.types.sample import MessageDict, RolloutSample

__all__ = [
    "AgentWorkflow",
    "AgentWorkflowConfig",
    "AgentWorkflowContext",
    "AgentWorkflowOutput",
    "BaseConfig",
    "ConcurrencyConfig",
    "ExecutionBackend",
    "ExecutionOutcome",
    "ExecutionRequest",
    "ExecutionResult",
    "Grader",
    "GraderConfig",
    "GraderContext",
    "LocalBackend",
    "MessageDict",
    "RolloutContext",
    "RolloutErrorCategory",
    "RolloutInitRequest",
    "RolloutInitResponse",
    "RolloutResultResponse",
    "RolloutSample",
    "RolloutStatus",
    "SampleSource",
    "get_rollout_context",
]
