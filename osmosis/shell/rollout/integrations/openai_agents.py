"""OpenAI Agents SDK: agents whose model is the rollout's endpoint and whose session is its sample (rollout_protocol 12.1).

Make the session and the agent inside `AgentWorkflow.run`. The session registers itself as the rollout's sample source, so the
workflow returns nothing: the grader sees the session's items, the trajectory tells them as chat messages.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import logging
import uuid
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, ModelSettings
from agents.extensions.models.litellm_model import LitellmModel
from agents.items import ModelResponse
from agents.memory.session import SessionABC
from agents.models.chatcmpl_converter import Converter
from agents.models.interface import Model
from agents.usage import Usage

from osmosis.shell.rollout.context import SampleSource, get_rollout_context
from osmosis.shell.rollout.integrations.model_endpoint import (
    MODEL_ID,
    model_endpoint,
    refuse_reserved,
    required_context,
)
from osmosis.shell.rollout.types.sample import RolloutSample

__all__ = ["OsmosisAgent", "OsmosisLitellmModel", "OsmosisMemorySession", "OsmosisRolloutModel", "SessionSampleSource"]

logger = logging.getLogger(__name__)

_MODEL_ARGUMENTS = frozenset(inspect.signature(LitellmModel.__init__).parameters) - {"self"}
_SETTINGS = frozenset(field.name for field in dataclasses.fields(ModelSettings))


class OsmosisMemorySession(SessionABC):
    """A conversation in memory. Made inside a rollout, it becomes that rollout's sample source; a second one is refused.

    `items` are the SDK's own items: messages, function calls and their outputs, in order.
    """

    def __init__(self) -> None:
        self.session_id = uuid.uuid4().hex
        self.session_settings = None
        self.items: list[Any] = []
        self._source = SessionSampleSource(self)
        context = get_rollout_context()
        if context is not None:
            context.set_sample_source(self._source)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest `limit` items in order, all of them without a limit."""
        self._require_own_rollout()
        if limit is None:
            return list(self.items)
        return list(self.items[-limit:]) if limit > 0 else []

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        self._require_own_rollout()
        self.items.extend(items)

    async def pop_item(self) -> Any | None:
        """Take the newest item out; None if there is none."""
        self._require_own_rollout()
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        """Forget everything."""
        self._require_own_rollout()
        self.items.clear()

    def _require_own_rollout(self) -> None:
        context = get_rollout_context()
        if context is not None and context.sample_source is not self._source:
            raise RuntimeError("This session belongs to another rollout: make an OsmosisMemorySession() in each run()")


class SessionSampleSource(SampleSource):
    """A session's items as a rollout's sample."""

    def __init__(self, session: OsmosisMemorySession) -> None:
        self._session = session

    async def get_sample(self) -> RolloutSample:
        """The items as they are, and as chat messages for the trajectory."""
        items = copy.deepcopy(self._session.items)
        return RolloutSample(messages=items, trajectory_messages=_chat_messages(items))

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        """The newest messages so far; None while there are none."""
        messages = _chat_messages(copy.deepcopy(self._session.items)) or []
        if not messages:
            return None
        return RolloutSample(
            messages=messages[-max_messages:],
            extra_fields={
                "_preview_truncated": len(messages) > max_messages,
                "_preview_turn": sum(message.get("role") == "assistant" for message in messages),
            },
        )


class OsmosisRolloutModel(Model):
    """Stands where the rollout's model will be; `OsmosisAgent` puts it there. Takes what `OsmosisLitellmModel` takes."""

    def __init__(self, **litellm_kwargs: Any) -> None:
        refuse_reserved("OsmosisRolloutModel", litellm_kwargs)
        self.litellm_kwargs = litellm_kwargs

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """A placeholder answers nothing. Raises NotImplementedError."""
        raise _placeholder()

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """A placeholder answers nothing. Raises NotImplementedError."""
        raise _placeholder()


class OsmosisLitellmModel(LitellmModel):
    """The rollout's model. Calls are streamed, so that a slow answer keeps its connection alive.

    Keyword arguments are those of `LitellmModel`, the fields of `ModelSettings`, and anything else for the request (sampling
    parameters of a provider); what a single agent sets wins over them. Raises RuntimeError outside of a rollout.
    """

    def __init__(self, **litellm_kwargs: Any) -> None:
        refuse_reserved("OsmosisLitellmModel", litellm_kwargs)
        endpoint = model_endpoint("OsmosisLitellmModel")
        own = {name: value for name, value in litellm_kwargs.items() if name in _MODEL_ARGUMENTS}
        super().__init__(model=MODEL_ID, base_url=endpoint.base_url, api_key=endpoint.api_key, **own)
        self._defaults = _settings({name: value for name, value in litellm_kwargs.items() if name not in own})

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        """One whole answer, put together from the stream."""
        final = None
        async for event in self.stream_response(system_instructions, input, model_settings, *args, **kwargs):
            if event.type == "response.completed":
                final = event.response
        if final is None:
            raise RuntimeError("The model's answer broke off before it was complete")
        return ModelResponse(output=final.output, usage=_usage(final.usage), response_id=None)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        model_settings: ModelSettings,
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """One answer, event by event. Raises RuntimeError if the rollout has no sample source to keep it."""
        if required_context("OsmosisLitellmModel").sample_source is None:
            raise RuntimeError(
                "This rollout keeps no sample: pass session=OsmosisMemorySession() to Runner.run(), so that the grader sees it"
            )
        settings = self._defaults.resolve(model_settings)
        async for event in super().stream_response(system_instructions, input, settings, *args, **kwargs):
            yield event


class OsmosisAgent(Agent):
    """An `Agent` whose placeholder model becomes the rollout's model. Make it inside `AgentWorkflow.run`."""

    def __init__(self, *args: Any, model: Any = None, **kwargs: Any) -> None:
        if isinstance(model, OsmosisRolloutModel):
            model = OsmosisLitellmModel(**model.litellm_kwargs)
        super().__init__(*args, model=model, **kwargs)


def _placeholder() -> NotImplementedError:
    return NotImplementedError("OsmosisRolloutModel is a placeholder: give it to an OsmosisAgent, not to an Agent")


def _settings(arguments: dict[str, Any]) -> ModelSettings:
    known = {name: value for name, value in arguments.items() if name in _SETTINGS}
    rest = {name: value for name, value in arguments.items() if name not in _SETTINGS}
    if rest:
        known["extra_args"] = {**rest, **(known.get("extra_args") or {})}
    return ModelSettings(**known)


def _usage(usage: Any) -> Usage:
    if usage is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def _chat_messages(items: list[Any]) -> list[Any] | None:
    """The items as chat messages, by the SDK's own converter; None if it cannot tell them."""
    try:
        return [dict(message) for message in Converter.items_to_messages(items)]
    except Exception as error:  # noqa: BLE001 - the converter refuses items in many ways, and the sample is worth more
        logger.warning("The session's items cannot be told as chat messages, so no trajectory will be kept: %s", error)
        return None
