"""Streams through a real bridge: true pass-through, exact usage, and every way in which either side can fall silent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.source import EVENT_LIMIT
from tests.integration.stub_provider import (
    KEY,
    PATIENCE,
    STREAM,
    USAGE,
    Front,
    answers,
    bridged,
    chunk,
    completion,
    raw_server,
    serving,
    streams,
)

QUESTION = {"model": "asked", "messages": [], "stream": True}
DONE = "data: [DONE]"


async def events(front: Front, body: Any = None, rollout: str = "r") -> list[str]:
    """The events of a whole streamed answer, without their blank lines."""
    status, data = await front.ask(QUESTION if body is None else body, rollout)
    assert status == 200
    assert data.endswith(b"\n\n")
    return data.decode().split("\n\n")[:-1]


def payloads(found: list[str]) -> list[Any]:
    """The JSON objects among events."""
    return [json.loads(event[6:]) for event in found if event.startswith("data: {")]


async def test_a_stream_arrives_with_one_change():
    """Comment first, then the provider's chunks with the client's model, then the end; the usage chunk was not asked for."""
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front:
        found = await events(front)
        assert found[0] == ": ping"
        assert found[-1] == DONE
        expected = [json.loads(piece[6:]) | {"model": "asked"} for piece in STREAM[:3]]
        assert payloads(found) == expected
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)
    assert stub.seen[0].json["stream_options"] == {"include_usage": True}


async def test_usage_is_forwarded_to_those_who_ask():
    """A client that asks for usage gets the chunk as the provider sent it, and its other options go upstream."""
    body = {**QUESTION, "stream_options": {"include_usage": True, "chunk_size": 5}}
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front:
        assert payloads(await events(front, body))[-1]["usage"] == USAGE
    assert stub.seen[0].json["stream_options"] == {"include_usage": True, "chunk_size": 5}


async def test_the_stream_has_the_contract_headers():
    """Content type, no caching and no proxy buffering."""
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front, front.post(QUESTION) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers["X-Accel-Buffering"] == "no"


async def test_chunks_pass_as_they_arrive():
    """The client holds chunk N before the provider is allowed to send chunk N + 1."""
    allowed: asyncio.Queue[None] = asyncio.Queue()
    allowed.put_nowait(None)
    async with (
        serving(streams(*STREAM, before=lambda _: allowed.get())) as stub,
        bridged(stub.url) as front,
        asyncio.timeout(PATIENCE),
        front.post(QUESTION) as response,
    ):
        for piece in STREAM[:3]:
            line = b""
            while not line.startswith(b"data: {"):
                line = await response.content.readline()
            assert json.loads(line[6:])["choices"] == json.loads(piece[6:])["choices"]
            allowed.put_nowait(None)
        allowed.put_nowait(None)
        assert (await response.content.read()).endswith(b"data: [DONE]\n\n")


async def test_usage_is_counted_before_the_end_leaves():
    """A client that has seen `[DONE]` can be sure that its call is counted, though the provider's connection is still open."""
    released = asyncio.Event()

    async def wait_at_the_end(index: int) -> None:
        if index == len(STREAM):
            await released.wait()

    async with serving(streams(*STREAM, b"\n\n", before=wait_at_the_end)) as stub, bridged(stub.url) as front:
        async with asyncio.timeout(PATIENCE), front.post(QUESTION) as response:
            while await response.content.readline() != b"data: [DONE]\n":
                pass
            assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)
        released.set()


async def test_a_silent_provider_keeps_the_client_alive():
    """While the provider thinks, comments flow; what it finally says still arrives."""
    released = asyncio.Event()

    async def wait_first(index: int) -> None:
        if index == 0:
            await released.wait()

    async with (
        serving(streams(*STREAM, before=wait_first)) as stub,
        bridged(stub.url, commit_seconds=0.01, ping_seconds=0.01) as front,
        asyncio.timeout(PATIENCE),
        front.post(QUESTION) as response,
    ):
        for _ in range(3):
            assert await response.content.readuntil(b"\n\n") == b": ping\n\n"
        released.set()
        rest = (await response.content.read()).decode()
    assert rest.endswith("data: [DONE]\n\n")
    assert len(payloads(rest.split("\n\n"))) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_an_early_error_has_its_own_status(status):
    """A provider that refuses at once gives the streaming client a real HTTP status and `Retry-After`, as without a stream."""
    refusal = answers({"error": {"message": "the reason"}}, status, {"Retry-After": "9"})
    async with serving(refusal) as stub, bridged(stub.url) as front, front.post(QUESTION) as response:
        assert response.status == (status if status < 500 else 502)
        assert response.headers["Retry-After"] == "9"
        assert "the reason" in (await response.json())["detail"]


