"""A trainer for tests of agent loops: it owns the model, and waits for the end of rollouts (`legacy_api.md` 7 and 8)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from osmosis.shell.testing.http_server import LoopbackServer
from osmosis.shell.testing.model_server import chat_completion

if TYPE_CHECKING:
    from fastapi import FastAPI

ToolCallGenerator = Callable[[dict[str, Any]], list[dict[str, Any]] | None]

_COMPLETIONS = "/v1/chat/completions"
_COMPLETED = "/v1/rollout/completed"


def fake_token_ids(text: str) -> list[int]:
    """Token ids for a text, one a word: the same text always gives the same ones."""
    return [sum(word.encode()) % 50_000 for word in text.split()]


def fake_prompt_token_ids(messages: Iterable[dict[str, Any]]) -> list[int]:
    """Token ids for a prompt."""
    return [token for message in messages for token in fake_token_ids(str(message.get("content") or ""))]


def trainer_completion(request: dict[str, Any], reply: str | dict[str, Any]) -> dict[str, Any]:
    """A trainer's answer to one turn, token ids and log-probabilities included."""
    message = reply if isinstance(reply, dict) else {"role": "assistant", "content": reply}
    tokens = fake_token_ids(str(message.get("content") or ""))
    prompt = fake_prompt_token_ids(request.get("messages", []))
    return {
        **chat_completion(message, model="default", tokens=(len(prompt), len(tokens))),
        "token_ids": tokens,
        "logprobs": [-0.5] * len(tokens),
        "prompt_token_ids": prompt,
    }


class FakeTrainer(LoopbackServer):
    """Answers turns with `replies` (one for all, several in turn, or a function of the request) and keeps what it was sent.

    `turns` holds the requests for turns, `completions` the ends of rollouts by id, `authorizations` the header of each request.
    Several replies in turn are counted for each rollout by itself; the last one is repeated.
    """

    def __init__(self, replies: str | dict[str, Any] | list[Any] | Callable[[dict[str, Any]], Any] = "done") -> None:
        super().__init__()
        self.turns: list[dict[str, Any]] = []
        self.completions: dict[str, list[dict[str, Any]]] = {}
        self.authorizations: list[str | None] = []
        self._replies = replies
        self._changed = threading.Condition()

    def init_request(self, rollout_id: str, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """The body of `POST /v1/rollout/init` for a rollout that this trainer looks after."""
        return {
            "rollout_id": rollout_id,
            "server_url": self.url,
            "messages": messages,
            "completion_params": {},
            **fields,
        }

    def wait_for(self, rollout_id: str, timeout_sec: float = 20.0) -> dict[str, Any]:
        """The (first) end of a rollout. Raises TimeoutError."""
        end = time.monotonic() + timeout_sec
        with self._changed:
            while rollout_id not in self.completions:
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise TimeoutError(f"rollout {rollout_id} did not end within {timeout_sec} s")
            return self.completions[rollout_id][0]

    def respond(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """One request."""
        with self._changed:
            self.authorizations.append(headers.get("Authorization"))
            if method == "POST" and path == _COMPLETIONS and isinstance(body, dict):
                self.turns.append(body)
                reply = self._next(body)
                return reply if isinstance(reply, tuple) else (200, trainer_completion(body, reply))
            if method == "POST" and path == _COMPLETED and isinstance(body, dict):
                self.completions.setdefault(str(body.get("rollout_id")), []).append(body)
                self._changed.notify_all()
                return 200, {"status": "ok"}
            return (200, {"status": "healthy"}) if path == "/health" else (404, {"detail": "Not found"})

    def _next(self, request: dict[str, Any]) -> Any:
        if callable(self._replies):
            return self._replies(request)
        if not isinstance(self._replies, list):
            return self._replies
        turn = sum(one.get("rollout_id") == request.get("rollout_id") for one in self.turns)
        return self._replies[min(turn, len(self._replies)) - 1]


class RolloutCompletionTracker:
    """The ends of rollouts that `create_mock_trainer_app` was told of. `event` is set once there is one."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.responses: list[dict[str, Any]] = []

    def record(self, response: dict[str, Any]) -> None:
        """Keep an end."""
        self.responses.append(response)
        self.event.set()

    def clear(self) -> None:
        """Forget all."""
        self.responses.clear()
        self.event.clear()

    async def wait(self, timeout: float = 5.0) -> bool:  # noqa: ASYNC109 - documented
        """Wait for an end, at most `timeout` seconds. Whether there is one."""
        try:
            async with asyncio.timeout(timeout):
                await self.event.wait()
        except TimeoutError:
            return False
        return True


def create_mock_trainer_app(
    tracker: RolloutCompletionTracker | None = None, tool_call_generator: ToolCallGenerator | None = None
) -> FastAPI:
    """A trainer as a FastAPI application, for in-process clients. `tool_call_generator` decides which tools the model wants."""
    from fastapi import FastAPI, Request  # noqa: PLC0415 - the other helpers do without
    from fastapi.responses import JSONResponse  # noqa: PLC0415

    ended = tracker or RolloutCompletionTracker()
    by_id: dict[str, dict[str, Any]] = {}
    app = FastAPI(title="Mock trainer")

    async def turn(request: Request) -> JSONResponse:
        body = await request.json()
        calls = tool_call_generator(body) if tool_call_generator is not None else None
        message: dict[str, Any] = {"role": "assistant", "content": "mock reply"}
        return JSONResponse(trainer_completion(body, message | ({"tool_calls": calls} if calls else {})))

    async def completed(request: Request) -> JSONResponse:
        body = await request.json()
        by_id[str(body.get("rollout_id"))] = body
        ended.record(body)
        return JSONResponse({"status": "ok"})

    async def find(request: Request) -> JSONResponse:
        body = by_id.get(request.path_params["rollout_id"])
        return JSONResponse({"detail": "Not found"}, 404) if body is None else JSONResponse(body)

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "healthy"})

    app.add_route(_COMPLETIONS, turn, methods=["POST"])
    app.add_route(_COMPLETED, completed, methods=["POST"])
    app.add_route(_COMPLETED + "/{rollout_id}", find, methods=["GET"])
    app.add_route("/health", health, methods=["GET"])
    return app
