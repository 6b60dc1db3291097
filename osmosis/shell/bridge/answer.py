"""From a shaped request to the client's answer: whole or streamed, counted, recorded, and with its errors redacted.

Order matters in one place: usage is counted and the call is recorded before the last event, or the body, leaves. So a rollout
that stops at once after its last answer never loses a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec
from aiohttp import web

from osmosis.pure.bridge_route import Rejection
from osmosis.pure.completion import (
    BAD_GATEWAY,
    Completion,
    ProviderError,
    Redactor,
    embedded_error,
    error_body,
    one_line,
    read_completion,
    write_completion,
)
from osmosis.pure.event_stream import read_event, split_events, write_event
from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor as KeyRedactor
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.event_writer import DONE, EventWriter
from osmosis.shell.bridge.recorder import Recorder
from osmosis.shell.bridge.source import EVENT_LIMIT, CallFailed, Reply, Rollout, Source

NOT_RECORDED = frozenset({401, 403, 408, 429})
"""Refusals that say something about the moment or the key, not about the request: a replay must not repeat them."""

SHORTEST_KEY = 8
"""Shorter keys are placeholders such as `none`; taking them out of every message would only garble it (E8)."""

LINGER_SECONDS = 0.05
"""How long a finished stream may take to end properly, so that its connection can be used again."""

_JSON = {"Content-Type": "application/json"}


def rejection_response(rejection: Rejection) -> web.Response:
    """The answer to a request that reaches no model."""
    headers = _JSON if rejection.allow is None else {**_JSON, "Allow": rejection.allow}
    return web.Response(status=rejection.status, body=msgspec.json.encode({"detail": rejection.detail}), headers=headers)


def error_response(status: int, message: str, retry_after: str | None = None) -> web.Response:
    """An error with an HTTP status of its own. `message` is already redacted."""
    headers = _JSON if retry_after is None else {**_JSON, "Retry-After": retry_after}
    return web.Response(status=status, body=error_body(status, message), headers=headers)


class Answerer:
    """Answers calls for one run."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        token: str,
        redactor: Redactor,
        recorder: Recorder | None,
        on_provider_rejected: Callable[[str], None],
        commit_seconds: float,
        ping_seconds: float,
    ) -> None:
        self._endpoint = endpoint
        self._redactor = redactor
        self._keys = KeyRedactor(value for value in (endpoint.api_key, token) if value and len(value) >= SHORTEST_KEY)
        self._recorder = recorder
        self._on_provider_rejected = on_provider_rejected
        self._rejected = False
        self._commit_seconds = commit_seconds
        self._ping_seconds = ping_seconds

    async def answer(
        self, http: web.BaseRequest, rollout: Rollout, request: UpstreamRequest, source: Source
    ) -> web.StreamResponse:
        """Answer one call."""
        if request.stream:
            return await self._stream(http, rollout, request, source)
        try:
            async with source.open(rollout, request) as reply:
                body = await reply.read()
        except CallFailed as failure:
            return self._error_response(failure.error)
        outcome = read_completion(reply.status, body, reply.retry_after)
        if isinstance(outcome, ProviderError):
            self._record_refusal(rollout, request, outcome, body)
            return self._error_response(outcome)
        self._count(rollout, outcome.usage)
        if self._recorder is not None:
            self._recorder.record(rollout, request, status=200, body=body, usage=outcome.usage)
        return web.Response(body=write_completion(outcome, request.client_model), headers=_JSON)

    async def _stream(
        self, http: web.BaseRequest, rollout: Rollout, request: UpstreamRequest, source: Source
    ) -> web.StreamResponse:
        writer = EventWriter(http, commit_seconds=self._commit_seconds, ping_seconds=self._ping_seconds)
        try:
            async with writer, source.open(rollout, request) as reply:
                await self._pass_on(writer, rollout, request, reply)
                return await writer.finish()
        except CallFailed as failure:
            error = failure.error
        # The context is left, so nobody else writes from here on.
        if not writer.begun:
            return self._error_response(error)
        message = self._report(error)
        await writer.write(b"event: error\ndata: " + error_body(error.status, message) + b"\n\n" + DONE)
        return await writer.finish()

    async def _pass_on(self, writer: EventWriter, rollout: Rollout, request: UpstreamRequest, reply: Reply) -> None:
        if reply.status != 200 or reply.content_type == "application/json":
            raise CallFailed(await self._stream_refused(rollout, request, reply))
        buffer = b""
        passing = _Passing(request, keep=self._recorder is not None)
        async for chunk in reply.chunks:
            events, buffer = split_events(buffer, chunk)
            if len(buffer) > EVENT_LIMIT:
                raise CallFailed(ProviderError(BAD_GATEWAY, f"an event of the stream is longer than {EVENT_LIMIT} bytes"))
            out = passing.take(events)
            if passing.terminal:
                self._settle_stream(rollout, request, passing)
            if out:
                await writer.write(out)
            if passing.terminal:
                await _linger(reply)
                return
        out = passing.take([buffer]) if buffer.strip() else b""
        if not passing.terminal:
            if not passing.finished:
                raise CallFailed(ProviderError(BAD_GATEWAY, "the provider's stream ended before the completion did", 200))
            # Some servers leave out the last line; clients wait for it.
            out += DONE
        self._settle_stream(rollout, request, passing)
        await writer.write(out)

    async def _stream_refused(self, rollout: Rollout, request: UpstreamRequest, reply: Reply) -> ProviderError:
        body = await reply.read()
        outcome = read_completion(reply.status, body, reply.retry_after)
        if isinstance(outcome, Completion):
            return ProviderError(BAD_GATEWAY, "the provider answered a streaming request with a whole completion", 200)
        self._record_refusal(rollout, request, outcome, body)
        return outcome

    def _settle_stream(self, rollout: Rollout, request: UpstreamRequest, passing: _Passing) -> None:
        self._count(rollout, passing.usage)
        if self._recorder is not None:
            self._recorder.record(rollout, request, status=200, events=tuple(passing.kept), usage=passing.usage)

    def _count(self, rollout: Rollout, usage: CallUsage | None) -> None:
        if usage is not None:
            rollout.usage.append(usage)

    def _record_refusal(self, rollout: Rollout, request: UpstreamRequest, error: ProviderError, body: bytes) -> None:
        status = error.provider_status
        if self._recorder is None or status is None or not 400 <= status < 500 or status in NOT_RECORDED:
            return
        self._recorder.record(rollout, request, status=status, body=body)

    def _error_response(self, error: ProviderError) -> web.Response:
        return error_response(error.status, self._report(error), error.retry_after)

    def _report(self, error: ProviderError) -> str:
        """The redacted message of `error`; a rejected key is reported to the run as well, once."""
        message = one_line(self._keys.text(self._redactor.text(error.message)))
        if error.key_rejected and not self._rejected:
            self._rejected = True
            variable = self._endpoint.api_key_variable
            key = f"the key in {variable}" if variable else "a call without a key"
            self._on_provider_rejected(
                f"{self._endpoint.host} rejected {key} for {self._endpoint.model_path} "
                f"(HTTP {error.provider_status}): {message}"
            )
        return message


class _Passing:
    """What a stream has said so far."""

    def __init__(self, request: UpstreamRequest, *, keep: bool) -> None:
        self.usage: CallUsage | None = None
        self.finished = False
        self.terminal = False
        self.kept: list[bytes] = []
        self._request = request
        self._keep = keep

    def take(self, raw_events: list[bytes]) -> bytes:
        """Account for events and return those that the client gets. Raises CallFailed at one that reports an error."""
        out: list[bytes] = []
        for raw in raw_events:
            event = read_event(raw)
            if event.failed and event.members is not None:
                raise CallFailed(embedded_error(event.members))
            self.usage = event.usage or self.usage
            self.finished = self.finished or event.finish_reason
            if self._keep:
                self.kept.append(raw)
            if not (event.usage_only and not self._request.wants_usage):
                out.append(write_event(event, self._request.client_model))
            if event.terminal:
                self.terminal = True
                break
        return b"".join(out)


async def _linger(reply: Reply) -> None:
    with suppress(TimeoutError, CallFailed):
        async with asyncio.timeout(LINGER_SECONDS):
            async for _ in reply.chunks:
                pass
