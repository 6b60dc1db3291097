"""The call before a run, against real servers and real absences of servers (E27)."""

from __future__ import annotations

import json

import pytest
from aiohttp import web

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.providers import Endpoint
from osmosis.shell.bridge import preflight
from tests.integration.stub_provider import KEY, answers, completion, deaf_port, raw_server, serving

PAUSES = (0.0, 0.0)


def endpoint(url: str) -> Endpoint:
    """The model under test at that base URL."""
    return Endpoint("openai", "real-1", url, "OPENAI_API_KEY", KEY)


async def test_a_model_that_answers_passes_with_one_small_call():
    """One call with the configured model and key, limited in length, and no other."""
    async with serving(answers()) as stub:
        await preflight(endpoint(stub.url))
    assert [seen.json["max_tokens"] for seen in stub.seen] == [256]
    assert stub.seen[0].json["model"] == "real-1"
    assert stub.seen[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("status", "code", "tries"),
    [
        (401, ErrorCode.AUTH_REQUIRED, 1),
        (403, ErrorCode.AUTH_REQUIRED, 1),
        (404, ErrorCode.NOT_FOUND, 1),
        (400, ErrorCode.VALIDATION, 3),
        (422, ErrorCode.VALIDATION, 3),
        (500, ErrorCode.NETWORK, 3),
        (503, ErrorCode.NETWORK, 3),
        (302, ErrorCode.VALIDATION, 1),
    ],
)
async def test_what_stops_a_run(status, code, tries):
    """Each refusal stops with host, model, the provider's redacted words and a next step; broken servers are asked thrice."""
    async with serving(answers({"error": {"message": f"no model for {KEY}"}}, status)) as stub:
        with pytest.raises(OsmosisError) as caught:
            await preflight(endpoint(stub.url), pauses=PAUSES)
    text = str(caught.value)
    assert caught.value.code is code
    assert "openai/real-1" in text
    assert stub.url.split("/")[2] in text
    assert "no model for [REDACTED]" in text
    assert KEY not in f"{text} {caught.value.hint} {caught.value.details}"
    assert len(stub.seen) == tries


async def test_a_busy_provider_passes():
    """A rate limit is waited for briefly and then left to the run."""
    async with serving(answers({"error": "slow down"}, 429)) as stub:
        await preflight(endpoint(stub.url), pauses=PAUSES)
    assert len(stub.seen) == 3


async def test_a_server_that_recovers_passes():
    """A 5xx that goes away within the pauses stops nothing."""
    statuses = iter([503, 500, 200])

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        return web.json_response(completion(), status=next(statuses))

    async with serving(answer) as stub:
        await preflight(endpoint(stub.url), pauses=PAUSES)


@pytest.mark.parametrize("takes", ["max_completion_tokens", None])
async def test_models_that_take_another_limit_pass(takes):
    """A model that refuses `max_tokens` is asked with the newer name, and then with none."""

    async def answer(_: web.BaseRequest, body: bytes) -> web.Response:
        limits = json.loads(body).keys() - {"model", "messages"}
        accepted = limits == ({takes} if takes else set())
        return web.json_response(completion() if accepted else {"error": "unsupported"}, status=200 if accepted else 400)

    async with serving(answer) as stub:
        await preflight(endpoint(stub.url), pauses=PAUSES)


async def test_a_refused_connection_stops():
    """Nobody listens: the run stops at once and says where it tried to connect."""
    with deaf_port() as port, pytest.raises(OsmosisError, match="cannot connect") as caught:
        await preflight(endpoint(url := f"http://127.0.0.1:{port}/v1"))
    assert caught.value.code is ErrorCode.NETWORK
    assert url in str(caught.value.hint)


async def test_an_unknown_host_stops():
    """A host name that does not exist is named (RFC 6761 reserves `.invalid` for it)."""
    with pytest.raises(OsmosisError, match=r"nowhere\.invalid"):
        await preflight(endpoint("http://nowhere.invalid/v1"))


@pytest.mark.parametrize("script", [b"", b"SSH-2.0-server\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"])
async def test_what_is_no_model_server_stops(script):
    """A port that speaks something else is found out before the run."""
    async with raw_server(script) as (url, _):
        with pytest.raises(OsmosisError, match=r"does not answer"):
            await preflight(endpoint(url), pauses=PAUSES)
