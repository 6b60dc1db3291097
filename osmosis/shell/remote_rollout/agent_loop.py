"""What an author writes, and what a running loop gets (A6; contract `legacy_api.md` sections 5.1-5.3)."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from osmosis.shell.remote_rollout.llm_client import CompletionsResult, LLMClientProtocol
from osmosis.shell.remote_rollout.schemas import (
    MessageDict,
    OpenAIFunctionToolSchema,
    RolloutMetrics,
    RolloutRequest,
    RolloutStatus,
)

logger = logging.getLogger(__name__)

_LONGEST_FILE_NAME = 200


@dataclass
class RolloutResult:
    """How a rollout ended, as `RolloutContext.complete` and `error` make it."""

    status: str
    final_messages: list[MessageDict]
    finish_reason: str
    error_message: str | None = None
    metrics: RolloutMetrics | None = None
    reward: float | None = None


@dataclass
class RolloutContext:
    """One running rollout: the request, the tools, and the trainer's model."""

    request: RolloutRequest
    tools: list[OpenAIFunctionToolSchema]
    llm: LLMClientProtocol
    _start_time: float = 0.0
    _tool_latency_ms: float = 0.0
    _num_tool_calls: int = 0
    _debug_dir: str | None = field(default=None, repr=False)

    async def chat(self, messages: list[MessageDict], **kwargs: Any) -> CompletionsResult:
        """One turn of the model over the whole history. Keyword arguments are those of `OsmosisLLMClient.chat_completions`."""
        return await self.llm.chat_completions(messages, **kwargs)

    def complete(
        self, final_messages: list[MessageDict], finish_reason: str = "stop", reward: float | None = None
    ) -> RolloutResult:
        """The result of a rollout that reached its end. `finish_reason` may be any text: `stop`, `max_turns`, ..."""
        return RolloutResult(
            status=RolloutStatus.COMPLETED,
            final_messages=final_messages,
            finish_reason=finish_reason,
            metrics=self.metrics(),
            reward=reward,
        )

    def error(self, error_message: str, final_messages: list[MessageDict] | None = None) -> RolloutResult:
        """The result of a rollout that has to give up."""
        return RolloutResult(
            status=RolloutStatus.ERROR,
            final_messages=final_messages or [],
            finish_reason="error",
            error_message=error_message,
            metrics=self.metrics(),
        )

    def record_tool_call(self, latency_ms: float = 0.0) -> None:
        """Count one tool call and its time in milliseconds."""
        self._num_tool_calls += 1
        self._tool_latency_ms += latency_ms

    def metrics(self) -> RolloutMetrics:
        """Times and counts so far."""
        elapsed_ms = (time.monotonic() - self._start_time) * 1000 if self._start_time > 0 else 0.0
        return self.llm.get_metrics().model_copy(
            update={
                "total_latency_ms": elapsed_ms,
                "tool_latency_ms": self._tool_latency_ms,
                "num_tool_calls": self._num_tool_calls,
            }
        )

    @property
    def debug_enabled(self) -> bool:
        """Whether `log_event` writes anywhere."""
        return self._debug_dir is not None

    def log_event(self, event_type: str, **data: Any) -> None:
        """Append an event to this rollout's file in the debug directory, if there is one. Never raises for the disk."""
        if self._debug_dir is None:
            return
        line = json.dumps({"event": event_type, "rollout_id": self.request.rollout_id, **data}, default=str) + "\n"
        try:
            path = Path(self._debug_dir) / event_file_name(self.request.rollout_id)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(line)
        except OSError as error:
            logger.warning("An event of rollout %s could not be written: %s", self.request.rollout_id, error)


def event_file_name(rollout_id: str) -> str:
    """A file name for a rollout id, which comes from elsewhere and must not name another place: `r1.jsonl`."""
    name = quote(rollout_id, safe=" ", errors="replace")
    if len(name) > _LONGEST_FILE_NAME:
        name = hashlib.sha256(rollout_id.encode("utf-8", "replace")).hexdigest()
    return f"{name}.jsonl"


class RolloutAgentLoop(ABC):
    """Subclass, give it a `name`, and implement `get_tools` and `run`. One instance serves all rollouts.

    A class that leaves a method abstract needs no name yet: it is there to be subclassed.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # ABCMeta computes __abstractmethods__ only after this hook, so the methods themselves are asked.
        abstract = any(getattr(getattr(cls, name, None), "__isabstractmethod__", False) for name in dir(cls))
        if not abstract and not getattr(cls, "name", None):
            raise TypeError(f"Agent loop class {cls.__name__} must define a 'name' class attribute")

    @abstractmethod
    def get_tools(self, request: RolloutRequest) -> list[OpenAIFunctionToolSchema]:
        """The tools that the model may call in the rollout of `request`."""

    @abstractmethod
    async def run(self, ctx: RolloutContext) -> RolloutResult:
        """Run one rollout and return `ctx.complete(...)` or `ctx.error(...)`. What is raised is reported as an error."""

    def get_default_tools(self) -> list[OpenAIFunctionToolSchema]:
        """The tools for a request that asks for nothing in particular."""
        return self.get_tools(discovery_request())


def discovery_request() -> RolloutRequest:
    """A request that stands for any, to learn a loop's tools."""
    return RolloutRequest(rollout_id="discovery", server_url="http://localhost", messages=[], completion_params={})
