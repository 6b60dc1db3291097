"""The rollout server as a FastAPI application (ruling 23; contract: rollout_protocol section 7).

The endpoints stand in the application's route table, so that its middleware, exception handlers and method checks apply. What
every rollout asks for goes around the framework's layers, as long as nobody has put a layer of their own there.
"""

from __future__ import annotations

import hmac

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from osmosis.shell.rollout.endpoints import Endpoint, RolloutEndpoints, header, send_json
from osmosis.shell.rollout.request_body import encode_detail
from osmosis.shell.rollout.server_parts import ServerParts

_TITLE = "Osmosis rollout server"


class FrameworkApp(FastAPI):
    """The server's application."""

    _endpoints: RolloutEndpoints

    def __init__(self, parts: ServerParts) -> None:
        super().__init__(title=_TITLE, lifespan=parts.lifespan)
        self._endpoints = parts.endpoints
        self.router.routes[:0] = _routes(parts.endpoints)
        if parts.api_key is not None:
            self.add_middleware(BearerAuth, api_key=parts.api_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        # `/health` takes the long way: a runner's bootstrap adds its headers there.
        direct = scope["type"] == "http" and scope["path"] != "/health" and not scope.get("root_path")
        if direct and not self.user_middleware and (endpoint := self._endpoints.find(scope)) is not None:
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


def _routes(endpoints: RolloutEndpoints) -> list[Route]:
    """Most often used first."""
    fixed = [_route(path, method, endpoint) for (method, path), endpoint in endpoints.fixed.items()]
    return [_route("/rollout/{rollout_id}/result", "GET", endpoints.result_endpoint), *fixed]


def _route(path: str, method: str, endpoint: Endpoint) -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # Starlette adds HEAD to GET; the protocol has none.
    return route
