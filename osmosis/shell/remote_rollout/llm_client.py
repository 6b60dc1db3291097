"""Talking to the trainer: turns of the model, and the end of a rollout (contract `legacy_api.md` sections 5.4 and 7.4-7.6).

Timeouts, broken connections and 5xx are tried again a bounded number of times; everything else is the trainer's last word. Any
2xx is a successful end of a rollout: a trainer that says 204 has it, and must not get it twice. Redirects are not followed,
since they would carry the key elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import httpx

from osmosis.shell.remote_rollout.errors import (
    OsmosisRolloutError,
    OsmosisServerError,
    OsmosisTimeoutError,
    OsmosisTransportError,
    OsmosisValidationError,
)
from osmosis.shell.remote_rollout.messages import normalize_stop
from osmosis.shell.remote_rollout.schemas import (
    CompletionsRequest,
    MessageDict,
    RolloutMetrics,
    RolloutResponse,
    RolloutStatus,
)
from osmosis.shell.remote_rollout.settings import RolloutSettings, get_settings

CONNECT_SECONDS = 10.0
_SHOWN_CHARACTERS = 300


@dataclass(frozen=True)
class CompletionsResult:
    """One turn of the model."""

    message: MessageDict
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model wants tools."""
        return bool(self.message.get("tool_calls"))

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The model's tool calls."""
        return self.message.get("tool_calls") or []

    @property
    def content(self) -> str | None:
        """The model's text."""
        return self.message.get("content")


@runtime_checkable
class LLMClientProtocol(Protocol):
    """Whatever a rollout can get turns of a model from."""

    async def chat_completions(self, messages: list[MessageDict], **kwargs: Any) -> CompletionsResult:
        """One turn."""
        ...

    def get_metrics(self) -> RolloutMetrics:
        """What the turns took so far."""
        ...


class OsmosisLLMClient:
    """A trainer's side of one rollout. An async context manager. Numbers that are not given come from the settings."""

    def __init__(
        self,
        server_url: str,
        rollout_id: str,
        api_key: str | None = None,
        timeout_seconds: float | None = None,
        max_retries: int | None = None,
        complete_rollout_retries: int | None = None,
        settings: RolloutSettings | None = None,
    ) -> None:
        chosen = (settings or get_settings()).client
        self.server_url = server_url.rstrip("/")
        self.rollout_id = rollout_id
        self._settings = chosen
        self._retries = chosen.max_retries if max_retries is None else max_retries
        self._completion_retries = (
            chosen.complete_rollout_retries if complete_rollout_retries is None else complete_rollout_retries
        )
        self._metrics = RolloutMetrics()
        timeout = chosen.timeout_seconds if timeout_seconds is None else timeout_seconds
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
            limits=httpx.Limits(
                max_connections=chosen.max_connections, max_keepalive_connections=chosen.max_keepalive_connections
            ),
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def get_metrics(self) -> RolloutMetrics:
        """What the turns took so far."""
        return self._metrics.model_copy()

    async def chat_completions(
        self,
        messages: list[MessageDict],
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        stop: str | Sequence[str] | None = None,
        logprobs: bool = True,
        **kwargs: Any,
    ) -> CompletionsResult:
        """One turn of the model over the whole history `messages`.

        Other keyword arguments are ignored, as they always were: the trainer knows the tools from the beginning of the rollout.
        Raises OsmosisValidationError, OsmosisServerError, OsmosisTimeoutError or OsmosisTransportError.
        """
        request = CompletionsRequest(
            messages=messages,
            rollout_id=self.rollout_id,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            stop=normalize_stop(stop),
            logprobs=logprobs,
        )
        began = time.monotonic()
        response = await self._post("/v1/chat/completions", request.model_dump_json(exclude_none=True), self._retries)
        if response.status_code != httpx.codes.OK:
            raise _unexpected("a turn of the model", response)
        result, usage = _read_completion(response)
        self._metrics.llm_latency_ms += (time.monotonic() - began) * 1000
        self._metrics.num_llm_calls += 1
        self._metrics.prompt_tokens += _count(usage.get("prompt_tokens"))
        self._metrics.response_tokens += _count(usage.get("completion_tokens"))
        return result

    async def complete_rollout(
        self,
        status: RolloutStatus | str,
        final_messages: list[MessageDict],
        finish_reason: str = "stop",
        error_message: str | None = None,
        metrics: RolloutMetrics | None = None,
        reward: float | None = None,
    ) -> None:
        """Tell the trainer how the rollout ended. Raises as `chat_completions` does."""
        body = RolloutResponse(
            rollout_id=self.rollout_id,
            status=RolloutStatus(status),
            final_messages=final_messages,
            finish_reason=finish_reason,
            error_message=error_message,
            metrics=self.get_metrics() if metrics is None else metrics,
            reward=reward,
        ).model_dump_json(exclude_none=True)
        response = await self._post("/v1/rollout/completed", body, self._completion_retries)
        if not response.is_success:
            raise _unexpected("the end of a rollout", response)

    async def _post(self, path: str, body: str, retries: int) -> httpx.Response:
        """Post until the answer is no failure of the trainer's, `retries` more times at most."""
        for attempt in range(retries + 1):
            failure: OsmosisRolloutError
            try:
                response = await self._http.post(
                    self.server_url + path, content=body.encode(), headers={"Content-Type": "application/json"}
                )
            except httpx.TimeoutException as error:
                failure = OsmosisTimeoutError(f"{path}: the trainer did not answer in time ({type(error).__name__})")
            except httpx.TransportError as error:
                failure = OsmosisTransportError(f"{path}: {str(error) or type(error).__name__}")
            else:
                if not response.is_server_error:
                    return response
                failure = OsmosisServerError(_described(path, response), response.status_code)
            if attempt == retries:
                raise failure
            await asyncio.sleep(min(self._settings.retry_base_delay * 2**attempt, self._settings.retry_max_delay))
        raise AssertionError("the last attempt returns or raises")


def _read_completion(response: httpx.Response) -> tuple[CompletionsResult, dict[str, Any]]:
    try:
        data = response.json()
        choice = data["choices"][0]
        message = choice["message"]
        if not isinstance(message, dict):
            raise TypeError("the message is no object")
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        detail = f"the trainer's answer is no completion: {type(error).__name__}: {error}"
        raise OsmosisValidationError(detail, response.status_code) from None
    usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
    return CompletionsResult(
        message=message,
        token_ids=data.get("token_ids") or [],
        logprobs=data.get("logprobs") or [],
        usage=usage,
        finish_reason=choice.get("finish_reason") or "stop",
    ), usage


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _described(what: str, response: httpx.Response) -> str:
    return f"{what}: the trainer answered with status {response.status_code}: {response.text[:_SHOWN_CHARACTERS]}"


def _unexpected(what: str, response: httpx.Response) -> OsmosisValidationError:
    return OsmosisValidationError(_described(what, response), response.status_code)
