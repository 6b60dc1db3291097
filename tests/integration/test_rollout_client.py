"""The documented client against a server that misbehaves on purpose (rollout_protocol section 8)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from osmosis.shell.rollout.client import RolloutAdmissionTimeoutError, RolloutClient, RolloutProtocolError
from tests.integration.rollout_server_process import rollout_server
from tests.integration.stub_provider import talking

ADMITTED = {
    "rollout_id": "r",
    "status": "queued",
    "polling_lease_token": "token",
    "result_wait_timeout_sec": 1.0,
    "polling_lease_timeout_sec": 60.0,
}
RUNNING = {"rollout_id": "r", "status": "running", "sample": None, "err_message": None, "err_category": None}
DONE = {**RUNNING, "status": "success"}


Answer = tuple[Any, ...]


class Script:
    """A server that gives prepared answers, one a request, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.requests = []
        self.url = ""

    async def serve(self, reader, writer):
        """One connection, one request."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((lines[0].rsplit(" ", 1)[0], headers, body))
        answer = self.answers.popleft() if self.answers else (500, "nothing left")
        if answer is not None:
            status, content, *more = answer
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            extra = "".join(f"{name}: {value}\r\n" for name, value in (more[0] if more else {}).items())
            writer.write(f"HTTP/1.1 {status} X\r\n{extra}content-length: {len(data)}\r\n".encode())
            writer.write(b"connection: close\r\n\r\n" + data)
            await writer.drain()


@asynccontextmanager
async def scripted(*answers, **options):
    """A scripted server and a client for it."""
    script = Script(*answers)
    async with talking(script.serve) as port:
        script.url = f"http://127.0.0.1:{port}"
        async with RolloutClient(url=script.url + "/", **options) as client:
            yield script, client


async def run(client, **more):
    """One rollout."""
    return await client.run_rollout([], "http://c", "r", **more)


async def test_a_rollout_from_start_to_end():
    """The body has every field, nulls included; polls carry the lease and follow each other at once."""
    async with scripted((202, ADMITTED), (200, RUNNING), (200, DONE), api_key="k") as (script, client):
        result = await run(client)
    assert result.status == "success"
    assert [line for line, _, _ in script.requests] == ["POST /rollout", "GET /rollout/r/result", "GET /rollout/r/result"]
    assert json.loads(script.requests[0][2]) == {
        "initial_messages": [],
        "label": None,
        "metadata": None,
        "rollout_id": "r",
        "chat_completions_url": "http://c",
        "llm_api_key": None,
        "grade": True,
        "agent_timeout_sec": None,
        "grader_timeout_sec": None,
        "extra_fields": None,
    }
    assert script.requests[1][1]["x-osmosis-rollout-lease"] == "token"
    assert {headers["authorization"] for _, headers, _ in script.requests} == {"Bearer k"}


async def test_a_full_server_is_asked_again():
    """After the time it names."""
    busy: Answer = (429, {}, {"retry-after": "0.05"})
    async with scripted(busy, busy, (202, ADMITTED), (200, DONE)) as (script, client):
        await run(client)
    assert len(script.requests) == 4


async def test_admission_is_bounded():
    """Waiting for a place counts."""
    busy: Answer = (429, {}, {"retry-after": "60"})
    async with scripted(busy, admission_timeout_sec=0.05) as (_, client):
        with pytest.raises(RolloutAdmissionTimeoutError):
            await run(client)


@pytest.mark.parametrize(
    "answer",
    [
        (200, ADMITTED),
        (409, {"detail": "rollout_id is already registered"}),
        (503, {}),
        (307, {}, {"location": "http://127.0.0.1:9/"}),
        (202, b"{"),
        (202, {**ADMITTED, "rollout_id": "other"}),
        (202, {**ADMITTED, "polling_lease_token": ""}),
        (202, {**ADMITTED, "polling_lease_timeout_sec": 1.0}),
    ],
)
async def test_admissions_that_are_none(answer):
    """Anything but a 202 that makes sense and speaks of our rollout; redirects are not followed."""
    async with scripted(answer) as (script, client):
        with pytest.raises(RolloutProtocolError) as caught:
            await run(client)
    assert caught.value.status_code == answer[0]
    assert len(script.requests) == 1


@pytest.mark.parametrize("trouble", [(502, {}), (503, {}), (504, {}), None])
async def test_passing_trouble_between_polls(trouble):
    """Gateways that fail and connections that break are tried again."""
    async with scripted((202, ADMITTED), trouble, (200, DONE)) as (_, client):
        assert (await run(client)).status == "success"


@pytest.mark.parametrize(
    "answer",
    [(404, {"detail": "unknown rollout_id"}), (500, {}), (200, b"nonsense"), (200, {**DONE, "rollout_id": "other"})],
)
async def test_polls_that_end_it(answer):
    """No such rollout, a crash, nonsense, another rollout's result."""
    async with scripted((202, ADMITTED), answer) as (_, client):
        with pytest.raises(RolloutProtocolError) as caught:
            await run(client)
    assert caught.value.status_code == answer[0]


