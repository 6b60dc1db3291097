"""The server's routes as bare ASGI applications (ruling 23; contract: rollout_protocol section 7).

A request costs no dependency resolution and no pydantic, and importing this costs no framework. `light_app` serves them by
themselves, `framework_app` in the route table of a FastAPI application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from osmosis.pure.protocol import POLLING_LEASE_HEADER, encode
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.registry import RefusalError, RolloutRegistry
from osmosis.shell.rollout.request_body import encode_detail, read_cancel_request, read_init_request

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MAX_BODY_BYTES: Final = 256 * 1024 * 1024

_LEASE_HEADER = POLLING_LEASE_HEADER.lower().encode()

Handler = Callable[["Scope", "Receive"], Awaitable[tuple[int, bytes]]]


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
        self.result_endpoint = Endpoint(self.result)
        self.fixed: Final[Mapping[tuple[str, str], Endpoint]] = {
            ("POST", "/rollout"): Endpoint(self.start),
            ("GET", "/health"): Endpoint(self.health),
            ("POST", "/rollout/cancel"): Endpoint(self.cancel),
        }

    def find(self, scope: Scope) -> Endpoint | None:
        """The endpoint of an HTTP request, with its path parameter in the scope; None for what is none of our routes."""
        method, path = scope["method"], scope["path"]
        if (fixed := self.fixed.get((method, path))) is not None:
            return fixed
        parts = path.split("/")
        if method != "GET" or len(parts) != 4 or parts[0] or parts[1] != "rollout" or parts[3] != "result" or not parts[2]:
            return None
        scope["path_params"] = {"rollout_id": parts[2]}
        return self.result_endpoint

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
