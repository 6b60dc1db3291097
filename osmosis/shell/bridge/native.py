"""Calls to native providers (Anthropic, Gemini, Bedrock, Vertex AI, ...) through LiteLLM's translation (E32).

Only this module imports LiteLLM, and it is imported only when such a model is configured. What LiteLLM would fetch at import
is switched off. Nothing may be lost on the way: what a provider does not take is refused by name before anything is sent, and
the request that LiteLLM made is looked at once more before it leaves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import httpx

from osmosis.pure.canonical import decode_json
from osmosis.pure.completion import BAD_GATEWAY, ProviderError
from osmosis.pure.members import encode_value
from osmosis.pure.native_call import Fields, StandardFields, error_text, lost_fields, native_completion, sort_fields
from osmosis.pure.native_providers import native_problems
from osmosis.pure.providers import Endpoint
from osmosis.pure.request_policy import Refusal, UpstreamRequest
from osmosis.pure.retry_policy import BACKOFF_SECONDS, retry_delay
from osmosis.shell.bridge.source import CallFailed, OnWait, Reply, Rollout

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 600.0

_OFFLINE = ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS")
"""LiteLLM takes its own copies of what it would otherwise download."""

_LOOKED_AT = frozenset({"anthropic", "gemini", "vertex_ai", "vertex_ai_beta", "bedrock"})
"""Providers whose request goes through the HTTP client that is handed in, so that it can be looked at before it leaves."""

_sending: ContextVar[Fields | None] = ContextVar("osmosis_native_fields", default=None)


class FieldsLost(Exception):
    """The translated request lacks fields of the rollout's: `names`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"the translation for this provider would lose {', '.join(names)}; nothing was sent")
        self.names = names