async def test_no_retry_beyond_the_lease():
    """With a lease that a retry could not be answered in, the trouble is raised at once."""
    short = {**ADMITTED, "polling_lease_timeout_sec": 5.0}
    async with scripted((202, short), (502, {})) as (script, client):
        with pytest.raises(RolloutProtocolError) as caught:
            await run(client)
    assert caught.value.status_code == 502
    assert len(script.requests) == 2


async def test_an_unknown_status_is_not_asked_for_in_a_busy_loop():
    """A server that lost track gets the gateway's patience, then we give up."""
    short = {**ADMITTED, "polling_lease_timeout_sec": 11.3}
    unknown = (200, {**RUNNING, "status": "unknown"})
    async with scripted((202, short), *[unknown] * 50) as (script, client):
        with pytest.raises(RolloutProtocolError):
            await run(client)
    assert len(script.requests) <= 4


@pytest.mark.parametrize("answer", [(500, {}), (200, []), (200, b"{")])
async def test_health_that_is_none(answer):
    """Only a JSON object with status 200 will do."""
    async with scripted(answer) as (_, client):
        with pytest.raises(RolloutProtocolError) as caught:
            await client.health()
    assert caught.value.status_code == answer[0]


def report(active, process_id="p"):
    """A health report."""
    return (200, {"process_id": process_id, "lifecycle": {"accepting_rollouts": True, "active_rollouts": active}})


async def test_wait_idle():
    """Until nothing is active, through passing trouble."""
    async with scripted(report(2), (503, {}), (429, {}), None, report(1), report(0)) as (_, client):
        assert (await client.wait_idle(poll_interval_sec=0))["lifecycle"]["active_rollouts"] == 0


@pytest.mark.parametrize(
    "answers",
    [
        [report(1), report(0, "q")],
        [(200, {"process_id": "p"})],
        [(200, {"lifecycle": {"active_rollouts": 0}})],
        [(404, {})],
    ],
)
async def test_wait_idle_on_another_server(answers):
    """A server that was replaced, or reports no lifecycle, is not the one that was to become idle."""
    async with scripted(*answers) as (_, client):
        with pytest.raises(RolloutProtocolError):
            await client.wait_idle(poll_interval_sec=0)


@pytest.mark.parametrize("options", [{"admission_timeout_sec": float("inf")}, {"api_key": "  "}])
def test_options_that_make_no_sense(options):
    """Are refused when the client is made."""
    with pytest.raises(ValueError, match="must"):
        RolloutClient(url="http://x", **options)


async def test_a_borrowed_http_client_stays_open():
    """Who made it closes it."""
    async with httpx.AsyncClient() as http:
        await RolloutClient(url="http://x", http_client=http).aclose()
        assert not http.is_closed


async def test_a_handle_follows_a_real_server(tmp_path):
    """Admission, cancellation and the final response, through a server process; ids are percent-encoded."""
    with rollout_server(tmp_path) as server:
        async with RolloutClient(url=server.url) as client:
            handle = await client.run_rollout_async([], "http://c", "a?b#c", metadata={"behave": "hang"})
            assert (handle.status, handle.done()) == ("queued", False)
            answer = await client.cancel_rollout("a?b#c")
            assert answer.dispositions == {"a?b#c": "cancelled_running"}
            result = await handle
            assert result.status == "cancelled"
            assert handle.polling_finished
            assert handle.latest_result == result
            assert await handle.wait_for_grading() == "cancelled"
            assert (await client.wait_idle(poll_interval_sec=0))["lifecycle"]["active_rollouts"] == 0


async def test_stopping_to_poll():
    """Cancelling a handle stops the polling and nothing else."""
    async with scripted((202, ADMITTED)) as (script, client):
        handle = await client.run_rollout_async([], "http://c", "r")
        assert handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle.wait_for_completion()
        assert handle.done()
    assert not any("cancel" in line for line, _, _ in script.requests)
