"""Calls through a real bridge to a real server on loopback, not streamed (E30-E34, contract sections 8.1 to 8.5)."""

from __future__ import annotations

import asyncio
import base64
import json
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from osmosis.pure.errors import OsmosisError
from osmosis.pure.redaction import Redactor
from osmosis.pure.usage import CallUsage
from tests.integration.stub_provider import (
    KEY,
    PATIENCE,
    TOKEN,
    answers,
    bridged,
    completion,
    deaf_port,
    raw_server,
    serving,
)

QUESTION = {"model": "asked", "messages": [{"role": "user", "content": "2+2?"}]}


async def test_a_request_arrives_as_it_was_sent():
    """Unknown fields, tools, images and odd spellings reach the provider byte for byte, from both places; `model` is ours."""
    body = (
        b'{"model":"asked","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}],'
        b'"temperature":1.50,"reasoning":{"effort":"low"},"tools":[{"type":"function"}],"new_in_2027":"\\u00e9",'
        b'"extra_body":{"provider":{"order":["a"]},"reasoning":{"max_tokens": 9}}}'
    )
    async with serving(answers()) as stub, bridged(stub.url) as front:
        assert (await front.ask(body))[0] == 200
    sent = stub.seen[0]
    assert sent.path == "/v1/chat/completions"
    for part in (b'"temperature":1.50', b'"new_in_2027":"\\u00e9"', b'"reasoning":{"max_tokens": 9}', b'{"url":"data:,x"}'):
        assert part in sent.body
    assert sent.json["model"] == "real-1"
    assert sent.json["provider"] == {"order": ["a"]}
    assert "extra_body" not in sent.json


async def test_only_our_own_headers_go_upstream():
    """The provider gets its key, not the run's token, and nothing else of what the client sent along."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        await front.ask(QUESTION, headers={"X-Private": "1", "Cookie": "a=b", "OpenAI-Organization": "o"})
    headers = {name.lower(): value for name, value in stub.seen[0].headers.items()}
    assert headers["authorization"] == f"Bearer {KEY}"
    assert not headers.keys() & {"x-private", "cookie", "openai-organization"}
    assert TOKEN not in str(headers)


async def test_an_answer_arrives_as_it_was_given():
    """Reasoning, logprobs, token details and fields nobody knows yet reach the client; `model` is what it asked for."""
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 1},
        "cost": 1e-5,
    }
    answer = completion(usage=usage, provider="x", system_fingerprint="f")
    answer["choices"][0]["message"]["reasoning_content"] = "hm"
    async with serving(answers(answer)) as stub, bridged(stub.url) as front:
        status, body = await front.ask(QUESTION)
        assert (status, json.loads(body)) == (200, {**answer, "model": "asked"})
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 9),)


async def test_whoever_asks_hears_of_every_failed_call():
    """What a rollout gets instead of a completion is told with its id, its status and a cause without secrets."""

    async def refuse(*_):
        return web.json_response({"error": {"message": f"no credit left on {KEY}"}}, status=402)

    async with serving(refuse) as stub, bridged(stub.url) as front:
        assert (await front.ask(QUESTION))[0] == 402
        assert (await front.ask(b"no json"))[0] == 400
        assert (await front.ask({**QUESTION, "api_key": "x"}))[0] == 400
    heard = front.failed
    assert [(rollout, status) for rollout, status, _ in heard] == [("r", 402), ("r", 400), ("r", 400)]
    assert "no credit left" in heard[0][2]
    assert KEY not in str(heard)
    assert "api_key" in heard[2][2]


async def test_calls_that_fail_are_told_to_the_last_listener_alone():
    """There is one way to listen, `report_to`: a new listener hears of everything from then on, the one before of nothing."""
    rejected: list[str] = []
    failed: list[tuple[str, int, str]] = []
    async with serving(answers(b"no", 401)) as stub, bridged(stub.url) as front:
        front.bridge.report_to(on_provider_rejected=rejected.append, on_call_failed=lambda *told: failed.append(told))
        await front.ask(QUESTION)
    assert (len(rejected), len(failed)) == (1, 1)
    assert (front.rejected, front.failed) == ([], [])


async def test_without_a_model_the_configured_one_is_echoed():
    """A client that names no model is answered with the configured path."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        _, body = await front.ask({"messages": []})
    assert json.loads(body)["model"] == "openai/real-1"


