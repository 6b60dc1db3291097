"""Under load nothing is left behind: sockets, tasks and places are counted before and after, and usage is exact."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from osmosis.pure.usage import CallUsage
from tests.integration.stub_provider import TOKEN, answers, bridged, chunk, compact, completion, serving

pytestmark = pytest.mark.slow

PARALLEL = 200
PATIENCE = 600.0
"""Seconds after which a storm that has not abated has failed."""


def sockets() -> int:
    """Open sockets of this process."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += os.readlink(entry).startswith("socket:")
    return found


@asynccontextmanager
async def nothing_left():
    """Fails when what happens inside leaves a socket or a task behind."""
    gc.collect()
    tasks, before = len(asyncio.all_tasks()), sockets()
    yield
    async with asyncio.timeout(PATIENCE):
        while True:
            gc.collect()
            if sockets() <= before and len(asyncio.all_tasks()) <= tasks:
                break
            await asyncio.sleep(0.05)


def usage_of(name: str) -> dict[str, int]:
    """Usage that tells rollouts apart."""
    number = int(name.removeprefix("r")) + 1
    return {"prompt_tokens": number, "completion_tokens": 1, "total_tokens": number + 1}


def ask(name: str, **more) -> dict:
    """A request in which the stub finds the rollout's name."""
    return {"model": "m", "messages": [{"role": "user", "content": name}], **more}


class Storm:
    """A provider with a mood: every third call is refused, and half a stream is all that impatient clients get."""

    def __init__(self):
        self.turn = 0
        self.told: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """One call's answer. A stream that asks for `stall` never ends by itself."""
        fields = json.loads(body)
        name = fields["messages"][0]["content"]
        self.turn += 1
        if self.turn % 3 == 0:
            return await answers({"error": {"message": "too many"}}, 429)(request, body)
        if not fields.get("stream"):
            self.told[name] += 1
            return await answers(completion(usage=usage_of(name)))(request, body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk({"content": "a" * 4096}))
        if "stall" in fields:
            await asyncio.Event().wait()
        for piece in (chunk({}, "stop"), chunk(choices=[], usage=usage_of(name)), b"data: [DONE]\n\n"):
            await response.write(piece)
        self.told[name] += 1
        await response.write_eof()
        return response


async def test_two_hundred_streams_half_of_them_hung_up_in_a_storm():
    """200 streams against a provider that refuses every third call and is slow; half the clients hang up in the middle. All
    others get their answer, each rollout's usage is exactly its own, and no socket, task or place stays behind."""
    storm = Storm()
    async with (
        nothing_left(),
        serving(storm.answer) as stub,
        bridged(stub.url, backoff=(0.01,) * 30) as front,
        asyncio.timeout(PATIENCE),
    ):
        names = [f"r{index}" for index in range(PARALLEL)]
        for index, name in enumerate(names):
            front.bridge.register(name, index, 0)

        async def leave(name: str) -> None:
            async with front.post(ask(name, stream=True, stall=1), name) as response:
                await response.content.readuntil(b"aaaa")

        async def stay(name: str) -> bytes:
            async with front.post(ask(name, stream=True), name) as response:
                assert response.status == 200
                return await response.read()

        staying = [asyncio.create_task(stay(name)) for name in names[::2]]
        await asyncio.gather(*(leave(name) for name in names[1::2]))
        bodies = await asyncio.gather(*staying)
        assert all(body.endswith(b"data: [DONE]\n\n") and b"event: error" not in body for body in bodies)
        # A client has its last byte a moment before the bridge has done its books.
        while front.bridge.calls_at_provider[0] or front.bridge.calls_in_flight:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        for index, name in enumerate(names):
            expected = None if index % 2 else (CallUsage(index + 1, 1, index + 2),)
            assert front.bridge.take_usage(name) == expected


async def test_whole_answers_in_a_storm_are_counted_exactly():
    """1,000 whole calls of 50 rollouts, a third of them refused at first: every answer counts once for its own rollout."""
    storm = Storm()
    async with (
        nothing_left(),
        serving(storm.answer) as stub,
        bridged(stub.url, backoff=(0.01,) * 30) as front,
        asyncio.timeout(PATIENCE),
    ):
        names = [f"r{index}" for index in range(50)]
        for index, name in enumerate(names):
            front.bridge.register(name, index, 0)
        answered = await asyncio.gather(*(front.ask(ask(name), name) for name in names for _ in range(20)))
        assert {status for status, _ in answered} == {200}
        for name in names:
            usage = usage_of(name)
            one = CallUsage(usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])
            assert front.bridge.take_usage(name) == (one,) * 20
        assert storm.told == dict.fromkeys(names, 20)


async def test_clients_that_never_read_hold_nobody_up():
    """Clients that connect, ask and fall silent do not keep others from being answered, and stopping ends them all."""

    async def long_answer(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        return await answers(compact(completion("x" * 1_000_000)))(request, body)

    async with nothing_left(), serving(long_answer) as stub, bridged(stub.url) as front, asyncio.timeout(PATIENCE):
        host, port = "127.0.0.1", front.bridge.port
        body = compact(ask("r"))
        head = (
            f"POST /v1/rollouts/r/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        silent = []
        for _ in range(50):
            _, writer = await asyncio.open_connection(host, port, limit=1024)
            writer.write(head + body)
            await writer.drain()
            silent.append(writer)
        assert (await front.ask(ask("r")))[0] == 200
        await front.bridge.stop(0.2)
        for writer in silent:
            writer.close()


async def test_a_thousand_connections_that_open_and_close():
    """Connections that come and go, with and without a request, leave nothing."""
    async with nothing_left(), serving(answers()) as stub, bridged(stub.url) as front, asyncio.timeout(PATIENCE):

        async def knock(index: int) -> None:
            _, writer = await asyncio.open_connection("127.0.0.1", front.bridge.port)
            if index % 2:
                writer.write(b"POST /v1/rollouts/r/chat")
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

        for start in range(0, 1000, 50):
            await asyncio.gather(*(knock(index) for index in range(start, start + 50)))
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"{front.bridge.chat_completions_url('r')}/chat/completions"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            for _ in range(20):
                async with session.post(url, json=ask("r"), headers=headers) as response:
                    assert response.status == 200
