"""Calls to models that answer on OpenAI's Responses API, for clients that speak chat completions (ruling 20)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from osmosis.pure.completion import BAD_GATEWAY, ProviderError
from osmosis.pure.event_stream import read_event, split_events
from osmosis.pure.request_policy import Refusal, UpstreamRequest
from osmosis.pure.responses_answer import StreamTranslation, chat_answer
from osmosis.pure.responses_request import responses_request
from osmosis.shell.bridge.source import EVENT_LIMIT, CallFailed, Reply, Rollout
from osmosis.shell.bridge.upstream import Upstream


class Responses:
    """The Responses API as a source of chat completions. `upstream` posts to it."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    @asynccontextmanager
    async def open(self, rollout: Rollout | None, request: UpstreamRequest) -> AsyncIterator[Reply]:
        """Send one request. Raises CallFailed (400) with every parameter that the Responses API does not have."""
        body = responses_request(request.body)
        if isinstance(body, Refusal):
            raise CallFailed(ProviderError(400, body.message))
        async with self._upstream.open(rollout, msgspec.structs.replace(request, body=body, plain_body=None)) as reply:
            if reply.status != 200:
                yield reply
            elif reply.content_type == "text/event-stream":
                yield Reply(200, reply.content_type, reply.retry_after, _translated(reply))
            else:
                yield Reply(200, reply.content_type, reply.retry_after, _whole(reply))

    async def close(self) -> None:
        """Close the connections."""
        await self._upstream.close()


async def _whole(reply: Reply) -> AsyncIterator[bytes]:
    yield chat_answer(await reply.read())


async def _translated(reply: Reply) -> AsyncIterator[bytes]:
    translation, buffer = StreamTranslation(), b""
    async for chunk in reply.chunks:
        events, buffer = split_events(buffer, chunk)
        if len(buffer) > EVENT_LIMIT:
            raise CallFailed(ProviderError(BAD_GATEWAY, f"an event of the stream is longer than {EVENT_LIMIT} bytes"))
        if out := b"".join(translation.take(read_event(event)) for event in events):
            yield out
    if buffer.strip() and (out := translation.take(read_event(buffer))):
        yield out
