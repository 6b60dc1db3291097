"""A model that always says the same, on loopback: what `osmosis rollout validate` runs its row against.

It speaks chat completions, streamed or whole, counts its calls, and wants the bearer token that the rollout was given.
"""

from __future__ import annotations

import hmac
import json
from typing import Any, Self

from aiohttp import web

MAX_BODY_BYTES = 64 * 1024 * 1024
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
_HEAD = {"id": "chatcmpl-stub", "created": 0}


class StubModel:
    """Answers every call with `answer`. Use as an async context manager; `url` is the base of its chat completions."""

    def __init__(self, answer: str, token: str) -> None:
        self.calls = 0
        self.url = ""
        self._answer = answer
        self._expected = f"Bearer {token}".encode()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode(), self._expected):
            return web.json_response({"error": {"message": "the rollout's own key is wanted", "code": 401}}, status=401)
        try:
            body = await request.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return web.json_response({"error": {"message": "the body is no chat completion", "code": 400}}, status=400)
        self.calls += 1
        model = str(body.get("model") or "stub")
        if body.get("stream") is True:
            return await self._stream(request, model)
        message = {"role": "assistant", "content": self._answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({**_HEAD, "object": "chat.completion", "model": model, "choices": [choice], "usage": _USAGE})

    async def _stream(self, request: web.Request, model: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        deltas: list[tuple[dict[str, str], str | None]] = [
            ({"role": "assistant", "content": self._answer}, None),
            ({}, "stop"),
        ]
        events: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} for delta, finish in deltas
        ]
        events.append({"choices": [], "usage": _USAGE})
        for event in events:
            chunk = {**_HEAD, "object": "chat.completion.chunk", "model": model, **event}
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response
