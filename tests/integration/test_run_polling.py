"""One rollout over the wire, as the runner drives it: which answers are waited for, repeated, refused (protocol section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from osmosis.pure.protocol import InitRequest, RolloutStatus
from osmosis.shell.evaluation.rollout_client import AdmissionRefused, RolloutClient, ServerUnreachable
from tests.integration.stub_provider import PATIENCE, serving

NAME = "a" * 32
LEASE = {"rollout_id": NAME, "status": "queued", "polling_lease_token": "the-token"}
ADMITTED = LEASE | {"result_wait_timeout_sec": 30.0, "polling_lease_timeout_sec": 120.0}
SUCCESS = {"rollout_id": NAME, "status": "success"}


class Server:
    """Answers in order; keeps what it was asked."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.leases: list[str | None] = []

    async def answer(self, request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        """The next answer: an exception hangs up, a pair is a status and a body or headers."""
        self.asked.append(f"{request.method} {request.path}")
        self.leases.append(request.headers.get("X-Osmosis-Rollout-Lease"))
        status, body = self.answers.pop(0)
        if status is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        headers = body if status == 429 else {}
        return web.Response(status=status, headers=headers, body=body if isinstance(body, bytes) else msgspec.json.encode(body))


@asynccontextmanager
async def driven(*answers: Any) -> AsyncIterator[tuple[RolloutClient, Server]]:
    """A client of a server with these answers."""
    server = Server(list(answers))
    async with serving(server.answer) as place, RolloutClient(place.url.removesuffix("/v1")) as client:
        yield client, server


def request() -> InitRequest:
    """What is asked for."""
    return InitRequest(initial_messages=[], rollout_id=NAME, chat_completions_url="http://bridge")


@pytest.mark.parametrize(
    "trouble",
    [
        [(200, {"rollout_id": NAME, "status": "running"})] * 3,
        [(502, b""), (503, b""), (504, b"")],
        [(None, b"")],
        [(200, {"rollout_id": NAME, "status": "unknown"})],
    ],
)
async def test_a_result_is_waited_for_through_passing_trouble(trouble):
    """Statuses on the way, gateways, a broken connection, a status that is not known: the lease goes along with each poll."""
    async with driven((202, ADMITTED), *trouble, (200, SUCCESS)) as (client, server):
        assert (await client.run(request())).status is RolloutStatus.SUCCESS
    assert server.asked[0] == "POST /rollout"
    assert set(server.asked[1:]) == {f"GET /rollout/{NAME}/result"}
    assert set(server.leases[1:]) == {"the-token"}


async def test_a_full_server_is_asked_again_after_the_time_it_names():
    """429 is a matter of patience."""
    async with driven((429, {"Retry-After": "0.05"}), (202, ADMITTED), (200, SUCCESS)) as (client, server):
        assert (await client.run(request())).status is RolloutStatus.SUCCESS
    assert server.asked.count("POST /rollout") == 2


async def test_a_refusal_is_final():
    """Any other 4xx, quoted."""
    async with driven((422, b"no such field")) as (client, _):
        with pytest.raises(AdmissionRefused, match="status 422: no such field"):
            await client.run(request())


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([(500, b"out of order")], "answered 500 to a new rollout: out of order"),
        ([(None, b"")], "does not take rollouts: the server closed the connection"),
        ([(202, b"[1, 2")], r"does not speak protocol 0\.4"),
        ([(202, ADMITTED | {"rollout_id": "b" * 32})], "instead of"),
        ([(202, ADMITTED | {"polling_lease_token": "a\r\nHost: elsewhere"})], "not a header value"),
        ([(202, ADMITTED), (200, b"[1, 2")], r"does not speak protocol 0\.4"),
        ([(202, ADMITTED), (404, b"unknown rollout_id")], "does not tell the result of a+: status 404"),
        (
            [(202, ADMITTED), *[(None, b"")] * 4],
            "does not tell the result of a+, asked 3 times: the server closed the connection",
        ),
    ],
)
async def test_a_server_that_makes_no_sense_is_out_of_reach(answers, reason):
    """With the reason; and nothing is asked of it any more."""
    async with driven(*answers) as (client, server):
        with pytest.raises(ServerUnreachable, match=reason):
            await client.run(request())
    assert not server.answers


async def test_a_kept_connection_that_closes_costs_no_rollout():
    """A server that was idle may close it just as the next rollout is sent: that is sent again, and its id is admitted once."""
    once = [(202, ADMITTED), (200, SUCCESS)]
    async with driven(*once, (None, b""), *once) as (client, server):
        for _ in range(2):
            assert (await client.run(request())).status is RolloutStatus.SUCCESS
    assert server.asked.count("POST /rollout") == 3
    async with driven(*once, (None, b""), (409, b"rollout_id is already registered")) as (client, server):
        await client.run(request())
        with pytest.raises(ServerUnreachable, match="instead of saying so"):
            await client.run(request())


async def test_a_cancellation_is_not_lost_with_its_connection():
    """It is sent again; else what was interrupted would be waited for."""
    async with driven((202, ADMITTED), (200, SUCCESS), (None, b""), (200, b"{}")) as (client, server):
        await client.run(request())
        await client.cancel(NAME)
    assert server.asked[2:] == ["POST /rollout/cancel"] * 2


async def test_cancelling_never_fails():
    """Whatever the server makes of it."""
    for answer in ((200, b"{}"), (500, b""), (None, b"")):
        async with driven(answer) as (client, server):
            await client.cancel(NAME)
        assert server.asked == ["POST /rollout/cancel"]


async def test_another_server_may_take_its_place():
    """After a restart questions go to the new address, and those to the old one have no answer."""
    asked, hold = asyncio.Event(), asyncio.Event()

    async def silent(_: web.BaseRequest, __: bytes) -> web.StreamResponse:
        asked.set()
        await hold.wait()
        return web.Response()

    async with serving(silent) as old, driven((202, ADMITTED), (200, SUCCESS)) as (client, _):
        new, client.url = client.url, old.url.removesuffix("/v1")
        waiting = asyncio.ensure_future(client.run(request()))
        await asyncio.wait_for(asked.wait(), PATIENCE)
        client.url = new
        with pytest.raises(ServerUnreachable, match="the client was closed"):
            await waiting
        assert (await client.run(request())).status is RolloutStatus.SUCCESS
        hold.set()
