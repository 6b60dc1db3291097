"""What a rollout knows about itself."""

from osmosis.shell.rollout.context import (
    API_KEY_ENV,
    CHAT_COMPLETIONS_URL_ENV,
    ROLLOUT_ID_ENV,
    AgentWorkflowContext,
    GraderContext,
    RolloutContext,
    RolloutProgress,
    SampleSource,
    get_rollout_context,
    rollout_contextvar,
)

__all__ = [
    "API_KEY_ENV",
    "CHAT_COMPLETIONS_URL_ENV",
    "ROLLOUT_ID_ENV",
    "AgentWorkflowContext",
    "GraderContext",
    "RolloutContext",
    "RolloutProgress",
    "SampleSource",
    "get_rollout_context",
    "rollout_contextvar",
]
