"""Calls in flight at a provider, repeated calls, kept-alive answers and refused options, over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import openai
import pytest
from aiohttp import web

from osmosis.pure.concurrency import START
from osmosis.shell.bridge.gate import Gate
from osmosis.shell.bridge.repeats import Repeats, WholeAnswer
from tests.integration.stub_provider import PATIENCE, STREAM, TOKEN, answers, bridged, compact, completion, serving, streams

QUESTION = {"model": "asked", "messages": [{"role": "user", "content": "2+2?"}]}
FIRST, AGAIN = {"x-stainless-retry-count": "0"}, {"x-stainless-retry-count": "1"}


class Crowd:
    """A provider that answers when it is told to, and remembers how many calls it ever had at once."""

    def __init__(self, *, limit=10**9):
        self.now = self.most = self.refusals = 0
        self.limit = limit
        self.arrived = asyncio.Condition()
        self.go_on = asyncio.Event()

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if self.now >= self.limit:
            self.refusals += 1
            self.go_on.set()
            return await answers({"error": {"message": "too many"}}, 429)(request, body)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            async with self.arrived:
                self.arrived.notify_all()
            await self.go_on.wait()
            return await answers()(request, body)
        finally:
            self.now -= 1

    async def wait_for(self, calls: int) -> None:
        """Wait until that many calls are there at once."""
        async with asyncio.timeout(PATIENCE), self.arrived:
            await self.arrived.wait_for(lambda: self.now >= calls)


async def test_it_starts_low_and_rises():
    """The provider gets a few calls at first; of 40 all are answered, and by then more may be out at once.

    While nobody waits, time changes nothing.
    """
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url) as front:
        calls = [asyncio.create_task(front.ask(QUESTION)) for _ in range(START)]
        await crowd.wait_for(START)
        assert front.bridge.calls_at_provider == (START, START)
        calls += [asyncio.create_task(front.ask(QUESTION)) for _ in range(40 - START)]
        crowd.go_on.set()
        assert {status for status, _ in await asyncio.gather(*calls)} == {200}
        in_flight, limit = front.bridge.calls_at_provider
    assert in_flight == 0
    assert limit > START


async def test_slow_answers_do_not_keep_it_small():
    """A provider that refuses nothing gets more calls although it has not answered one yet."""
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url) as front:
        calls = [asyncio.create_task(front.ask(QUESTION)) for _ in range(2 * START)]
        await crowd.wait_for(2 * START)
        crowd.go_on.set()
        await asyncio.gather(*calls)


async def test_max_in_flight_is_the_ceiling():
    """However healthy the provider, it never has more calls at once than the person allowed."""
    crowd = Crowd()
    crowd.go_on.set()
    async with serving(crowd.answer) as stub, bridged(stub.url, max_in_flight=3) as front:
        answered = await asyncio.gather(*(front.ask(QUESTION) for _ in range(60)))
    assert {status for status, _ in answered} == {200}
    assert crowd.most <= 3


async def test_a_storm_of_refusals_is_weathered():
    """A provider that takes 4 calls at once and refuses the rest is asked less, and in the end everybody is answered."""
    crowd = Crowd(limit=4)
    async with serving(crowd.answer) as stub, bridged(stub.url, backoff=(0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)) as front:
        answered = await asyncio.gather(*(front.ask(QUESTION) for _ in range(80)))
        in_flight, limit = front.bridge.calls_at_provider
        usage = front.bridge.take_usage("r")
    assert {status for status, _ in answered} == {200}
    assert crowd.refusals > 0
    assert (in_flight, len(usage or ())) == (0, 80)
    assert limit >= 1


async def test_leaving_all_at_once_does_no_harm():
    """Waiters that are cancelled in one go, while places become free, neither fail nor take a place with them."""
    gate = Gate(2)
    await gate.enter()
    await gate.enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(20)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    gate.leave(healthy=True)
    gate.leave(healthy=True)
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in ended} == {asyncio.CancelledError}
    assert (gate.in_flight, gate.waiting) == (0, 0)
    gate.close()


async def test_a_cancelled_wait_gives_its_place_on():
    """Whoever leaves while waiting, or in the moment of being let in, takes no place away from others."""
    gate = Gate(1)
    await gate.enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.leave(healthy=True)
    waiting[1].cancel()
    async with asyncio.timeout(PATIENCE):
        await waiting[2]
    assert (gate.in_flight, gate.waiting) == (1, 0)
    gate.leave(healthy=False)
    assert gate.in_flight == 0
    gate.close()


# --- Repetitions -----------------------------------------------------------------------------------------------------------


async def test_a_repetition_takes_the_answer_that_was_lost():
    """An SDK's repetition of a call whose answer was sent gets that answer; the provider is asked once, usage counts once."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        first = await front.ask(QUESTION, headers=FIRST)
        again = await front.ask(QUESTION, headers=AGAIN)
        assert again == first
        assert len(front.bridge.take_usage("r") or ()) == 1
    assert len(stub.seen) == 1


