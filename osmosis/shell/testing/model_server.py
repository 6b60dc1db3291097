"""A model that says what a test tells it to, behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from osmosis.shell.testing.http_server import LoopbackServer

Reply = str | dict[str, Any] | tuple[int, Any]
"""Text, a whole message (`{"role": ..., "tool_calls": ...}`), or (HTTP status, body)."""


def judge_reply(score: float, explanation: str = "fake") -> str:
    """What a judge answers, for `FakeModelServer`."""
    return json.dumps({"score": score, "explanation": explanation})


def chat_completion(reply: str | dict[str, Any], *, model: str = "fake", tokens: tuple[int, int] = (10, 5)) -> dict[str, Any]:
    """A chat completion around a text or a message. `tokens` are those of prompt and completion."""
    message = {"role": "assistant", "content": reply} if isinstance(reply, str) else reply
    finish_reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
    }


class FakeModelServer(LoopbackServer):
    """Answers `POST .../chat/completions` with `replies`: one for all, several in turn, or a function of the request body.

    `requests` holds the bodies in order of arrival, `headers` their headers. When `replies` is a sequence and runs out, the
    answer is an error that says so. `environment` are the variables by which code under test finds the server as `openai/...`.
    """

    def __init__(self, replies: Reply | Iterable[Reply] | Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._lock = threading.Lock()
        self._replies = replies
        one_for_all = callable(replies) or isinstance(replies, str | dict | tuple)
        self._remaining: Iterator[Reply] | None = None if one_for_all else iter(replies)  # type: ignore[arg-type, assignment]

    @property
    def base_url(self) -> str:
        """The base URL of its API."""
        return f"{self.url}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for `openai` models; the key is no secret."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": "fake-key-for-tests"}

    def respond(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """One request."""
        if method != "POST" or not path.endswith("/chat/completions") or not isinstance(body, dict):
            return 404, {"error": {"message": f"the fake model serves chat completions only, not {method} {path}"}}
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            reply = self._next(body)
        if isinstance(reply, tuple):
            return reply
        return 200, chat_completion(reply, model=str(body.get("model", "fake")))

    def _next(self, body: dict[str, Any]) -> Reply:
        if callable(self._replies):
            return self._replies(body)
        if self._remaining is None:
            return self._replies  # type: ignore[return-value]
        left: Reply = (400, {"error": {"message": "the fake model has no reply left"}})
        return next(self._remaining, left)