@pytest.mark.parametrize(
    ("method", "path", "token", "status", "detail"),
    [
        ("POST", "/", TOKEN, 404, "Not Found"),
        ("GET", "/v1/models", TOKEN, 404, "Not Found"),
        ("POST", "/v1/rollouts/r/responses", TOKEN, 404, "Not Found"),
        ("GET", "/v1/rollouts/r/chat/completions", TOKEN, 405, "Method Not Allowed"),
        ("POST", "/v1/rollouts/r/chat/completions", "wrong", 401, "Unauthorized"),
        ("POST", "/v1/rollouts/a%2Fb/chat/completions", TOKEN, 422, "invalid rollout_id"),
        ("POST", "/v1/rollouts/stranger/chat/completions", TOKEN, 404, "unknown rollout_id"),
        ("POST", "/v1/rollouts/r/chat/completions", TOKEN, 400, "invalid body"),
    ],
)
async def test_what_is_turned_away(method, path, token, status, detail):
    """Each kind of stranger gets the contract's status and body, and no call is made for it."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        base = front.bridge.chat_completions_url("r").partition("/v1/")[0]
        headers = {"Authorization": f"Bearer {token}"}
        async with front.session.request(method, base + path, data=b"[1]", headers=headers) as response:
            assert (response.status, await response.json()) == (status, {"detail": detail})
            assert response.headers.get("Allow") == ("POST" if status == 405 else None)
    assert stub.seen == []


async def test_a_refused_request_costs_nothing():
    """A request with control fields is refused with all of them named, in the OpenAI error shape, before any call."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        status, body = await front.ask({**QUESTION, "api_base": "http://evil", "extra_body": {"_x": 1}, "n": 2})
    error = json.loads(body)
    assert status == 400
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["code"] == 400
    assert error["detail"] == error["error"]["message"]
    assert "api_base, extra_body._x" in error["detail"]
    assert stub.seen == []