class Native:
    """A native provider, as a source of answers. Must be created inside a running event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        backoff: tuple[float, ...] = BACKOFF_SECONDS,
        on_wait: OnWait = lambda *_: None,
    ) -> None:
        self._litellm = _import_litellm()
        self._endpoint = endpoint
        self._backoff = backoff
        self._on_wait = on_wait
        self._client: Any = None
        # Unknown fields that LiteLLM puts into the body only if they stand in its `extra_body`; learned from what it loses.
        self._extra: set[str] = set()
        if endpoint.provider in _LOOKED_AT:
            from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415 - see the module's docstring

            timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
            self._client = AsyncHTTPHandler(timeout=timeout, event_hooks={"request": [_look]})
        supported = self._litellm.get_supported_openai_params(endpoint.model, custom_llm_provider=endpoint.provider)
        self._standard = StandardFields(
            frozenset(self._litellm.OPENAI_CHAT_COMPLETION_PARAMS) | frozenset(supported or ()), frozenset(supported or ())
        )

    @asynccontextmanager
    async def open(self, _: Rollout | None, request: UpstreamRequest) -> AsyncIterator[Reply]:
        """Send one request; repeat it only before the first byte of an answer, as `retry_policy` allows."""
        fields = self._fields(request)
        answer = await self._send(fields, stream=request.stream)
        if isinstance(answer, Reply):
            yield answer
        elif not request.stream:
            body = encode_value(native_completion(answer.model_dump(exclude_none=True)))
            yield Reply(200, "application/json", None, _once(body))
        else:
            try:
                yield Reply(200, "text/event-stream", None, _events(answer))
            finally:
                with suppress(Exception):
                    await answer.aclose()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
        else:
            await self._litellm.close_litellm_async_clients()

    def _fields(self, request: UpstreamRequest) -> Fields:
        decoded: dict[str, Any] = decode_json(request.body)
        fields = sort_fields(decoded, self._standard, self._endpoint.provider)
        problems = (*native_problems(self._endpoint.provider, decoded), *fields.problems)
        if problems:
            raise CallFailed(ProviderError(400, Refusal(problems).message))
        return fields

    async def _send(self, fields: Fields, *, stream: bool) -> Any:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._call(fields, stream=stream)
            except Exception as error:  # noqa: BLE001 - LiteLLM raises whatever its dependencies raise
                if (lost := _lost(error)) is not None:
                    self._learn(lost, fields)
                    tries -= 1
                    continue
                status, text, retry_after = _understand(error)
                delay = self._delay(tries, status, retry_after)
            if delay is None:
                if status is None:
                    raise CallFailed(ProviderError(BAD_GATEWAY, text)) from None
                return Reply(status, "text/plain", retry_after, _once(text.encode()))
            self._on_wait(delay, status)
            try:
                await asyncio.sleep(delay)
            finally:
                self._on_wait(None, None)

    def _learn(self, lost: FieldsLost, fields: Fields) -> None:
        """Send those fields another way from now on. Raises CallFailed when there is none left."""
        movable = set(lost.names) & fields.unknown.keys() - self._extra
        if not movable or len(movable) < len(lost.names):
            raise CallFailed(ProviderError(400, str(lost))) from None
        self._extra |= movable

    async def _call(self, fields: Fields, *, stream: bool) -> Any:
        endpoint = self._endpoint
        extra = {name: value for name, value in fields.unknown.items() if self._client is None or name in self._extra}
        options: dict[str, Any] = {**fields.standard}
        options |= {name: value for name, value in fields.unknown.items() if name not in extra}
        if extra:
            options["extra_body"] = extra
        if endpoint.api_key is not None:
            options["api_key"] = endpoint.api_key
        if endpoint.base_url:
            options["api_base"] = endpoint.base_url
        if self._client is not None:
            options["client"] = self._client
        mark = _sending.set(fields)
        try:
            return await self._litellm.acompletion(
                model=endpoint.model_path,
                messages=fields.messages,
                stream=stream,
                drop_params=False,
                num_retries=0,
                max_retries=0,
                **({"stream_options": {"include_usage": True}} if stream else {}),
                **options,
            )
        finally:
            _sending.reset(mark)

    def _delay(self, tries: int, status: int | None, retry_after: str | None) -> float | None:
        jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
        return retry_delay(tries, status, retry_after, now=datetime.now(UTC), jitter=jitter, backoff=self._backoff)


def _import_litellm() -> Any:
    before = {name: os.environ.get(name) for name in _OFFLINE}
    for name in _OFFLINE:
        os.environ[name] = "True"
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    try:
        import litellm  # noqa: PLC0415 - seconds and a hundred megabytes, for those who need it
    finally:
        # The headers are read later, when a call needs them, so their switch stays.
        if before[_OFFLINE[0]] is None:
            del os.environ[_OFFLINE[0]]
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    litellm.modify_params = False
    return litellm


async def _look(request: httpx.Request) -> None:
    """Called with each request before it leaves."""
    fields = _sending.get()
    if fields is None:
        return
    body = await request.aread()
    if lost := lost_fields(fields, body):
        raise FieldsLost(lost)


def _lost(error: BaseException) -> FieldsLost | None:
    return next((link for link in _chain(error) if isinstance(link, FieldsLost)), None)


_OWN_REFUSALS = (400, 401, 404)
"""Statuses by which LiteLLM itself refuses a call before it is sent: a parameter, a missing key, an unknown model."""


def _is_answer(link: BaseException) -> bool:
    # LiteLLM's own exceptions descend from the OpenAI client's, with responses that nobody sent.
    return isinstance(link, httpx.HTTPStatusError) or (
        type(link).__module__.startswith("openai") and isinstance(getattr(link, "response", None), httpx.Response)
    )


def _understand(error: BaseException) -> tuple[int | None, str, str | None]:
    """The provider's HTTP status (None when there was no answer), its words, and its `Retry-After`."""
    chain = list(_chain(error))
    answered: httpx.Response | None = next((getattr(link, "response", None) for link in chain if _is_answer(link)), None)
    headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or (answered.headers if answered else {})
    status = answered.status_code if answered is not None else getattr(error, "status_code", None)
    if answered is None and status not in _OWN_REFUSALS:
        # LiteLLM gives every trouble of its own a status, a failed connection for one.
        return None, error_text(str(error)), None
    return status, error_text(str(error)), headers.get("retry-after")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    while error is not None and seen < 20:
        yield error
        seen += 1
        error = error.__cause__ or error.__context__


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _events(chunks: Any) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield b"data: " + encode_value(native_completion(chunk.model_dump(exclude_none=True))) + b"\n\n"
    except Exception as error:
        status, text, _ = _understand(error)
        raise CallFailed(ProviderError(BAD_GATEWAY, f"the provider's answer broke off: {text}", status)) from error
    yield b"data: [DONE]\n\n"
