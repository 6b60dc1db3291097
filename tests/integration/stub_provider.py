"""A model server on loopback that keeps what it was sent and answers as a test tells it, and a bridge in front of it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from osmosis.pure.completion import Redactor
from osmosis.pure.providers import Endpoint, Wire
from osmosis.pure.redaction import Redactor as Secrets
from osmosis.shell.bridge import Bridge

TOKEN = "0123456789abcdef0123456789abcdef"
KEY = "sk-stub/key+0123456789"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
PATIENCE = 300.0
"""Seconds after which a test that waits for an event has failed."""

Answer = Callable[[web.BaseRequest, bytes], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request that the provider got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


@dataclass
class StubProvider:
    """`answer` decides each response. `abandoned` counts the calls whose client went away before the end."""

    answer: Answer
    seen: list[Seen] = field(default_factory=list)
    abandoned: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    url: str = ""
    server: web.Server = field(init=False)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Keep the request and answer it."""
        body = await request.read()
        self.seen.append(Seen(request.path, dict(request.headers), body))
        try:
            return await self.answer(request, body)
        except (asyncio.CancelledError, ConnectionError):
            self.abandoned.put_nowait(None)
            raise

    async def wait_abandoned(self, times: int = 1) -> None:
        """Wait until that many calls were abandoned."""
        async with asyncio.timeout(PATIENCE):
            for _ in range(times):
                await self.abandoned.get()

    async def wait_alone(self) -> None:
        """Wait until every connection that was made before now was accepted, heard to its end and closed.

        What a process that is dead had still sent is counted then, and nothing that comes later is of it.
        """
        _, ours = await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2].partition("/")[0]))
        try:
            # Connections are accepted in the order in which they were made.
            async with asyncio.timeout(PATIENCE):
                while self._peers() != [ours.get_extra_info("sockname")]:  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.005)
        finally:
            ours.close()
            await ours.wait_closed()

    def _peers(self) -> list[Any]:
        """Who is connected."""
        transports = [connection.transport for connection in self.server.connections]
        return [transport.get_extra_info("peername") for transport in transports if transport is not None]


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[StubProvider]:
    """A stub provider while the context lasts."""
    stub = StubProvider(answer)

    def make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=2**27)

    server = stub.server = web.Server(stub.handle, request_factory=make_request, handler_cancellation=True, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)
    stub.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield stub
    finally:
        listener.close()
        server.pre_shutdown()
        await server.shutdown(1)


@asynccontextmanager
async def talking(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A server on the port that is given, with one talk a connection. A client that leaves ends its talk.

    At the end every connection is closed to its end: one that is not is found by the garbage collector, in a later test.
    """
    talks: set[asyncio.Task[Any]] = set()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        task.add_done_callback(talks.discard)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await talk(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0)  # what was accepted last begins its talk
        while talks:
            # Clients have gone, so talks end by themselves; one whose client stays is ended.
            ended, _ = await asyncio.wait(talks, timeout=PATIENCE)
            for task in () if ended else tuple(talks):
                task.cancel()
        await server.wait_closed()


@asynccontextmanager
async def raw_server(*scripts: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers connection N with script N (the last one again and again) and closes: (base URL, requests)."""
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        requests.append(head + await reader.readexactly(length))
        writer.write(scripts[min(len(requests), len(scripts)) - 1])

    async with talking(talk) as port:
        yield f"http://127.0.0.1:{port}/v1", requests


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port at which nobody listens while the context lasts. One that was merely closed the system soon gives to others."""
    with socket.socket() as keeper:
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]


def compact(value: Any) -> bytes:
    """JSON without white space, as model servers send it."""
    return json.dumps(value, separators=(",", ":")).encode()


def completion(content: str = "4", **members: Any) -> dict[str, Any]:
    """A chat completion as a provider sends it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop", "logprobs": None}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "real-1",
        "choices": [choice],
        "usage": USAGE,
        **members,
    }


def answers(body: Any = None, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """An answer that is always the same: a JSON value, or raw text when it is `bytes`."""
    content = body if isinstance(body, bytes) else compact(completion() if body is None else body)

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        return web.Response(status=status, body=content, headers={"Content-Type": "application/json", **(headers or {})})

    return answer


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any) -> bytes:
    """One event of a stream, blank line included."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    event = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "real-1", "choices": choices, **members}
    return b"data: " + compact(event) + b"\n\n"


STREAM = (
    chunk({"role": "assistant", "content": "four"}),
    chunk({"content": " teen"}),
    chunk({}, "stop"),
    chunk(choices=[], usage=USAGE),
    b"data: [DONE]\n\n",
)


def streams(*pieces: bytes, before: Callable[[int], Awaitable[object]] | None = None) -> Answer:
    """A streamed answer in these pieces; `before(i)` is awaited before piece i leaves."""

    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for index, piece in enumerate(pieces):
            if before is not None:
                await before(index)
            await response.write(piece)
        await response.write_eof()
        return response

    return answer


@dataclass
class Front:
    """A started bridge, and a client that talks to it without any SDK."""

    bridge: Bridge
    session: aiohttp.ClientSession
    rejected: list[str]
    failed: list[tuple[str, int, str]]

    def post(self, body: Any, rollout: str = "r", **options: Any) -> Any:
        """Post a body (JSON, or raw bytes) as that rollout; used as an async context."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        url = f"{self.bridge.chat_completions_url(rollout)}/chat/completions"
        return self.session.post(url, data=io.BytesIO(data), headers=headers, **options)

    async def ask(self, body: Any, rollout: str = "r", **options: Any) -> tuple[int, bytes]:
        """Post and read the whole answer: (status, body)."""
        async with self.post(body, rollout, **options) as response:
            return response.status, await response.read()


@asynccontextmanager
async def bridged(
    base_url: str,
    *,
    key: str | None = KEY,
    redactor: Redactor | None = None,
    model_path: str = "openai/real-1",
    wire: Wire = Wire.CHAT,
    **options: Any,
) -> AsyncIterator[Front]:
    """A bridge to `base_url` with rollout `r` (row 3, run 1) registered. Unless told otherwise retries wait no time, and a
    stream begins when the provider answers, however long a slow machine takes for it."""
    rejected: list[str] = []
    failed: list[tuple[str, int, str]] = []
    provider, _, model = model_path.partition("/")
    endpoint = Endpoint(provider, model, base_url, "OPENAI_API_KEY" if key else None, key, wire)
    options.setdefault("backoff", ())
    options.setdefault("commit_seconds", PATIENCE)
    bridge = Bridge(endpoint, token=TOKEN, redactor=redactor or Secrets(), **options)
    bridge.report_to(on_provider_rejected=rejected.append, on_call_failed=lambda *told: failed.append(told))
    await bridge.start()
    bridge.register("r", 3, 1)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        try:
            yield Front(bridge, session, rejected, failed)
        finally:
            async with asyncio.timeout(PATIENCE):
                await bridge.stop()
