"""Judgements beside the same calls through LiteLLM, against one stub (issue 7).

The stub has a process of its own. Both ways send the same prompts, at the same number in flight, and take turns; ratios are
those of one round. `litellm.acompletion` gets the messages ready made, from before the clock starts, and its replies are not
even parsed. `python -m benchmarks.judge_throughput` prints one turn of ours as JSON, for a test of what it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from aiohttp import web

from benchmarks.measuring import Finding, Options, in_turn, ratios, told
from osmosis.pure.rubric import Question, build_prompt
from osmosis_ai import evaluate_rubrics

RUBRIC = "Give 1.0 for a polite and correct answer, 0.0 for a rude or wrong one. " * 5
REPLY = json.dumps({"score": 0.85, "explanation": "polite and correct"})
USAGE = {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420}
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "stub",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}],
    "usage": USAGE,
}
MODEL = {"provider": "openai", "model": "stub", "api_key": "benchmark"}


class Stub:
    """Answers every request alike; knows how many there were and how many at once."""

    def __init__(self) -> None:
        self.calls = self.now = self.most = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Count one request and answer it."""
        if request.path == "/counts":
            counts = {"calls": self.calls, "most_in_flight": self.most}
            self.calls = self.most = 0
            return web.json_response(counts)
        self.now += 1
        self.most = max(self.most, self.now)
        await request.read()
        # Whatever else has arrived is counted before this one is answered.
        await asyncio.sleep(0)
        self.now -= 1
        self.calls += 1
        return web.Response(body=json.dumps(ANSWER).encode(), content_type="application/json")


def serve_stub(ready: Connection) -> None:
    """The process of the stub; its URL goes through `ready`, and it ends when that is closed."""

    async def serve() -> None:
        server = web.Server(Stub().handle, access_log=None)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)
        ready.send(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        with contextlib.suppress(EOFError):
            await asyncio.to_thread(ready.recv)
        listener.close()
        await server.shutdown(1)

    asyncio.run(serve())


def candidates(count: int) -> list[str]:
    """Texts to judge, all different."""
    return [f"Answer {number}: " + "word " * 200 for number in range(count)]


Way = Callable[[], Awaitable[dict[str, Any]]]
"""One turn, made ready."""


def by_osmosis(count: int, in_flight: int) -> Way:
    """The batch function, its prompts and replies included."""
    texts = candidates(count)

    async def turn() -> dict[str, Any]:
        batch = await evaluate_rubrics(RUBRIC, texts, MODEL, max_in_flight=in_flight)
        usage = batch.usage
        right = sum(score == 0.85 for score in batch.scores)
        return {"scores": right, "calls": usage.calls, "total_tokens": usage.total_tokens}

    return turn


def by_litellm(count: int, in_flight: int) -> Way:
    """`litellm.acompletion` with the same messages."""
    import litellm  # noqa: PLC0415 - after its switch was set

    slots = asyncio.Semaphore(in_flight)
    prompts = [build_prompt(Question(RUBRIC, text)) for text in candidates(count)]

    async def call(prompt: Any) -> int:
        async with slots:
            answer = await litellm.acompletion(
                model="openai/stub",
                messages=[{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
                api_base=os.environ["OPENAI_BASE_URL"],
                api_key="benchmark",
                temperature=0,
            )
            return int(answer.usage.total_tokens)

    async def turn() -> dict[str, Any]:
        tokens = await asyncio.gather(*map(call, prompts))
        return {"calls": len(tokens), "total_tokens": sum(tokens)}

    return turn


async def measured(way: Way, count: int, url: str) -> dict[str, Any]:
    """One turn of one way: what it counted, what the stub counted, and calls per second."""
    began = time.perf_counter()
    found = await way()
    seconds = time.perf_counter() - began
    return {**found, "stub": await stub_counts(url), "per_second": count / seconds}


async def stub_counts(url: str) -> Any:
    """What the stub counted since it was asked last."""
    import aiohttp  # noqa: PLC0415 - beside its one use

    async with aiohttp.ClientSession() as session, session.get(f"{url}/counts") as response:
        return await response.json()


async def memory_growth(in_flight: int, count: int) -> int:
    """Bytes at the peak of a batch of `count` drawn from a generator, beyond those before it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await evaluate_rubrics(RUBRIC, (text for text in candidates(count)), MODEL, max_in_flight=in_flight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before


async def one_turn(count: int, in_flight: int, url: str) -> dict[str, Any]:
    """What one batch of ours counts, and what it takes."""
    turn = await measured(by_osmosis(count, in_flight), count, url)
    return {"turn": turn, "peak_bytes": await memory_growth(in_flight, count)}


async def compared(count: int, in_flight: int, rounds: int, url: str) -> list[Finding]:
    """Both ways in turn, each warm."""
    ways = {"ours": by_osmosis, "LiteLLM": by_litellm}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for make in ways.values():
        await make(2 * in_flight, in_flight)()
    await stub_counts(url)
    for number in range(rounds):
        for name in in_turn(list(ways), number):
            turn = await measured(ways[name](count, in_flight), count, url)
            if turn["stub"]["calls"] != count:
                raise RuntimeError(f"{name} made {turn['stub']['calls']} calls for {count} judgements")
            rates[name].append(turn["per_second"])
    return [
        *(told(f"judgements a second, {in_flight} in flight: {name}", rates[name], "") for name in ways),
        told("judgements, times LiteLLM", ratios(rates["ours"], rates["LiteLLM"]), ""),
        told(f"memory of a batch of {count} beyond what it began with", [await memory_growth(in_flight, count) / 1e6], "MB"),
    ]


@contextlib.contextmanager
def stub() -> Iterator[str]:
    """The stub while the context lasts; its URL."""
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=serve_stub, args=(there,), daemon=True)
    child.start()
    there.close()
    url: str = here.recv()
    os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        yield url
    finally:
        here.close()
        child.join(20)


def measure(options: Options) -> list[Finding]:
    """Judgements a second, both ways."""
    with stub() as url:
        return asyncio.run(compared(1000, 32, options.rounds, url))


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--in-flight", type=int, default=32)
    given = parser.parse_args()
    with stub() as url:
        print(json.dumps(asyncio.run(one_turn(given.count, given.in_flight, url))))


if __name__ == "__main__":
    main()
