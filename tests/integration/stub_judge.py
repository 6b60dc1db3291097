"""A judge on loopback: an OpenAI-compatible server in a thread of its own, so that synchronous code can be judged by it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.integration.stub_provider import PATIENCE, completion, serving

Reply = Callable[[dict[str, Any]], tuple[int, Any, dict[str, str]]]


def verdict(score: Any = 0.85, explanation: Any = "because", **members: Any) -> str:
    """A judge's reply."""
    return json.dumps({"score": score, "explanation": explanation, **members})


def says(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """A server whose answer is always the same: the reply's text, or a whole body when it is a dict."""
    body = content if isinstance(content, dict) else completion(content)
    return lambda _: (status, body, headers or {})


@dataclass
class StubJudge:
    """`reply` decides each answer; `asked` holds the request bodies, `keys` their Authorization headers.

    `settle` returns once all that ended processes had sent is among them.
    """

    reply: Reply
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    settle: Callable[[], None] = lambda: None


@contextmanager
def judging(reply: Reply) -> Iterator[StubJudge]:
    """A judge while the context lasts."""
    stub = StubJudge(reply)
    ready, finished = threading.Event(), threading.Event()

    async def answer(request: web.BaseRequest, data: bytes) -> web.Response:
        body = json.loads(data)
        stub.asked.append(body)
        stub.keys.append(request.headers.get("Authorization", ""))
        stub.paths.append(request.path)
        status, content, headers = stub.reply(body)
        return web.json_response(content, status=status, headers=headers)

    async def serve() -> None:
        async with serving(answer) as server:
            loop = asyncio.get_running_loop()
            stub.url = server.url
            stub.settle = lambda: asyncio.run_coroutine_threadsafe(server.wait_alone(), loop).result()
            ready.set()
            await loop.run_in_executor(None, finished.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield stub
    finally:
        finished.set()
        thread.join()
