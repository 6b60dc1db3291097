"""How much CPU a rollout server spends on a trivial rollout: this package beside the public one, in the same minutes.

Each round starts both servers on the same entrypoint, lets the same client run the same rollouts over loopback, and reads the
server's own CPU time (user and system) from the kernel, so that a busy machine costs time but not truth. A rollout is a start,
two or three long polls, a workflow, a grader, and a trajectory in a file. Each server runs in the environment that its extra
`server` makes. Both write to a disk, where a run lies and where the bar holds, and both write to memory, which leaves out what
the kernel does for a disk that others use too.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from benchmarks.measuring import Finding, Options, at_most, in_turn, own_cpu_seconds, ratios, scratch, told
from benchmarks.run_workspace import PUBLIC, make_public_environment

ROOT = Path(__file__).resolve().parent.parent
ENTRYPOINT = Path(__file__).with_name("trivial_rollout.py")
MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made there
BAR = 1 / 3
WARM, ROLLOUTS, IN_FLIGHT = 200, 2000, 64


def measure(options: Options) -> list[Finding]:
    """Milliseconds of server CPU a rollout, and the ratio to the public server's."""
    make_public_environment()
    servers = {"ours": sys.executable}
    if (PUBLIC / "python").exists():
        servers["public"] = str(PUBLIC / "python")
    places = {"on a disk": tempfile.gettempdir()} | ({"in memory": str(MEMORY)} if MEMORY.is_dir() else {})
    findings = []
    for place, directory in places.items():
        spent: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(options.rounds):
            for name in in_turn(list(servers), number):
                spent[name].append(1000 * server_cpu(servers[name], directory))
        findings += [told(f"server CPU a rollout, {place}: {name}", spent[name], "ms") for name in servers]
        if "public" in servers:
            found = ratios(spent["ours"], spent["public"])
            name = f"server CPU a rollout, {place}, of the public server's"
            findings.append(at_most(name, found, BAR, ""))
    return findings


def server_cpu(python: str, where: str) -> float:
    """Seconds of the server's CPU time for each rollout, once it is warm."""
    with serving(python, scratch(where)) as (pid, url):
        asyncio.run(drive(url, WARM, IN_FLIGHT, "warm"))
        before = own_cpu_seconds(pid)
        asyncio.run(drive(url, ROLLOUTS, IN_FLIGHT, "r"))
        return (own_cpu_seconds(pid) - before) / ROLLOUTS


@contextmanager
def serving(python: str, root: Path) -> Iterator[tuple[int, str]]:
    """A server process: its id and where it answers."""
    path = {} if python != sys.executable else {"PYTHONPATH": str(ROOT)}
    environment = {**os.environ, "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(root), **path}
    process = subprocess.Popen([python, str(ENTRYPOINT)], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.pid, f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def drive(url: str, rollouts: int, in_flight: int, prefix: str) -> None:
    """Run that many rollouts, so many at a time, each to its end. Raises if one is lost or not a success."""
    names = iter([f"{prefix}-{number}" for number in range(rollouts)])
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        await asyncio.gather(*(_worker(session, url, names) for _ in range(in_flight)))


async def _worker(session: aiohttp.ClientSession, url: str, names: Iterator[str]) -> None:
    for name in names:
        await _rollout(session, url, name)


async def _rollout(session: aiohttp.ClientSession, url: str, name: str) -> None:
    body = {
        "initial_messages": [{"role": "user", "content": "2*2?"}],
        "rollout_id": name,
        "chat_completions_url": f"{url}/v1",
        "label": "4",
        "metadata": None,
        "llm_api_key": "k",
        "grade": True,
        "agent_timeout_sec": 450.0,
        "grader_timeout_sec": 150.0,
        "extra_fields": {"row_index": 0, "run_index": 0},
    }
    async with session.post(f"{url}/rollout", json=body) as answer:
        lease = (await answer.json())["polling_lease_token"]
    while True:
        async with session.get(f"{url}/rollout/{name}/result", headers={"X-Osmosis-Rollout-Lease": lease}) as answer:
            result = json.loads(await answer.read())
        if result["status"] in ("success", "failure", "cancelled"):
            break
    if result["status"] != "success":
        raise RuntimeError(f"rollout {name}: {result}")