async def test_a_refused_request_has_its_own_status():
    """The policy's refusal of a streaming request is a plain 400."""
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front:
        status, body = await front.ask({**QUESTION, "api_key": "x"})
    assert (status, json.loads(body)["error"]["code"]) == (400, 400)


async def test_a_late_error_is_an_event():
    """Once comments have flowed, a refusal is an `error` event with the provider's status, and the stream still ends."""
    released = asyncio.Event()

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        await released.wait()
        return web.json_response({"error": f"late {KEY}"}, status=429)

    async with (
        serving(answer) as stub,
        bridged(stub.url, commit_seconds=0.0) as front,
        asyncio.timeout(PATIENCE),
        front.post(QUESTION) as response,
    ):
        assert await response.content.readuntil(b"\n\n") == b": ping\n\n"
        released.set()
        found = (await response.content.read()).decode().split("\n\n")[:-1]
    assert found[-1] == DONE
    assert found[-2].startswith("event: error\ndata: ")
    error = json.loads(found[-2].partition("data: ")[2])
    assert error["error"]["code"] == 429
    assert "[REDACTED]" in error["detail"]
    assert KEY not in str(found)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def framed(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A chunked response, whole or without its end."""
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


@pytest.mark.parametrize(
    "script",
    [
        framed(*STREAM[:2], end=b""),
        framed(*STREAM[:2]),
        framed(STREAM[0], b"data: {half"),
        framed(STREAM[0], end=b"zz\r\n"),
        framed(),
        framed(*STREAM[:1], b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'),
        framed(b"<html>what?</html>"),
    ],
)
async def test_a_stream_that_breaks_off_says_so(script):
    """A stream that ends before its completion ends with an `error` event, never as if it were whole, and is not counted."""
    async with raw_server(script) as (url, _), bridged(url) as front:
        status, data = await front.ask(QUESTION)
        text = data.decode()
        assert (status == 502) != ("event: error\ndata: " in text and text.endswith("data: [DONE]\n\n"))
        assert front.bridge.take_usage("r") is None


async def test_an_endless_event_is_cut_off():
    """A provider that never ends an event cannot fill the memory: the call fails at the limit."""
    flood = framed(STREAM[0], b"data: " + b"x" * (EVENT_LIMIT + EVENT_LIMIT // 4), *STREAM[1:])
    async with raw_server(flood) as (url, _), bridged(url) as front:
        _, data = await front.ask(QUESTION)
        assert b"event of the stream is longer" in data
        assert front.bridge.take_usage("r") is None


async def test_a_stream_without_its_last_line_is_whole():
    """Some servers leave `[DONE]` out after the last chunk; the client gets it, and usage counts."""
    async with serving(streams(*STREAM[:4])) as stub, bridged(stub.url) as front:
        found = await events(front)
        assert (len(payloads(found)), found[-1]) == (3, DONE)
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
async def test_how_bytes_arrive_does_not_matter(size, newline):
    """Byte by byte or all at once, with either line end, the client hears the same."""
    wire = b"".join(STREAM).replace(b"\n", newline)
    pieces = [wire[start : start + size] for start in range(0, len(wire), size)]
    async with raw_server(framed(*pieces)) as (url, _), bridged(url) as front:
        found = await events(front)
        assert [piece["choices"] for piece in payloads(found)] == [json.loads(piece[6:])["choices"] for piece in STREAM[:3]]
        assert found[-1] == DONE
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)


async def test_tool_calls_and_reasoning_pass():
    """Whatever stands in a delta passes: tool call fragments, reasoning, logprobs, unknown fields; comments too."""
    delta = {
        "tool_calls": [{"index": 0, "id": "t", "function": {"name": "add", "arguments": '{"a"'}}],
        "reasoning": "hm",
        "x": None,
    }
    pieces = (b": provider comment\n\n", chunk(delta, service_tier="flex"), chunk({}, "tool_calls"), b"data: [DONE]\n\n")
    async with serving(streams(*pieces)) as stub, bridged(stub.url) as front:
        found = await events(front)
        assert payloads(found)[0]["choices"][0]["delta"] == delta
        assert payloads(found)[0]["service_tier"] == "flex"
        assert ": provider comment" in found
        assert front.bridge.take_usage("r") is None


async def test_a_provider_that_does_not_stream_is_an_error():
    """A whole completion in answer to a streaming request is refused in so many words."""
    async with serving(answers(completion())) as stub, bridged(stub.url) as front:
        status, body = await front.ask(QUESTION)
    assert status == 502
    assert "whole completion" in json.loads(body)["detail"]


@pytest.mark.parametrize("moment", ["before the answer", "in the middle"])
async def test_a_client_that_hangs_up_cancels_the_stream(moment):
    """A client that leaves, early or mid-stream, takes the provider's call with it."""
    reached = asyncio.Event()

    async def stall(index: int) -> None:
        if index == (0 if moment == "before the answer" else 2):
            reached.set()
            await asyncio.Event().wait()

    async with serving(streams(*STREAM, before=stall)) as stub, bridged(stub.url) as front:
        call = asyncio.create_task(front.ask(QUESTION))
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
            call.cancel()
            await stub.wait_abandoned()
        assert front.bridge.calls_in_flight == 0
        assert front.bridge.take_usage("r") is None


@pytest.mark.parametrize("end", ["cancel", "stop", "stop at once"])
async def test_streams_in_flight_end_with_their_rollout(end):
    """Cancelling the rollout or stopping the bridge cuts its streams on both sides."""
    reached = asyncio.Event()

    async def stall(index: int) -> None:
        if index == 1:
            reached.set()
            await asyncio.Event().wait()

    async with serving(streams(*STREAM, before=stall)) as stub, bridged(stub.url) as front:
        call = asyncio.create_task(front.ask(QUESTION))
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
            if end.startswith("stop"):
                await front.bridge.stop(2.0 if end == "stop" else 0.0)
            else:
                front.bridge.cancel("r")
            await stub.wait_abandoned()
            with pytest.raises(aiohttp.ClientError):
                await call


async def test_a_reader_that_stops_reading_holds_back_the_provider():
    """The bridge does not pile up a stream that nobody reads: the provider is made to wait, and stopping still works."""
    sent = 0
    piece = chunk({"content": "x" * 100_000})

    async def count(_: int) -> None:
        nonlocal sent
        sent += 1

    async with serving(streams(*[piece] * 2000, before=count)) as stub, bridged(stub.url) as front, asyncio.timeout(PATIENCE):
        async with front.post(QUESTION) as response:
            await response.content.readuntil(b"\n\n")
            settled = -1
            while settled != sent:
                settled = sent
                # Nothing is left to do on this loop but what a full socket holds back.
                for _ in range(1000):
                    await asyncio.sleep(0)
            await front.bridge.stop()
        await stub.wait_abandoned()
    assert sent < 2000


@pytest.mark.slow
async def test_two_hundred_streams_with_half_the_clients_leaving():
    """200 streams, half of them abandoned mid-body: no call stays in flight, and the totals are exactly those of the rest."""
    leaving = asyncio.Event()

    async def stall(index: int) -> None:
        if index == 2:
            await leaving.wait()

    async def leave(front: Front, name: str) -> None:
        async with front.post(QUESTION, name) as response:
            await response.content.readuntil(b"data: {")

    async with serving(streams(*STREAM, before=stall)) as stub, bridged(stub.url) as front, asyncio.timeout(6 * PATIENCE):
        names = [f"r{index}" for index in range(200)]
        for index, name in enumerate(names):
            front.bridge.register(name, index, 0)
        staying = [asyncio.create_task(events(front, None, name)) for name in names[::2]]
        await asyncio.gather(*(leave(front, name) for name in names[1::2]))
        await stub.wait_abandoned(100)
        leaving.set()
        found = await asyncio.gather(*staying)
        assert all(stream[-1] == DONE and len(payloads(stream)) == 3 for stream in found)
        # A client has its last byte a moment before the bridge has done its books.
        while front.bridge.calls_in_flight:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        assert [front.bridge.take_usage(name) for name in names] == [(CallUsage(3, 2, 5),), None] * 100
