"""Where the models of an agent framework are pointed while a rollout runs (contract: rollout_protocol section 12).

Both frameworks reach the model through LiteLLM's proxy provider, which speaks plain chat completions to any base URL. The
model's name is a placeholder; the bridge owns the real one (E34).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from osmosis.shell.rollout.context import RolloutContext, get_rollout_context

MODEL_ID: Final = "litellm_proxy/osmosis-rollout"
RESERVED_ARGUMENTS: Final = frozenset({"model", "model_id", "base_url", "api_base", "api_key"})
_NO_KEY: Final = "dummy"


class ModelEndpoint(NamedTuple):
    """A base URL (without `/chat/completions`) and its bearer token."""

    base_url: str
    api_key: str


def required_context(what: str) -> RolloutContext:
    """The rollout that is running here. Raises RuntimeError, naming `what`, outside of one."""
    context = get_rollout_context()
    if context is None:
        raise RuntimeError(f"{what} works inside a rollout only: make it in AgentWorkflow.run(), not at import time")
    return context


def model_endpoint(what: str) -> ModelEndpoint:
    """The endpoint of the running rollout. Raises RuntimeError outside of one, or if it has no `chat_completions_url`."""
    context = required_context(what)
    if not context.chat_completions_url:
        raise RuntimeError(f"{what} needs a chat_completions_url, and this rollout has none")
    return ModelEndpoint(context.chat_completions_url, context.api_key or _NO_KEY)


def refuse_reserved(what: str, arguments: object) -> None:
    """Raise TypeError for arguments that would point a model elsewhere: endpoint, key and model name are the runner's."""
    reserved = sorted(RESERVED_ARGUMENTS & set(arguments)) if isinstance(arguments, dict) else []
    if reserved:
        raise TypeError(f"{what} takes no {', '.join(reserved)}: the runner decides which model answers, and where")
