"""From a shaped request to the client's answer: whole or streamed, counted, recorded, and with its errors redacted.

Order matters in one place: usage is counted and the call is recorded before the last event, or the body, leaves. So a rollout
that stops at once after its last answer never loses a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import xxhash
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
from osmosis.pure.members import decode_member
from osmosis.pure.model_prices import ModelPrice, call_cost
from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.reasoning_memory import remembered, with_reasoning
from osmosis.pure.redaction import Redactor as KeyRedactor
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.usage import CallUsage, UsageDetails
from osmosis.shell.bridge.event_writer import DONE, EventWriter
from osmosis.shell.bridge.gate import Gate
from osmosis.shell.bridge.recorder import Recorder
from osmosis.shell.bridge.repeats import HOLD_SECONDS, WholeAnswer
from osmosis.shell.bridge.source import EVENT_LIMIT, CallFailed, Reply, Rollout, Source
from osmosis.shell.bridge.tracing import Tracing

NOT_RECORDED = frozenset({401, 403, 408, 429})
"""Refusals that say something about the moment or the key, not about the request: a replay must not repeat them."""

SHORTEST_KEY = 8
"""Shorter keys are placeholders such as `none`; taking them out of every message would only garble it (E8)."""

LINGER_SECONDS = 0.05
"""How long a finished stream may take to end properly, so that its connection can be used again."""

RETRY_COUNT = "x-stainless-retry-count"
"""The header in which the OpenAI SDKs say how often they sent this call before."""

OnCallFailed = Callable[[str, int, str], None]
"""Called with the rollout's id, the HTTP status that it gets, and the cause in one redacted line."""

TRICKLE_AFTER_SECONDS = 90.0
TRICKLE_SECONDS = 30.0
"""When a whole answer through a tunnel is kept alive by white space, and how often. A tunnel's edge gives up after 100 s."""

_JSON = {"Content-Type": "application/json"}


def rejection_response(rejection: Rejection) -> web.Response:
    """The answer to a request that reaches no model."""
    headers = _JSON if rejection.allow is None else {**_JSON, "Allow": rejection.allow}
    return web.Response(status=rejection.status, body=msgspec.json.encode({"detail": rejection.detail}), headers=headers)


def error_response(status: int, message: str, retry_after: str | None = None) -> web.Response:
    """An error with an HTTP status of its own. `message` is already redacted."""
    return _response(WholeAnswer(status, error_body(status, message), retry_after))


def _response(answer: WholeAnswer) -> web.Response:
    headers = _JSON if answer.retry_after is None else {**_JSON, "Retry-After": answer.retry_after}
    return web.Response(status=answer.status, body=answer.body, headers=headers)


async def _trickle(http: web.BaseRequest, call: asyncio.Task[WholeAnswer]) -> web.StreamResponse:
    """Keep a connection alive with white space, which JSON allows before a value. The status is 200 whatever comes."""
    response = web.StreamResponse(headers=_JSON)
    await response.prepare(http)
    while True:
        await response.write(b" ")
        done, _ = await asyncio.wait({call}, timeout=TRICKLE_SECONDS)
        if done:
            break
    await response.write_eof(call.result().body)
    return response


