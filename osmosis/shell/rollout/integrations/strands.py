"""Strands Agents: agents whose model is the rollout's endpoint and whose history is its sample (rollout_protocol 12.2).

Make the agent inside `AgentWorkflow.run`. With the placeholder model it registers itself as the rollout's sample source, so the
workflow returns nothing: the grader sees the agent's history, the trajectory tells it as chat messages.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

from strands import Agent
from strands.models.litellm import LiteLLMModel

from osmosis.shell.rollout.context import SampleSource
from osmosis.shell.rollout.integrations.model_endpoint import (
    MODEL_ID,
    model_endpoint,
    refuse_reserved,
    required_context,
)
from osmosis.shell.rollout.types.sample import RolloutSample

__all__ = ["OsmosisRolloutModel", "OsmosisStrandsAgent", "StrandsAgentSampleSource"]

logger = logging.getLogger(__name__)


class OsmosisRolloutModel(LiteLLMModel):
    """Stands where the rollout's model will be; `OsmosisStrandsAgent` puts it there.

    Takes what `LiteLLMModel` takes except for model, endpoint and key: `params={...}` for sampling parameters.
    """

    def __init__(self, **litellm_kwargs: Any) -> None:
        refuse_reserved("OsmosisRolloutModel", litellm_kwargs)
        refuse_reserved("client_args of OsmosisRolloutModel", litellm_kwargs.get("client_args"))
        super().__init__(**{**litellm_kwargs, "model_id": MODEL_ID})
        self.litellm_kwargs = litellm_kwargs

    def stream(self, *args: Any, **kwargs: Any) -> Any:
        """A placeholder answers nothing. Raises NotImplementedError."""
        raise _placeholder()

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """A placeholder answers nothing. Raises NotImplementedError."""
        raise _placeholder()


class StrandsAgentSampleSource(SampleSource):
    """An agent's history as a rollout's sample."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def get_sample(self) -> RolloutSample:
        """The history as Strands keeps it, and as chat messages for the trajectory. The system prompt is in neither."""
        history = copy.deepcopy(list(self._agent.messages))
        return RolloutSample(messages=history, trajectory_messages=_chat_messages(history))

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        """The newest messages so far; None while there are none."""
        messages = _chat_messages(copy.deepcopy(list(self._agent.messages))) or []
        if not messages:
            return None
        return RolloutSample(
            messages=messages[-max_messages:],
            extra_fields={
                "_preview_truncated": len(messages) > max_messages,
                "_preview_turn": sum(message.get("role") == "assistant" for message in messages),
            },
        )


class OsmosisStrandsAgent(Agent):
    """A Strands agent whose placeholder model becomes the rollout's model, and which then is the rollout's sample.

    `messages` may have plain text as content. Raises RuntimeError for a placeholder outside of a rollout. With any other model
    it is a plain agent and registers nothing.
    """

    def __init__(self, *args: Any, messages: Sequence[Any] | None = None, model: Any = None, **kwargs: Any) -> None:
        model, messages, args = _positional(args, model, messages)
        placeholder = isinstance(model, OsmosisRolloutModel)
        context = required_context("OsmosisRolloutModel") if placeholder else None
        if placeholder:
            model = _rollout_model(model)
        super().__init__(model, None if messages is None else [_as_blocks(message) for message in messages], *args, **kwargs)
        if context is not None:
            context.set_sample_source(StrandsAgentSampleSource(self))


def _positional(args: tuple[Any, ...], model: Any, messages: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Model and messages may be given by position, as `Agent` has them first; the other positional arguments follow."""
    if len(args) > 0:
        if model is not None:
            raise TypeError("OsmosisStrandsAgent got the model twice")
        model = args[0]
    if len(args) > 1:
        if messages is not None:
            raise TypeError("OsmosisStrandsAgent got the messages twice")
        messages = args[1]
    return model, messages, args[2:]


def _rollout_model(placeholder: OsmosisRolloutModel) -> LiteLLMModel:
    endpoint = model_endpoint("OsmosisRolloutModel")
    arguments = dict(placeholder.litellm_kwargs)
    client = {**(arguments.pop("client_args", None) or {}), "api_base": endpoint.base_url, "api_key": endpoint.api_key}
    return LiteLLMModel(client_args=client, **{**arguments, "model_id": MODEL_ID})


def _as_blocks(message: Any) -> Any:
    """A message with its text as a content block, as Strands has it."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        return {**message, "content": [{"text": message["content"]}]}
    return message


def _placeholder() -> NotImplementedError:
    return NotImplementedError("OsmosisRolloutModel is a placeholder: give it to an OsmosisStrandsAgent, not to an Agent")


def _chat_messages(history: list[Any]) -> list[Any] | None:
    """The history as chat messages, by the framework's own converter; None if it cannot tell them."""
    try:
        return [dict(message) for message in LiteLLMModel.format_request_messages(history)]
    except Exception as error:  # noqa: BLE001 - the converter refuses content in many ways, and the sample is worth more
        logger.warning("The agent's history cannot be told as chat messages, so no trajectory will be kept: %s", error)
        return None
