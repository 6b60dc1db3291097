"""`create_app`: an agent loop as a FastAPI application (A6; contract `legacy_api.md` sections 7.1-7.3).

Unlike the public package, the key is checked before the body is read: whoever has no key learns nothing about a body and costs
no parsing.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop
from osmosis.shell.remote_rollout.rollouts import Rollouts
from osmosis.shell.remote_rollout.schemas import RolloutRequest
from osmosis.shell.remote_rollout.settings import RolloutSettings, get_settings

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024 * 1024

Hook = Callable[[], Awaitable[object]]


def create_app(
    agent_loop: RolloutAgentLoop,
    max_concurrent: int | None = None,
    record_ttl_seconds: float | None = None,
    settings: RolloutSettings | None = None,
    credentials: object = None,
    server_host: str | None = None,
    server_port: int | None = None,
    api_key: str | None = None,
    debug_dir: str | None = None,
    on_startup: Hook | None = None,
    on_shutdown: Hook | None = None,
) -> FastAPI:
    """A server that runs `agent_loop` for a trainer: `POST /v1/rollout/init`, `GET /health`, `GET /platform/health`.

    With `api_key` a request needs it, as a bearer token or as the whole `Authorization` header; `/health` never does. At most
    `max_concurrent` rollouts run at once; a repeated request finds its first answer for `record_ttl_seconds`. Events of
    `ctx.log_event` go to files in `debug_dir`. `on_startup` and `on_shutdown` are awaited before serving and after it.

    Raises TypeError for what is no agent loop, ValueError for a blank key and for `credentials`: this build registers with no
    platform, and must not look as if it did (`server_host` and `server_port` matter to registration alone).
    """
    if not isinstance(agent_loop, RolloutAgentLoop):
        given = f"the class {agent_loop.__name__}" if isinstance(agent_loop, type) else f"a {type(agent_loop).__name__}"
        raise TypeError(f"create_app needs an instance of a RolloutAgentLoop, got {given}")
    if api_key is not None and not api_key.strip():
        raise ValueError("api_key must not be blank; use None for no authentication")
    if credentials is not None:
        raise ValueError("registration with a platform is not part of this version; leave 'credentials' out")
    chosen = settings or get_settings()
    rollouts = Rollouts(
        agent_loop,
        chosen,
        max_concurrent=chosen.server.max_concurrent_rollouts if max_concurrent is None else max_concurrent,
        record_ttl_seconds=chosen.server.record_ttl_seconds if record_ttl_seconds is None else record_ttl_seconds,
        debug_dir=debug_dir,
    )
    app = FastAPI(title="Osmosis remote rollout server", lifespan=_lifespan(rollouts, on_startup, on_shutdown))
    _add_routes(app, agent_loop, rollouts, api_key)
    return app


def _add_routes(app: FastAPI, loop: RolloutAgentLoop, rollouts: Rollouts, api_key: str | None) -> None:
    def report() -> dict[str, Any]:
        return {
            "status": "healthy",
            "agent_loop": loop.name,
            "active_rollouts": rollouts.active,
            "completed_rollouts": rollouts.completed,
        }

    async def health() -> Response:
        return JSONResponse(report())

    async def platform_health(request: Request) -> Response:
        if api_key is None:
            return JSONResponse({"detail": "Not found"}, status_code=404)
        return JSONResponse(report()) if authorised(request, api_key) else _unauthorised()

    async def init(request: Request) -> Response:
        if not authorised(request, api_key):
            return _unauthorised()
        body = await _read_body(request)
        if body is None:
            return JSONResponse({"detail": f"the body is larger than {MAX_BODY_BYTES} bytes"}, status_code=413)
        response = rollouts.admit(_read_request(body))
        return Response(response.model_dump_json(), status_code=202, media_type="application/json")

    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/platform/health", platform_health, methods=["GET"])
    app.add_api_route("/v1/rollout/init", init, methods=["POST"], status_code=202)


def authorised(request: Request, api_key: str | None) -> bool:
    """Whether a request carries the key: `Bearer KEY`, in any case of the scheme, or the key alone."""
    if api_key is None:
        return True
    given = request.headers.get("authorization", "")
    scheme, space, token = given.partition(" ")
    if space and scheme.lower() == "bearer":
        given = token.strip()
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), api_key.encode())


def _unauthorised() -> Response:
    return JSONResponse({"detail": "Invalid or missing API key"}, status_code=401)


async def _read_body(request: Request) -> bytes | None:
    """The whole body; None when it is too long."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _read_request(body: bytes) -> RolloutRequest:
    """The request in a body. Raises RequestValidationError, which FastAPI answers with 422 and every problem."""
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        position = getattr(error, "pos", 0)
        problem = {"type": "json_invalid", "loc": ("body", position), "msg": "JSON decode error", "input": {}}
        raise RequestValidationError([problem | {"ctx": {"error": str(error)}}]) from None
    try:
        return RolloutRequest.model_validate(value)
    except ValidationError as error:
        # Quoting the input would send a hostile body back, its secrets included.
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        raise RequestValidationError([{**problem, "loc": ("body", *problem["loc"])} for problem in problems]) from None


def _lifespan(rollouts: Rollouts, on_startup: Hook | None, on_shutdown: Hook | None) -> Any:
    @asynccontextmanager
    async def run(_: FastAPI) -> AsyncIterator[None]:
        if on_startup is not None:
            await on_startup()
        try:
            yield
        finally:
            await rollouts.shutdown()
            if on_shutdown is not None:
                await on_shutdown()

    return run
