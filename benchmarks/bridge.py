"""The model bridge beside raw aiohttp and LiteLLM, against one stub server (ruling 22): `python benchmarks/bridge.py`.

The stub, the bridge and the load each have a process of their own. The three ways take turns, and each is judged by its best
turn, so that other work on the machine counts least. Reported: calls per second at 64 in flight, and the median latency of one
call at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp
import uvloop
from aiohttp import web

from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor
from osmosis.shell.bridge import Bridge

TOKEN = "benchmark-token"
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "stub",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 100}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 300, "completion_tokens": 100, "total_tokens": 400},
}
QUESTION = {"model": "stub", "messages": [{"role": "user", "content": "word " * 300}], "temperature": 0.5}

Call = Callable[[], Awaitable[object]]


async def serve_stub() -> str:
    """A server that gives every request the same answer."""
    body = json.dumps(ANSWER).encode()

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    server = web.Server(answer, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)
    return f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"


async def serve_bridge(stub: str) -> str:
    """The bridge in front of the stub."""
    bridge = Bridge(Endpoint("openai", "stub", stub, None, None), token=TOKEN, redactor=Redactor())
    await bridge.start()
    bridge.register("r", 0, 0)
    return bridge.chat_completions_url("r")


def serve(start: str, argument: str, pipe: Connection) -> None:
    """A child process: serve until the parent closes its end. The bridge runs on uvloop, as `osmosis eval run` does."""

    async def run() -> None:
        url = await (serve_stub() if start == "stub" else serve_bridge(argument))
        pipe.send(url)
        await asyncio.get_running_loop().run_in_executor(None, pipe.poll, None)

    if start == "bridge":
        uvloop.run(run())
    else:
        asyncio.run(run())


async def throughput(call: Call, calls: int, in_flight: int) -> float:
    """Calls per second with `in_flight` at a time."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return calls / (time.perf_counter() - started)


async def latency(call: Call, calls: int) -> float:
    """Median milliseconds of one call at a time."""
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        await call()
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def aiohttp_call(session: aiohttp.ClientSession, url: str) -> Call:
    """One call over a kept session."""
    body = json.dumps(QUESTION).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

    async def call() -> None:
        async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
            assert response.status == 200
            await response.read()

    return call


def litellm_call(url: str) -> Call:
    """The same call through LiteLLM."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm  # noqa: PLC0415 - takes seconds, and only this way needs it

    litellm.suppress_debug_info = True

    async def call() -> None:
        await litellm.acompletion(
            model="openai/stub", messages=QUESTION["messages"], temperature=0.5, api_base=url, api_key=TOKEN
        )

    return call


async def measure(stub: str, bridge: str, rounds: int, calls: int, in_flight: int) -> None:
    """Let the ways take turns, and print the best of each."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        ways = {"raw": aiohttp_call(session, stub), "bridge": aiohttp_call(session, bridge), "litellm": litellm_call(stub)}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        medians: dict[str, list[float]] = {name: [] for name in ways}
        for call in ways.values():
            await throughput(call, 2 * in_flight, in_flight)
        for _ in range(rounds):
            for name, call in ways.items():
                count = calls if name != "litellm" else max(in_flight, calls // 10)
                rates[name].append(await throughput(call, count, in_flight))
                medians[name].append(await latency(call, max(20, count // 10)))
    rate = {name: max(values) for name, values in rates.items()}
    median = {name: min(values) for name, values in medians.items()}
    for name in ways:
        print(f"{name:8} {rate[name]:8.0f} calls/s at {in_flight} in flight   {median[name]:7.3f} ms median, one at a time")
    print(f"bridge / raw: {rate['bridge'] / rate['raw']:.2f}   (bar: 0.33)")
    print(f"bridge / LiteLLM: {rate['bridge'] / rate['litellm']:.1f}   (bar: 10)")
    print(f"added median latency: {median['bridge'] - median['raw']:.3f} ms   (bar: 1)")


def main() -> None:
    """Start the children, measure, and stop them."""
    parser = argparse.ArgumentParser(description="throughput and latency of the model bridge")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    children = []
    urls = {"stub": "", "bridge": ""}
    for name in urls:
        ours, theirs = context.Pipe()
        child = context.Process(target=serve, args=(name, urls["stub"], theirs), daemon=True)
        child.start()
        urls[name] = ours.recv()
        children.append((child, ours))
    try:
        asyncio.run(measure(urls["stub"], urls["bridge"], options.rounds, options.calls, options.in_flight))
    finally:
        for child, pipe in children:
            pipe.close()
            child.terminate()
            child.join()


if __name__ == "__main__":
    main()