class Answerer:
    """Answers calls for one run."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        token: str,
        redactor: Redactor,
        recorder: Recorder | None,
        gate: Gate | None,
        price: ModelPrice | None,
        tracing: Tracing | None,
        commit_seconds: float,
        ping_seconds: float,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self.trickle_after: float | None = None
        self._gate = gate
        self._price = price
        self._tracing = tracing
        self._hold_seconds = hold_seconds
        self._endpoint = endpoint
        self._redactor = redactor
        self._keys = KeyRedactor(value for value in (endpoint.api_key, token) if value and len(value) >= SHORTEST_KEY)
        self._recorder = recorder
        self.on_provider_rejected: Callable[[str], None] = lambda _: None
        self.on_call_failed: OnCallFailed = lambda *_: None
        self._rejected = False
        self._commit_seconds = commit_seconds
        self._ping_seconds = ping_seconds

    async def answer(
        self, http: web.BaseRequest, rollout: Rollout, request: UpstreamRequest, source: Source
    ) -> web.StreamResponse:
        """Answer one call."""
        if rollout.memory:
            request = msgspec.structs.replace(request, body=with_reasoning(request.body, rollout.memory), plain_body=None)
        if request.stream:
            return await self._stream(http, rollout, request, source)
        tries = http.headers.get(RETRY_COUNT)
        if tries is None and self.trickle_after is None:
            return _response(await self._complete(rollout, request, source))
        key = xxhash.xxh3_128_digest(request.body + request.client_model.encode("utf-8", "surrogatepass"))
        claimed = None if tries in (None, "0") else rollout.repeats.claim(key)
        if isinstance(claimed, WholeAnswer):
            answer: WholeAnswer | web.StreamResponse = claimed
        else:
            answer = await self._detached(http, rollout, claimed or self._begin(rollout, request, source), key, tries)
        if isinstance(answer, web.StreamResponse):
            return answer
        if tries is not None:
            rollout.repeats.sent(key, answer)
        return _response(answer)

    def _begin(self, rollout: Rollout, request: UpstreamRequest, source: Source) -> asyncio.Task[WholeAnswer]:
        call = asyncio.get_running_loop().create_task(self._complete(rollout, request, source))
        rollout.tasks.add(call)
        call.add_done_callback(rollout.tasks.discard)
        return call

    async def _detached(
        self, http: web.BaseRequest, rollout: Rollout, call: asyncio.Task[WholeAnswer], key: bytes, tries: str | None
    ) -> WholeAnswer | web.StreamResponse:
        """Wait for a call that outlives its client if the client is one that comes back."""
        try:
            if self.trickle_after is None:
                return await asyncio.shield(call)
            done, _ = await asyncio.wait({call}, timeout=self.trickle_after)
            return call.result() if done else await _trickle(http, call)
        except (asyncio.CancelledError, ConnectionError):
            if tries is None or rollout.closed:
                call.cancel()
            elif not call.cancelled():
                rollout.repeats.abandon(key, call, self._hold_seconds)
            raise

    async def _complete(self, rollout: Rollout, request: UpstreamRequest, source: Source) -> WholeAnswer:
        try:
            async with self._opened(source, rollout, request) as reply:
                body = await reply.read()
                outcome = read_completion(reply.status, body, reply.retry_after)
                self._trace(reply, outcome)
        except CallFailed as failure:
            return self._error_answer(rollout, failure.error)
        if isinstance(outcome, ProviderError):
            if not reply.recorded:
                self._record_refusal(rollout, request, outcome, body)
            return self._error_answer(rollout, outcome)
        self._count(rollout, outcome.usage, outcome.details)
        self._remember(rollout, outcome)
        if self._recorder is not None and not reply.recorded:
            self._recorder.record(rollout, request, status=200, body=body, usage=outcome.usage)
        return WholeAnswer(200, write_completion(outcome, request.client_model))

    @asynccontextmanager
    async def _opened(self, source: Source, rollout: Rollout, request: UpstreamRequest) -> AsyncIterator[Reply]:
        """A call that has its place in the gate from before it is sent until its answer is read."""
        gate = self._gate
        if gate is not None:
            await gate.enter()
        span = None if self._tracing is None else self._tracing.call(rollout.id, request)
        healthy = False
        try:
            async with source.open(rollout, request) as reply:
                reply.span = span
                if reply.status == 429 and gate is not None:
                    gate.refused()
                yield reply
                healthy = reply.status == 200
        except CallFailed as failure:
            if span is not None:
                span.failed(failure.error)
            raise
        except BaseException:
            if span is not None:
                span.abandoned()
            raise
        finally:
            if span is not None:
                span.end()
            if gate is not None:
                gate.leave(healthy=healthy)

    async def _stream(
        self, http: web.BaseRequest, rollout: Rollout, request: UpstreamRequest, source: Source
    ) -> web.StreamResponse:
        writer = EventWriter(http, commit_seconds=self._commit_seconds, ping_seconds=self._ping_seconds)
        try:
            async with writer, self._opened(source, rollout, request) as reply:
                await self._pass_on(writer, rollout, request, reply)
                return await writer.finish()
        except CallFailed as failure:
            error = failure.error
        # The context is left, so nobody else writes from here on.
        if not writer.begun:
            return _response(self._error_answer(rollout, error))
        message = self._report(rollout, error)
        await writer.write(b"event: error\ndata: " + error_body(error.status, message) + b"\n\n" + DONE)
        return await writer.finish()

    async def _pass_on(self, writer: EventWriter, rollout: Rollout, request: UpstreamRequest, reply: Reply) -> None:
        if reply.status != 200 or reply.content_type == "application/json":
            raise CallFailed(await self._stream_refused(rollout, request, reply))
        buffer = b""
        passing = _Passing(request, keep=self._recorder is not None and not reply.recorded)
        async for chunk in reply.chunks:
            events, buffer = split_events(buffer, chunk)
            if len(buffer) > EVENT_LIMIT:
                raise CallFailed(ProviderError(BAD_GATEWAY, f"an event of the stream is longer than {EVENT_LIMIT} bytes"))
            out = passing.take(events)
            if passing.terminal:
                self._settle_stream(rollout, request, passing, reply)
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
        self._settle_stream(rollout, request, passing, reply)
        await writer.write(out)

    async def _stream_refused(self, rollout: Rollout, request: UpstreamRequest, reply: Reply) -> ProviderError:
        body = await reply.read()
        outcome = read_completion(reply.status, body, reply.retry_after)
        if isinstance(outcome, Completion):
            return ProviderError(BAD_GATEWAY, "the provider answered a streaming request with a whole completion", 200)
        if not reply.recorded:
            self._record_refusal(rollout, request, outcome, body)
        return outcome

    def _settle_stream(self, rollout: Rollout, request: UpstreamRequest, passing: _Passing, reply: Reply) -> None:
        self._trace(reply, Completion(passing.members, passing.usage, passing.details))
        self._count(rollout, passing.usage, passing.details)
        if self._recorder is not None and passing.keep:
            self._recorder.record(rollout, request, status=200, events=tuple(passing.kept), usage=passing.usage)

    def _remember(self, rollout: Rollout, outcome: Completion) -> None:
        if self._endpoint.wire is Wire.CHAT:
            return
        choices = decode_member(outcome.members, "choices")
        message = choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if isinstance(message, dict):
            rollout.memory |= remembered(message)

    def _trace(self, reply: Reply, outcome: Completion | ProviderError) -> None:
        if reply.span is None:
            return
        if isinstance(outcome, ProviderError):
            reply.span.failed(outcome)
        else:
            cost = call_cost(self._endpoint, self._price, outcome.usage, outcome.details)
            reply.span.answered(outcome.members, outcome.usage, cost)

    def _count(self, rollout: Rollout, usage: CallUsage | None, details: UsageDetails | None) -> None:
        rollout.costs.append(call_cost(self._endpoint, self._price, usage, details))
        if usage is not None:
            rollout.usage.append(usage)

    def _record_refusal(self, rollout: Rollout, request: UpstreamRequest, error: ProviderError, body: bytes) -> None:
        status = error.provider_status
        if self._recorder is None or status is None or not 400 <= status < 500 or status in NOT_RECORDED:
            return
        self._recorder.record(rollout, request, status=status, body=body)

    def _error_answer(self, rollout: Rollout, error: ProviderError) -> WholeAnswer:
        return WholeAnswer(error.status, error_body(error.status, self._report(rollout, error)), error.retry_after)

    def _report(self, rollout: Rollout, error: ProviderError) -> str:
        """The redacted message of `error`. The run hears it as well: many clients show their rollout nothing but the status. It
        hears of a rejected key once."""
        message = one_line(self._keys.text(self._redactor.text(error.message)))
        self.on_call_failed(rollout.id, error.status, message)
        if error.key_rejected and not self._rejected:
            self._rejected = True
            variable = self._endpoint.api_key_variable
            key = f"the key in {variable}" if variable else "a call without a key"
            self.on_provider_rejected(
                f"{self._endpoint.host} rejected {key} for {self._endpoint.model_path} "
                f"(HTTP {error.provider_status}): {message}"
            )
        return message


class _Passing:
    """What a stream has said so far."""

    def __init__(self, request: UpstreamRequest, *, keep: bool) -> None:
        self.usage: CallUsage | None = None
        self.details: UsageDetails | None = None
        self.finished = False
        self.terminal = False
        self.kept: list[bytes] = []
        self.members: dict[str, bytes] = {}
        self._request = request
        self.keep = keep

    def take(self, raw_events: list[bytes]) -> bytes:
        """Account for events and return those that the client gets. Raises CallFailed at one that reports an error."""
        out: list[bytes] = []
        for raw in raw_events:
            event = read_event(raw)
            if event.failed and event.members is not None:
                raise CallFailed(embedded_error(event.members))
            if event.usage is not None:
                self.usage, self.details = event.usage, event.details
            if event.finish_reason and event.members is not None:
                self.finished, self.members = True, event.members
            if self.keep:
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