@pytest.mark.parametrize("provider_status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 529])
async def test_provider_errors_keep_their_status_and_words(provider_status):
    """4xx comes back as it is, with `Retry-After` where there is one; everything else is 502. The reason is readable."""
    refusal = {"error": {"message": "the reason", "param": "x"}}
    async with (
        serving(answers(refusal, provider_status, {"Retry-After": "17"})) as stub,
        bridged(stub.url) as front,
        front.post(QUESTION) as response,
    ):
        error = await response.json()
        assert response.status == (provider_status if provider_status < 500 else 502)
        assert response.headers["Retry-After"] == "17"
        assert "the reason" in error["error"]["message"]
        assert error["error"]["code"] == response.status
        assert front.bridge.take_usage("r") is None


@pytest.mark.parametrize(
    "script",
    [
        b"",
        b"\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_provider_that_breaks_off_is_a_bad_gateway(script):
    """Whatever a provider does to the connection, the rollout gets 502 with a sentence, and nothing is counted."""
    async with raw_server(script) as (url, _), bridged(url) as front:
        status, body = await front.ask(QUESTION)
        assert status == 502
        assert json.loads(body)["error"]["type"] == "bridge_error"
        assert json.loads(body)["detail"]
        assert front.bridge.take_usage("r") is None


async def test_an_unreachable_provider_is_a_bad_gateway():
    """A refused connection is 502 and names host and port."""
    with deaf_port() as port:
        async with bridged(f"http://127.0.0.1:{port}/v1") as front:
            status, body = await front.ask(QUESTION)
    assert status == 502
    assert f"127.0.0.1:{port}" in json.loads(body)["detail"]


async def test_redirects_are_not_followed():
    """A redirect is an error: following it would carry the key to another host."""
    async with serving(answers()) as elsewhere:
        location = {"Location": f"{elsewhere.url}/chat/completions"}
        async with serving(answers(b"moved", 307, location)) as stub, bridged(stub.url) as front:
            status, _ = await front.ask(QUESTION)
    assert status == 502
    assert elsewhere.seen == []


async def test_key_material_leaves_in_no_encoding():
    """Key, token and the run's secrets are taken out of provider errors: raw, URL-encoded, JSON-escaped and base64."""
    key = 'sk-"quoted"/and+more=0123456789'
    secret = "the run's own secret"
    echo = " ".join(
        form
        for value in (key, TOKEN, secret)
        for form in (value, quote(value, safe=""), json.dumps(value), base64.b64encode(value.encode()).decode())
    )
    refusal = {"error": {"message": f"bad key: {echo}"}}
    async with serving(answers(refusal, 400)) as stub, bridged(stub.url, key=key, redactor=Redactor([secret])) as front:
        _, body = await front.ask(QUESTION)
    text = body.decode()
    assert "[REDACTED]" in text
    for value in (key, TOKEN, secret):
        for form in (value, quote(value, safe=""), json.dumps(value)[1:-1], base64.b64encode(value.encode()).decode()):
            assert form not in text
            assert json.dumps(form)[1:-1] not in text


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_key_is_reported_once(status):
    """The run hears of a rejected key once, with host, model and variable, however many calls meet it, and never the key."""
    async with serving(answers({"error": f"no {KEY}"}, status)) as stub, bridged(stub.url) as front:
        assert {(await front.ask(QUESTION))[0] for _ in range(3)} == {status}
        assert len(front.rejected) == 1
    assert "OPENAI_API_KEY" in front.rejected[0]
    assert "openai/real-1" in front.rejected[0]
    assert KEY not in front.rejected[0]


async def test_usage_is_kept_per_call_and_taken_once():
    """Each call that reports usage is one entry, in order; none reported is None, not zero; taking it ends the rollout."""
    usages = [{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}, None, {"input_tokens": 4, "output_tokens": 2}]
    told = iter(usages)

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        return web.json_response(completion(usage=next(told)))

    async with serving(answer) as stub, bridged(stub.url) as front:
        front.bridge.register("quiet", 0, 0)
        for _ in usages:
            await front.ask(QUESTION)
        assert front.bridge.take_usage("r") == (CallUsage(10, 1, 11), CallUsage(4, 2, 6))
        assert front.bridge.take_usage("r") is None
        assert front.bridge.take_usage("quiet") is None
        assert (await front.ask(QUESTION))[0] == 404


async def test_a_client_that_hangs_up_cancels_its_call():
    """When the rollout goes away, the provider's call goes with it, and the bridge keeps nothing in flight."""
    reached = asyncio.Event()

    async def answer(_: web.BaseRequest, __: bytes) -> web.StreamResponse:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(answer) as stub, bridged(stub.url) as front:
        call = asyncio.create_task(front.ask(QUESTION))
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
            assert front.bridge.calls_in_flight == 1
            call.cancel()
            await stub.wait_abandoned()
        assert front.bridge.calls_in_flight == 0


@pytest.mark.parametrize("end", ["cancel", "take_usage", "stop", "stop at once"])
async def test_calls_in_flight_end_with_their_rollout(end):
    """Cancelling or settling a rollout, or stopping the bridge, cuts a slow call at once on both sides."""
    reached = asyncio.Event()

    async def answer(_: web.BaseRequest, __: bytes) -> web.StreamResponse:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(answer) as stub, bridged(stub.url) as front:
        call = asyncio.create_task(front.ask(QUESTION))
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
            if end.startswith("stop"):
                await front.bridge.stop(2.0 if end == "stop" else 0.0)
            else:
                getattr(front.bridge, end)("r")
            await stub.wait_abandoned()
            with pytest.raises(aiohttp.ClientError):
                await call


async def test_a_cancelled_rollout_keeps_its_usage_and_is_served_no_more():
    """What was spent before the cancel still counts; calls after it are turned away."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        await front.ask(QUESTION)
        front.bridge.cancel("r")
        assert (await front.ask(QUESTION))[0] == 404
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)
    assert len(stub.seen) == 1


async def test_long_bodies_pass_and_longer_ones_are_refused():
    """Megabytes go both ways unharmed; a request over the limit is 413 and reaches nobody."""
    async with serving(answers(completion("x" * 5_000_000))) as stub, bridged(stub.url, request_limit=6_000_000) as front:
        status, body = await front.ask({"messages": [{"role": "user", "content": "y" * 5_000_000}]})
        assert (status, len(json.loads(body)["choices"][0]["message"]["content"])) == (200, 5_000_000)
        assert len(stub.seen[0].json["messages"][0]["content"]) == 5_000_000
        assert (await front.ask({"messages": "z" * 6_000_000}))[0] == 413
        assert len(stub.seen) == 1
        assert (await front.ask(QUESTION))[0] == 200


async def test_clients_that_ask_before_sending_are_answered():
    """`Expect: 100-continue` is honoured, so that no client waits for its own patience to run out."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        assert (await front.ask(QUESTION, expect100=True))[0] == 200


OK = json.dumps(completion()).encode()
GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(OK), OK)
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("scripts", "status", "tries"),
    [
        ([BUSY, GOOD], 200, 2),
        ([b"", GOOD], 200, 2),
        ([BUSY, b"", GOOD], 200, 3),
        ([BUSY], 502, 3),
        ([BUSY.replace(b"503", b"400"), GOOD], 400, 1),
        ([BUSY.replace(b"503", b"429").replace(b"close", b"close\r\nRetry-After: 3600"), GOOD], 429, 1),
        ([BUSY.replace(b"503", b"429").replace(b"close", b"close\r\nRetry-After: 0"), GOOD], 200, 2),
        ([GOOD[:-1], GOOD], 502, 1),
    ],
)
async def test_only_unanswered_calls_are_tried_again(scripts, status, tries):
    """A busy or vanished provider is asked again within bounds; refusals, long waits and begun answers are final."""
    async with raw_server(*scripts) as (url, requests), bridged(url, backoff=(0.0, 0.0)) as front:
        assert (await front.ask(QUESTION))[0] == status
    assert len(requests) == tries
    assert len({request.partition(b"\r\n\r\n")[2] for request in requests}) == 1


async def test_a_taken_port_is_a_clear_error():
    """A port that somebody else holds is named, and the command can say what to do."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        port = int(front.bridge.chat_completions_url("r").split(":")[2].split("/")[0])
        async with bridged(stub.url) as other:
            await other.bridge.stop()
            with pytest.raises(OsmosisError, match=str(port)):
                await other.bridge.start(port)


async def test_stopping_twice_is_harmless():
    """Every way out of a run may stop the bridge; the second time nothing happens, and nobody is served any more."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        await front.ask(QUESTION)
        await front.bridge.stop()
        await front.bridge.stop()
        with pytest.raises(OSError, match=r"(?i)connect"):
            await front.ask(QUESTION)


async def test_many_calls_at_once_are_counted_exactly():
    """200 calls of 20 rollouts in flight together: each rollout's usage is its own."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        names = [f"rollout {index}" for index in range(20)]
        for index, name in enumerate(names):
            front.bridge.register(name, index, 0)
        results = await asyncio.gather(*(front.ask(QUESTION, name) for name in names for _ in range(10)))
        assert {status for status, _ in results} == {200}
        assert [front.bridge.take_usage(name) for name in names] == [(CallUsage(3, 2, 5),) * 10] * 20
