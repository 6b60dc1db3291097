"""A model on loopback that answers every call alike, at once, and remembers when calls came: `with stub_model() as model`.

It is a bare protocol on a loop of its own process, so that what it costs is small beside what is measured. `GET /marks` tells
how many calls there were, and when the first and the last of them came (`time.monotonic`, which all processes share); asking
forgets them. `GET /questions` tells, and keeps, how often each question was asked. The one-word question of a preflight is not
counted.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import ClassVar, cast

import msgspec
import uvloop

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "stub",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13},
}
PROMPT = b"What is 2*2"
"""What the questions of a run hold, and a preflight does not."""


class Marks(msgspec.Struct):
    """Calls since somebody last asked; times in seconds of the shared clock."""

    calls: int = 0
    first: float = 0.0
    last: float = 0.0


class _Model(asyncio.Protocol):
    """One connection. Requests have a Content-Length, as every client here sends it. Answers come `delay` seconds later."""

    delay = 0.0
    marks = Marks()
    questions: ClassVar[Counter[str]] = Counter()
    body = json.dumps(ANSWER).encode()

    def __init__(self) -> None:
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go through."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            _, _, rest = head.partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0]) if rest else 0
            if len(self._data) < end + 4 + length:
                return
            content, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            body = self._asked(head, content)
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self._answer, body)
            else:
                self._answer(body)

    def _asked(self, head: bytes, content: bytes) -> bytes:
        if head.startswith(b"get /marks"):
            told, _Model.marks = _Model.marks, Marks()
            return msgspec.json.encode(told)
        if head.startswith(b"get /questions"):
            return msgspec.json.encode(self.questions)
        if PROMPT in content:
            now = time.monotonic()
            self.marks.first = self.marks.first or now
            self.marks.last = now
            self.marks.calls += 1
            start = content.index(PROMPT)
            self.questions[content[start : content.index(b'"', start)].decode()] += 1
        return self.body

    def _answer(self, body: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


def _serve(pipe: Connection, delay: float) -> None:
    _Model.delay = delay

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(_Model, "127.0.0.1", 0, backlog=1024)
        pipe.send(listener.sockets[0].getsockname()[1])
        # The parent closes its end, or dies: either way there is something to read.
        await loop.run_in_executor(None, pipe.poll, None)

    uvloop.run(serve())


class StubModel:
    """The running model: its base URL and what it saw."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self._place = f"http://127.0.0.1:{port}"

    def marks(self) -> Marks:
        """What came since this was last asked."""
        return msgspec.json.decode(self._get("/marks"), type=Marks)

    def questions(self) -> dict[str, int]:
        """How often each question was asked, from the beginning."""
        return msgspec.json.decode(self._get("/questions"), type=dict[str, int])

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(self._place + path, timeout=30) as answer:
            body: bytes = answer.read()
            return body


@contextmanager
def stub_model(delay: float = 0.0) -> Iterator[StubModel]:
    """A model while the context lasts, which takes `delay` seconds for an answer."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_serve, args=(theirs, delay), daemon=True)
    child.start()
    theirs.close()
    try:
        yield StubModel(ours.recv())
    finally:
        ours.close()
        child.join(10)