async def test_a_repetition_joins_the_call_that_still_runs():
    """A client that gives up before the answer and comes back finds its call still running."""
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url) as front:
        first = asyncio.create_task(front.ask(QUESTION, headers=FIRST))
        await crowd.wait_for(1)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        again = asyncio.create_task(front.ask(QUESTION, headers=AGAIN))
        crowd.go_on.set()
        async with asyncio.timeout(PATIENCE):
            status, _ = await again
        assert status == 200
        assert len(front.bridge.take_usage("r") or ()) == 1
    assert len(stub.seen) == 1


async def test_a_call_that_outlives_its_client_is_one_call():
    """Whoever counts calls in flight counts the provider's: with its client, without it, and taken up by the next one."""
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url) as front, asyncio.timeout(PATIENCE):
        counts = [front.bridge.calls_in_flight]
        first = asyncio.create_task(front.ask(QUESTION, headers=FIRST))
        await crowd.wait_for(1)
        counts.append(front.bridge.calls_in_flight)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        again = asyncio.create_task(front.ask(QUESTION, headers=AGAIN))
        other = asyncio.create_task(front.ask({**QUESTION, "seed": 1}, headers=FIRST))
        await crowd.wait_for(2)
        counts.append(front.bridge.calls_in_flight)
        crowd.go_on.set()
        await asyncio.gather(again, other)
        counts.append(front.bridge.calls_in_flight)
    assert counts == [0, 1, 2, 0]


async def test_the_openai_client_does_not_buy_twice():
    """The real client, which times out and repeats by itself, costs one completion."""
    release = asyncio.Event()

    async def slow(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        await release.wait()
        return await answers()(request, body)

    async with serving(slow) as stub, bridged(stub.url) as front:
        url = front.bridge.chat_completions_url("r")
        tries: list[str] = []

        async def before_each(request: Any) -> None:
            tries.append(request.headers["x-stainless-retry-count"])
            if len(tries) == 2:
                # Only the first try is in vain: a slow machine may take its time to answer the second.
                request.extensions["timeout"] = dict.fromkeys(request.extensions["timeout"], PATIENCE)
                release.set()

        transport: Any = openai.DefaultAsyncHttpxClient(event_hooks={"request": [before_each]})
        async with openai.AsyncOpenAI(base_url=url, api_key=TOKEN, timeout=0.5, max_retries=3, http_client=transport) as client:
            answer = await client.chat.completions.create(model="asked", messages=[{"role": "user", "content": "2+2?"}])
    assert answer.choices[0].message.content == "4"
    assert tries == ["0", "1"]
    assert len(stub.seen) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((QUESTION, FIRST), (QUESTION, FIRST)),
        ((QUESTION, {}), (QUESTION, {})),
        ((QUESTION, FIRST), ({**QUESTION, "seed": 1}, AGAIN)),
        ((QUESTION, FIRST), ({**QUESTION, "model": "other"}, AGAIN)),
    ],
    ids=["a new call", "another client", "another question", "another name"],
)
async def test_what_is_no_repetition_is_a_new_call(first, second):
    """Equal calls that a rollout makes on purpose, and calls that only resemble each other, are each asked."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        for body, headers in (first, second):
            assert (await front.ask(body, headers=headers))[0] == 200
    assert len(stub.seen) == 2


async def test_a_repetition_after_an_error_is_a_new_call():
    """Of two equal calls one succeeds and one fails; the repetition of the failed one does not get the other's answer."""
    replies = iter([answers(), answers({"error": {"message": "no"}}, 500), answers(completion("5"))])

    async def one_after_the_other(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        return await next(replies)(request, body)

    async with serving(one_after_the_other) as stub, bridged(stub.url) as front:
        assert (await front.ask(QUESTION, headers=FIRST))[0] == 200
        assert (await front.ask(QUESTION, headers=FIRST))[0] == 502
        _, body = await front.ask(QUESTION, headers=AGAIN)
    assert json.loads(body)["choices"][0]["message"]["content"] == "5"
    assert len(stub.seen) == 3


async def test_a_call_that_nobody_comes_back_for_ends():
    """A call that runs on without its client is given up after a while, and its connection with it."""
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url, hold_seconds=0.05) as front:
        call = asyncio.create_task(front.ask(QUESTION, headers=FIRST))
        await crowd.wait_for(1)
        call.cancel()
        await stub.wait_abandoned()
        assert front.bridge.take_usage("r") is None


