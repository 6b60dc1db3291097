"""The application around the hot routes: what the framework promises holds for them too."""

from __future__ import annotations

from typing import ClassVar

import httpx
import pytest

from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.server import create_rollout_server
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult
from osmosis.shell.rollout.types.protocol import RolloutStatus

BODY = {"initial_messages": [], "rollout_id": "r", "chat_completions_url": "http://127.0.0.1:9"}


class Instant(ExecutionBackend):
    """Ends at once."""

    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        """Success without a sample."""
        return ExecutionOutcome(workflow=ExecutionResult(status=RolloutStatus.SUCCESS))


class Counting:
    """Middleware that notes what passes."""

    seen: ClassVar[list[str]] = []

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        """Note, then pass on."""
        self.seen.append(f"{scope['method']} {scope['path']}")
        await self.app(scope, receive, send)


def talking_to(app):
    """A client of an application in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


@pytest.mark.parametrize("layered", [False, True])
async def test_the_hot_routes_answer_alike_with_and_without_middleware(layered):
    """Whoever adds middleware gets every request through it; whoever does not pays for none."""
    app = create_rollout_server(backend=Instant(), configure_logging=False)
    Counting.seen.clear()
    if layered:
        app.add_middleware(Counting)
    async with talking_to(app) as client:
        started = await client.post("/rollout", json=BODY)
        assert started.status_code == 202
        lease = {"X-Osmosis-Rollout-Lease": started.json()["polling_lease_token"]}
        result = await client.get("/rollout/r/result", headers=lease)
        while result.json()["status"] != "success":
            result = await client.get("/rollout/r/result", headers=lease)
        assert (await client.get("/rollout/r/result")).status_code == 422
        others = [("GET", "/rollout"), ("POST", "/rollout/r/result"), ("GET", "/rollout/r/result/more"), ("GET", "/rollouts")]
        statuses = [(await client.request(method, path)).status_code for method, path in others]
        assert statuses == [405, 405, 404, 404]
    assert ("POST /rollout" in Counting.seen) is layered
    assert ("GET /rollout/r/result" in Counting.seen) is layered


async def test_a_mounted_server_finds_its_routes():
    """Below the path of another application."""
    outer = create_rollout_server(backend=Instant(), configure_logging=False)
    inner = create_rollout_server(backend=Instant(), configure_logging=False)
    outer.mount("/inner", inner)
    async with talking_to(outer) as client:
        assert (await client.post("/inner/rollout", json=BODY)).status_code == 202
        assert (await client.get("/inner/rollout/r/result", headers={"X-Osmosis-Rollout-Lease": "x"})).status_code == 403
        assert (await client.get("/rollout/r/result", headers={"X-Osmosis-Rollout-Lease": "x"})).status_code == 404
