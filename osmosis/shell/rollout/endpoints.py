"""The server's hot routes as bare ASGI applications (ruling 23; contract: rollout_protocol section 7).

They stand in the FastAPI application's route table, so that its middleware, exception handlers and method checks apply, but a
request costs no dependency resolution and no pydantic. `RolloutApp` takes the two routes that every rollout uses around the
framework's layers too, as long as nobody has put a layer of their own there.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from osmosis.pure.protocol import POLLING_LEASE_HEADER, encode
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.registry import RefusalError, RolloutRegistry
from osmosis.shell.rollout.request_body import encode_detail, read_cancel_request, read_init_request

MAX_BODY_BYTES: Final = 256 * 1024 * 1024

_LEASE_HEADER = POLLING_LEASE_HEADER.lower().encode()

Handler = Callable[[Scope, Receive], Awaitable[tuple[int, bytes]]]


class Endpoint:
    """One route: what a handler answers or refuses, sent as JSON."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            status, body = await self._handler(scope, receive)
            headers: Mapping[str, str] = {}
        except RefusalError as refusal:
            status, body, headers = refusal.status, encode_detail(refusal.detail), refusal.headers
        await send_json(send, status, body, headers)


class RolloutEndpoints:
    """The handlers of one server."""

    def __init__(self, registry: RolloutRegistry, backend: ExecutionBackend, *, instance_id: str, process_id: str) -> None:
        self._registry = registry
        self._backend = backend
        self._instance_id = instance_id
        self._process_id = process_id
        self._start, self._result = Endpoint(self.start), Endpoint(self.result)

    def find(self, scope: Scope) -> Endpoint | None:
        """The endpoint of a start or a poll, with its path parameter in the scope; None for anything else."""
        path: str = scope["path"]
        if not path.startswith("/rollout"):
            return None
        if scope["method"] == "POST":
            return self._start if path == "/rollout" else None
        parts = path.split("/")
        if scope["method"] != "GET" or len(parts) != 4 or parts[3] != "result" or not parts[2]:
            return None
        scope["path_params"] = {"rollout_id": parts[2]}
        return self._result

    def routes(self) -> list[Route]:
        """The routes, most often used first."""
        return [
            _route("/rollout/{rollout_id}/result", "GET", self._result),
            _route("/rollout", "POST", self._start),
            _route("/health", "GET", Endpoint(self.health)),
            _route("/rollout/cancel", "POST", Endpoint(self.cancel)),
        ]

    async def health(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """`GET /health`: the backend's report, who this process is, and what it is doing."""
        report = {
            **self._backend.health(),
            "instance_id": self._instance_id,
            "process_id": self._process_id,
            "lifecycle": {"accepting_rollouts": self._registry.accepting, "active_rollouts": self._registry.active},
        }
        return 200, msgspec.json.encode(report, enc_hook=str)

    async def start(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """`POST /rollout`: 202 with the lease."""
        request = read_init_request(await read_body(receive), header(scope, b"content-type") or "")
        return 202, encode(self._registry.admit(request))

    async def result(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """`GET /rollout/{id}/result`: long poll."""
        token = header(scope, _LEASE_HEADER)
        if not token:
            raise RefusalError(422, [_lease_problem(token)])
        return 200, await self._registry.poll(scope["path_params"]["rollout_id"], token)

    async def cancel(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """`POST /rollout/cancel`: what became of each id."""
        request = read_cancel_request(await read_body(receive), header(scope, b"content-type") or "")
        return 200, encode(self._registry.cancel(request))


class RolloutApp(FastAPI):
    """The server's application. `direct` serves starts and polls when no middleware was added to it."""

    direct: RolloutEndpoints | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        if self.direct is not None and scope["type"] == "http" and not self.user_middleware and not scope.get("root_path"):
            endpoint = self.direct.find(scope)
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


class BearerAuth:
    """Middleware: every path needs exactly `Authorization: Bearer <api_key>` (section 7.1)."""

    def __init__(self, app: ASGIApp, api_key: str) -> None:
        self._app = app
        self._expected = f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is authorised, answer 401 to the rest."""
        if scope["type"] == "http":
            given = (header(scope, b"authorization") or "").encode("latin-1")
            if not hmac.compare_digest(given, self._expected):
                await send_json(send, 401, encode_detail("unauthorized"), {})
                return
        await self._app(scope, receive, send)


def _route(path: str, method: str, endpoint: Endpoint) -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # Starlette adds HEAD to GET; the protocol has none.
    return route


def _lease_problem(token: str | None) -> dict[str, object]:
    place: dict[str, object] = {"loc": ["header", POLLING_LEASE_HEADER]}
    if token is None:
        return {"type": "missing"} | place | {"msg": "Field required", "input": None}
    message = "String should have at least 1 character"
    return {"type": "string_too_short"} | place | {"msg": message, "input": token, "ctx": {"min_length": 1}}


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of that (lower-case) name, or None."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


async def read_body(receive: Receive) -> bytes:
    """The request's body. Raises RefusalError (413) above `MAX_BODY_BYTES`."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client went away")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise RefusalError(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a whole JSON answer."""
    lines = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    lines += [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
