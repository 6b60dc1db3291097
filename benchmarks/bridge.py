"""The model bridge beside raw aiohttp and LiteLLM, against one stub server (ruling 22).

The stub, the bridge and the load each have a process of their own, and each runs on uvloop with a settled garbage collector, as
`osmosis eval run` does: no way has the better loop. The three ways take turns, and ratios are those of one round. Reported:
calls a second at 64 in flight, and the median latency of one call at a time. Where other work takes a core away, the bridge
waits for one longer than the others, being a process more; so its processor time is told too, beside that of a process which
calls directly.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection

import aiohttp
import uvloop
from aiohttp import web

from benchmarks.measuring import Finding, Options, at_least, at_most, in_turn, own_cpu_seconds, ratios, told
from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor
from osmosis.shell.bridge import Bridge
from osmosis.shell.evaluation.collector import settled_garbage

TOKEN = "benchmark-token"
IN_FLIGHT, SLICES, ALONE = 64, 8, 300
CALLS = {"raw": 400, "bridge": 400, "litellm": 64}
"""In one slice. A round is made of short slices of all ways, so that what slows the machine for a moment slows each of them."""
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
    """A child process: serve until the parent closes its end."""

    async def run() -> None:
        url = await (serve_stub() if start == "stub" else serve_bridge(argument))
        with settled_garbage():
            pipe.send(url)
            await asyncio.get_running_loop().run_in_executor(None, pipe.poll, None)

    uvloop.run(run())


async def seconds_for(call: Call, calls: int) -> float:
    """How long that many calls take, IN_FLIGHT at a time."""
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return time.perf_counter() - started


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


async def _measured(stub: str, bridge: str, bridge_process: int, rounds: int) -> list[Finding]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session, AsyncExitStack() as settled:
        ways = {"raw": aiohttp_call(session, stub), "bridge": aiohttp_call(session, bridge), "litellm": litellm_call(stub)}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        medians: dict[str, list[float]] = {name: [] for name in ways}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for call in ways.values():
            await seconds_for(call, 2 * IN_FLIGHT)
        settled.enter_context(settled_garbage())
        for number in range(rounds):
            wall, cpu = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
            for slice_number in range(SLICES):
                for name in in_turn(list(ways), slice_number):
                    process = bridge_process if name == "bridge" else os.getpid()
                    before = own_cpu_seconds(process)
                    wall[name] += await seconds_for(ways[name], CALLS[name])
                    cpu[name] += own_cpu_seconds(process) - before
            for name in in_turn(list(ways), number):
                calls = SLICES * CALLS[name]
                rates[name].append(calls / wall[name])
                spent[name].append(1000 * cpu[name] / calls)
                medians[name].append(await latency(ways[name], ALONE))
    added = [mine - raw for mine, raw in zip(medians["bridge"], medians["raw"], strict=True)]
    return [
        *(told(f"calls a second, {IN_FLIGHT} in flight: {name}", rates[name], "") for name in ways),
        at_least("bridge, of raw aiohttp", ratios(rates["bridge"], rates["raw"]), 1 / 3, ""),
        at_least("bridge, times LiteLLM", ratios(rates["bridge"], rates["litellm"]), 10.0, ""),
        *(told(f"processor time a call: {name}", spent[name], "ms") for name in ways),
        told("the same, bridge of raw aiohttp", ratios(spent["bridge"], spent["raw"]), ""),
        told("the same, LiteLLM of the bridge", ratios(spent["litellm"], spent["bridge"]), ""),
        *(told(f"median latency, one at a time: {name}", medians[name], "ms") for name in ways),
        at_most("latency that the bridge adds", added, 1.0, "ms"),
    ]


def measure(options: Options) -> list[Finding]:
    """Start the children, let the ways take turns, and stop the children. Rounds are short, so there are twice as many."""
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
        return uvloop.run(_measured(urls["stub"], urls["bridge"], children[-1][0].pid or 0, 2 * options.rounds + 1))
    finally:
        for child, pipe in children:
            pipe.close()
            child.terminate()
            child.join()
