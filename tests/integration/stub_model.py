"""A model provider on loopback whose behaviour is chosen by the last message of each call, and which counts calls by prompt.

The first word of a prompt names the behaviour:

    echo TEXT        the prompt itself, at once (so does every word that is not listed here)
    held TEXT        the same, once the test releases it (`raise TEXT` too, if the rollout lets it come so far)
    reject TEXT      401 (`reject beside` waits until a `held` call has come)
    busy N TEXT      429 with `Retry-After: N`, the first time; then the prompt (`busy N beside` waits for a second such call)
    broken TEXT      500
    garbage TEXT     200 with a body that is no completion
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.integration.stub_provider import PATIENCE, StubProvider, completion, serving


class StubModel:
    """What the provider was asked. `url` is its base URL; `release` lets held calls go, `holds_preflight` makes the first
    question of a run such a call."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: Counter[str] = Counter()
        self.abandoned = 0
        self.keys: set[str] = set()
        self.holds_preflight = False
        self.provider: StubProvider
        self._release = asyncio.Event()
        self._changed = asyncio.Condition()

    def release(self) -> None:
        """Answer every held call, now and later."""
        self._release.set()

    async def wait_calls(self, count: int, word: str = "") -> None:
        """Wait until `count` calls whose prompt begins with `word` have arrived, however many were answered."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self.count(word) >= count)

    def count(self, word: str = "") -> int:
        """How many calls had a prompt that begins with `word`. The preflight's own call is not counted."""
        return sum(number for prompt, number in self.calls.items() if prompt.startswith(word))

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Answer one call."""
        self.keys.add(request.headers["Authorization"].removeprefix("Bearer "))
        prompt = str(json.loads(body)["messages"][-1]["content"])
        if prompt == "hi" and not self.holds_preflight:
            return web.json_response(completion("hi"))
        async with self._changed:
            self.calls[prompt] += 1
            self._changed.notify_all()
        try:
            return await self._behave(prompt, self.calls[prompt])
        except asyncio.CancelledError:
            self.abandoned += 1
            raise

    async def _behave(self, prompt: str, times: int) -> web.Response:
        match prompt.split():
            case ["held" | "raise" | "hi", *_]:
                await self._release.wait()
            case ["reject", *more]:
                if more[:1] == ["beside"]:
                    await self.wait_calls(1, "held")
                return _error(401, f"this key is not known: {prompt}")
            case ["busy", seconds, *more] if times == 1:
                if more[:1] == ["beside"]:
                    await self.wait_calls(2, "busy")
                return _error(429, "too many requests", {"Retry-After": seconds})
            case ["broken", *_]:
                return _error(500, "out of order")
            case ["garbage", *_]:
                return web.Response(text="<html>not a completion", content_type="application/json")
        return web.json_response(completion(prompt))


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body: dict[str, Any] = {"error": {"message": message}}
    return web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def stub_model() -> AsyncIterator[StubModel]:
    """A provider while the context lasts."""
    stub = StubModel()
    async with serving(stub.answer) as provider:
        stub.provider, stub.url = provider, provider.url
        yield stub
        stub.release()
