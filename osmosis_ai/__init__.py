"""Documented import names for people who write rollouts and rewards; re-exports only, each loaded when it is first used.

The remote rollout API (agent loops for a trainer) lives here alone; `osmosis_ai.rollout` is the current rollout SDK.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from osmosis import __version__

if TYPE_CHECKING:
    from osmosis.pure.judge_errors import (
        MissingAPIKeyError,
        ModelNotFoundError,
        ProviderRequestError,
    )
    from osmosis.shell.judge.evaluate import (
        evaluate_rubric,
        evaluate_rubric_async,
    )
    from osmosis.shell.judge.evaluate_many import (
        evaluate_rubrics,
    )
    from osmosis.shell.judge.types import (
        RubricBatch,
        RubricItem,
        RubricOutcome,
        RubricProgress,
        RubricResult,
    )
    from osmosis.shell.remote_rollout.agent_loop import (
        RolloutAgentLoop,
        RolloutContext,
        RolloutResult,
    )
    from osmosis.shell.remote_rollout.app import (
        create_app,
    )
    from osmosis.shell.remote_rollout.errors import (
        AgentLoopNotFoundError,
        OsmosisRolloutError,
        OsmosisServerError,
        OsmosisTimeoutError,
        OsmosisTransportError,
        OsmosisValidationError,
        ToolArgumentError,
        ToolExecutionError,
    )
    from osmosis.shell.remote_rollout.llm_client import (
        CompletionsResult,
        LLMClientProtocol,
        OsmosisLLMClient,
    )
    from osmosis.shell.remote_rollout.loop_check import (
        AgentLoopValidationError,
        ValidationError,
        ValidationResult,
        validate_agent_loop,
    )
    from osmosis.shell.remote_rollout.loop_registry import (
        AgentLoopRegistry,
        get_agent_loop,
        list_agent_loops,
        register_agent_loop,
        unregister_agent_loop,
    )
    from osmosis.shell.remote_rollout.messages import (
        count_messages_by_role,
        get_message_content,
        get_message_role,
        is_assistant_message,
        is_tool_message,
        is_user_message,
        normalize_stop,
        parse_tool_calls,
    )
    from osmosis.shell.remote_rollout.schemas import (
        DEFAULT_MAX_METADATA_SIZE_BYTES,
        CompletionsChoice,
        CompletionsRequest,
        CompletionsResponse,
        CompletionUsage,
        InitResponse,
        OpenAIFunctionCallSchema,
        OpenAIFunctionParametersSchema,
        OpenAIFunctionParsedSchema,
        OpenAIFunctionPropertySchema,
        OpenAIFunctionSchema,
        OpenAIFunctionToolCall,
        OpenAIFunctionToolSchema,
        RolloutMetrics,
        RolloutRequest,
        RolloutResponse,
        RolloutStatus,
        ToolResponse,
        get_max_metadata_size_bytes,
        set_max_metadata_size_bytes,
    )
    from osmosis.shell.remote_rollout.serve import (
        DEFAULT_HOST,
        DEFAULT_PORT,
        ServeError,
        serve_agent_loop,
        validate_and_report,
    )
    from osmosis.shell.remote_rollout.settings import (
        RolloutClientSettings,
        RolloutServerSettings,
        RolloutSettings,
        configure,
        get_settings,
        reset_settings,
    )
    from osmosis.shell.remote_rollout.tools import (
        create_tool_error_result,
        create_tool_result,
        execute_tool_calls,
        get_tool_call_info,
        parse_tool_arguments,
        serialize_tool_result,
    )
    from osmosis.shell.rewards import (
        osmosis_reward,
        osmosis_rubric,
    )
    from osmosis.shell.rollout.reward_grader import (
        reward_grader,
    )
    from osmosis.shell.trainer_reward import (
        trainer_reward,
    )

_MODULES = {
    "osmosis.pure.judge_errors": (
        "MissingAPIKeyError",
        "ModelNotFoundError",
        "ProviderRequestError",
    ),
    "osmosis.shell.judge.evaluate": (
        "evaluate_rubric",
        "evaluate_rubric_async",
    ),
    "osmosis.shell.judge.evaluate_many": ("evaluate_rubrics",),
    "osmosis.shell.judge.types": (
        "RubricBatch",
        "RubricItem",
        "RubricOutcome",
        "RubricProgress",
        "RubricResult",
    ),
    "osmosis.shell.remote_rollout.agent_loop": (
        "RolloutAgentLoop",
        "RolloutContext",
        "RolloutResult",
    ),
    "osmosis.shell.remote_rollout.app": ("create_app",),
    "osmosis.shell.remote_rollout.errors": (
        "AgentLoopNotFoundError",
        "OsmosisRolloutError",
        "OsmosisServerError",
        "OsmosisTimeoutError",
        "OsmosisTransportError",
        "OsmosisValidationError",
        "ToolArgumentError",
        "ToolExecutionError",
    ),
    "osmosis.shell.remote_rollout.llm_client": (
        "CompletionsResult",
        "LLMClientProtocol",
        "OsmosisLLMClient",
    ),
    "osmosis.shell.remote_rollout.loop_check": (
        "AgentLoopValidationError",
        "ValidationError",
        "ValidationResult",
        "validate_agent_loop",
    ),
    "osmosis.shell.remote_rollout.loop_registry": (
        "AgentLoopRegistry",
        "get_agent_loop",
        "list_agent_loops",
        "register_agent_loop",
        "unregister_agent_loop",
    ),
    "osmosis.shell.remote_rollout.messages": (
        "count_messages_by_role",
        "get_message_content",
        "get_message_role",
        "is_assistant_message",
        "is_tool_message",
        "is_user_message",
        "normalize_stop",
        "parse_tool_calls",
    ),
    "osmosis.shell.remote_rollout.schemas": (
        "CompletionUsage",
        "CompletionsChoice",
        "CompletionsRequest",
        "CompletionsResponse",
        "DEFAULT_MAX_METADATA_SIZE_BYTES",
        "InitResponse",
        "OpenAIFunctionCallSchema",
        "OpenAIFunctionParametersSchema",
        "OpenAIFunctionParsedSchema",
        "OpenAIFunctionPropertySchema",
        "OpenAIFunctionSchema",
        "OpenAIFunctionToolCall",
        "OpenAIFunctionToolSchema",
        "RolloutMetrics",
        "RolloutRequest",
        "RolloutResponse",
        "RolloutStatus",
        "ToolResponse",
        "get_max_metadata_size_bytes",
        "set_max_metadata_size_bytes",
    ),
    "osmosis.shell.remote_rollout.serve": (
        "DEFAULT_HOST",
        "DEFAULT_PORT",
        "ServeError",
        "serve_agent_loop",
        "validate_and_report",
    ),
    "osmosis.shell.remote_rollout.settings": (
        "RolloutClientSettings",
        "RolloutServerSettings",
        "RolloutSettings",
        "configure",
        "get_settings",
        "reset_settings",
    ),
    "osmosis.shell.remote_rollout.tools": (
        "create_tool_error_result",
        "create_tool_result",
        "execute_tool_calls",
        "get_tool_call_info",
        "parse_tool_arguments",
        "serialize_tool_result",
    ),
    "osmosis.shell.rewards": (
        "osmosis_reward",
        "osmosis_rubric",
    ),
    "osmosis.shell.rollout.reward_grader": ("reward_grader",),
    "osmosis.shell.trainer_reward": ("trainer_reward",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_MAX_METADATA_SIZE_BYTES",
    "DEFAULT_PORT",
    "AgentLoopNotFoundError",
    "AgentLoopRegistry",
    "AgentLoopValidationError",
    "CompletionUsage",
    "CompletionsChoice",
    "CompletionsRequest",
    "CompletionsResponse",
    "CompletionsResult",
    "InitResponse",
    "LLMClientProtocol",
    "MissingAPIKeyError",
    "ModelNotFoundError",
    "OpenAIFunctionCallSchema",
    "OpenAIFunctionParametersSchema",
    "OpenAIFunctionParsedSchema",
    "OpenAIFunctionPropertySchema",
    "OpenAIFunctionSchema",
    "OpenAIFunctionToolCall",
    "OpenAIFunctionToolSchema",
    "OsmosisLLMClient",
    "OsmosisRolloutError",
    "OsmosisServerError",
    "OsmosisTimeoutError",
    "OsmosisTransportError",
    "OsmosisValidationError",
    "ProviderRequestError",
    "RolloutAgentLoop",
    "RolloutClientSettings",
    "RolloutContext",
    "RolloutMetrics",
    "RolloutRequest",
    "RolloutResponse",
    "RolloutResult",
    "RolloutServerSettings",
    "RolloutSettings",
    "RolloutStatus",
    "RubricBatch",
    "RubricItem",
    "RubricOutcome",
    "RubricProgress",
    "RubricResult",
    "ServeError",
    "ToolArgumentError",
    "ToolExecutionError",
    "ToolResponse",
    "ValidationError",
    "ValidationResult",
    "__version__",
    "configure",
    "count_messages_by_role",
    "create_app",
    "create_tool_error_result",
    "create_tool_result",
    "evaluate_rubric",
    "evaluate_rubric_async",
    "evaluate_rubrics",
    "execute_tool_calls",
    "get_agent_loop",
    "get_max_metadata_size_bytes",
    "get_message_content",
    "get_message_role",
    "get_settings",
    "get_tool_call_info",
    "is_assistant_message",
    "is_tool_message",
    "is_user_message",
    "list_agent_loops",
    "normalize_stop",
    "osmosis_reward",
    "osmosis_rubric",
    "parse_tool_arguments",
    "parse_tool_calls",
    "register_agent_loop",
    "reset_settings",
    "reward_grader",
    "serialize_tool_result",
    "serve_agent_loop",
    "set_max_metadata_size_bytes",
    "trainer_reward",
    "unregister_agent_loop",
    "validate_agent_loop",
    "validate_and_report",
]


def __getattr__(name: str) -> object:
    lazy_names = _import_module("osmosis.shell.rollout.optional").lazy_names
    value: object = lazy_names(__name__, feature=name, extra="remote-rollout", names=_HOMES)(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