async def test_calls_without_a_client_end_with_their_rollout():
    """Taking a rollout's usage ends every call of it, also those that only a repetition could still want."""
    crowd = Crowd()
    async with serving(crowd.answer) as stub, bridged(stub.url, hold_seconds=60) as front:
        call = asyncio.create_task(front.ask(QUESTION, headers=FIRST))
        await crowd.wait_for(1)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        front.bridge.take_usage("r")
        await stub.wait_abandoned()


def test_kept_answers_are_bounded():
    """A rollout that makes many calls does not keep them all, nor long ones."""
    repeats = Repeats()
    for index in range(100):
        repeats.sent(b"%d" % index, WholeAnswer(200, b"x"))
    repeats.sent(b"long", WholeAnswer(200, b"x" * 2**21))
    assert repeats.claim(b"0") is None
    assert repeats.claim(b"long") is None
    assert repeats.claim(b"99") == WholeAnswer(200, b"x")
    assert repeats.claim(b"99") is None


# --- Slow answers through a tunnel, and options that a provider refuses -----------------------------------------------------


@pytest.mark.parametrize(("reply", "status"), [(answers(), 200), (answers({"error": {"message": "no"}}, 400), 200)])
async def test_a_slow_whole_answer_is_kept_alive(reply, status):
    """Through a tunnel white space flows before the answer; what comes at last is JSON all the same, an error too."""
    release = asyncio.Event()

    async def slow(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        await release.wait()
        return await reply(request, body)

    async with serving(slow) as stub, bridged(stub.url) as front:
        local = front.bridge.chat_completions_url("r")
        front.bridge.advertise("https://public.test/", trickle_after=0.01)
        assert front.bridge.chat_completions_url("r").startswith("https://public.test/v1/rollouts/")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"{local}/chat/completions"
        async with asyncio.timeout(PATIENCE), front.session.post(url, json=QUESTION, headers=headers) as response:
            assert (response.status, response.content_type) == (status, "application/json")
            assert await response.content.readexactly(1) == b" "
            release.set()
            rest = json.loads(await response.read())
    assert "choices" in rest or "error" in rest


async def test_a_fast_answer_through_a_tunnel_keeps_its_status():
    """Nothing is committed before it is known, as long as the answer comes in time."""
    async with serving(answers({"error": {"message": "no"}}, 404)) as stub, bridged(stub.url) as front:
        local = front.bridge.chat_completions_url("r")
        front.bridge.advertise("https://public.test")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with front.session.post(f"{local}/chat/completions", json=QUESTION, headers=headers) as response:
            assert response.status == 404


async def test_a_provider_that_refuses_stream_options_is_asked_without():
    """What only the bridge asks for is taken back, once and for all; the stream then passes without usage."""
    accepted = streams(*[piece for piece in STREAM if b"usage" not in piece])

    async def picky(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        if "stream_options" in json.loads(body):
            return await answers({"error": {"message": "unknown field stream_options"}}, 400)(request, body)
        return await accepted(request, body)

    async with serving(picky) as stub, bridged(stub.url) as front:
        for _ in range(2):
            status, body = await front.ask({**QUESTION, "stream": True})
            assert (status, b"teen" in body) == (200, True)
        assert front.bridge.take_usage("r") is None
    assert ["stream_options" in seen.json for seen in stub.seen] == [True, False, False]


async def test_what_a_client_asks_for_is_never_taken_back():
    """A client's own stream_options that the provider refuses are its own business: it gets the refusal."""
    refusal = answers({"error": {"message": "unknown field stream_options"}}, 400)
    async with serving(refusal) as stub, bridged(stub.url) as front:
        status, body = await front.ask({**QUESTION, "stream": True, "stream_options": {"include_usage": True}})
    assert status == 400
    assert b"unknown field" in body
    assert len(stub.seen) == 1


async def test_another_refusal_of_a_stream_arrives_whole():
    """A 400 that has nothing to do with it is not asked again, and its words arrive."""
    async with serving(answers(compact({"error": {"message": "bad tool"}}), 400)) as stub, bridged(stub.url) as front:
        status, body = await front.ask({**QUESTION, "stream": True})
    assert (status, b"bad tool" in body, len(stub.seen)) == (400, True, 1)
