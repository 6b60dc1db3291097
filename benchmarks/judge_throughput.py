"""Judgements beside the same calls through LiteLLM, against one stub (issue 7): `python benchmarks/judge_throughput.py`.

The stub has a process of its own. Both ways send the same prompts, at the same number in flight, and$
take turns, and each is judged by its best turn, so that other work on the machine counts least. `litellm.acompletion` gets the
messages ready made and its replies are not even parsed. One JSON object is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from aiohttp import web

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


async def by_osmosis(count: int, in_flight: int) -> dict[str, Any]:
    """The batch function, its prompts and replies included."""
    batch = await evaluate_rubrics(RUBRIC, candidates(count), MODEL, max_in_flight=in_flight)
    usage = batch.usage
    return {"scores": sum(score == 0.85 for score in batch.scores), "calls": usage.calls, "total_tokens": usage.total_tokens}


async def by_litellm(count: int, in_flight: int) -> dict[str, Any]:
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

    tokens = await asyncio.gather(*map(call, prompts))
    return {"calls": len(tokens), "total_tokens": sum(tokens)}


async def measured(
    way: Callable[[int, int], Awaitable[dict[str, Any]]], count: int, in_flight: int, url: str
) -> dict[str, Any]:
    """One turn of one way: what it counted, what the stub counted, and calls per second."""
    began = time.perf_counter()
    found = await way(count, in_flight)
    seconds = time.perf_counter() - began
    return {**found, "stub": await stub_counts(url), "per_second": round(count / seconds, 1)}


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


def best(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The quickest turn."""
    return max(turns, key=lambda turn: float(turn["per_second"]))


async def compare(count: int, in_flight: int, rounds: int, url: str, *, litellm: bool) -> dict[str, Any]:
    """Both ways in turn."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(rounds):
        ours.append(await measured(by_osmosis, count, in_flight, url))
        if litellm:
            theirs.append(await measured(by_litellm, count, in_flight, url))
    result: dict[str, Any] = {"count": count, "in_flight": in_flight, "osmosis": best(ours), "turns": ours}
    result["peak_bytes"] = await memory_growth(in_flight, count)
    if theirs:
        result["litellm"] = best(theirs)
        result["times_litellm"] = round(best(ours)["per_second"] / best(theirs)["per_second"], 1)
    result["max_rss_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return result


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-litellm", action="store_true")
    arguments = parser.parse_args()
    here, there = multiprocessing.Pipe()
    stub = multiprocessing.get_context("spawn").Process(target=serve_stub, args=(there,), daemon=True)
    stub.start()
    there.close()
    url = here.recv()
    os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        print(
            json.dumps(
                asyncio.run(
                    compare(
                        arguments.count,
                        arguments.in_flight,
                        arguments.rounds,
                        url,
                        litellm=not arguments.without_litellm,
                    )
                )
            )
        )
    finally:
        here.close()
        stub.join(20)


if __name__ == "__main__":
    main()
