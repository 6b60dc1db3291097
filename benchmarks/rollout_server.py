"""How much CPU a rollout server spends on a trivial rollout: this package beside the public one, in the same minute.

    python benchmarks/rollout_server.py [--rollouts 2000] [--in-flight 64] [--rounds 3]

Each round starts both servers on the same entrypoint, lets the same client run the same rollouts over loopback, and reads the
server's own CPU time (user and system) from the kernel, so that a busy machine costs time but not truth. A rollout is a start,
two or three long polls, a workflow, a grader, and a trajectory on disk. Each server runs in the environment that its extra
`server` makes: the public one in `.venv-interop` (`python scripts/interop_env.py`). The best round of each counts. Rollouts
write to memory unless `--root` names a disk: the kernel's work for a file on a disk that others use varies fivefold.
"""

from __future__ import annotations

import argparse
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

ROOT = Path(__file__).resolve().parent.parent
ENTRYPOINT = Path(__file__).with_name("trivial_rollout.py")
PUBLIC_PYTHON = ROOT / ".venv-interop" / "bin" / "python"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()  # noqa: S108 - a directory of its own
BAR = 1 / 3
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and report; exit code 1 if this package spends more than a third."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--root", default=MEMORY, help=f"where rollouts write [{MEMORY}]; a disk adds what its other users cost"
    )
    parser.add_argument("--only-ours", action="store_true", help="no comparison; for profiling")
    arguments = parser.parse_args()
    servers = {"this package": sys.executable}
    if not arguments.only_ours:
        if not PUBLIC_PYTHON.exists():
            sys.exit(
                "rollout_server: the public package is not there; make its environment with: python scripts/interop_env.py"
            )
        servers["public 0.3.8"] = str(PUBLIC_PYTHON)
    best = dict.fromkeys(servers, float("inf"))
    for number in range(arguments.rounds):
        for name, python in servers.items():
            spent = measure(python, arguments.rollouts, arguments.in_flight, arguments.root)
            best[name] = min(best[name], spent)
            print(f"round {number + 1}  {name:14}  {spent * 1000:6.3f} ms of server CPU a rollout", flush=True)
    if not arguments.only_ours:
        share = best["this package"] / best["public 0.3.8"]
        print(f"best of {arguments.rounds}: {share:.2f} of the public server's (the bar is {BAR:.2f})")
        sys.exit(share > BAR)


def measure(python: str, rollouts: int, in_flight: int, where: str | None) -> float:
    """Seconds of the server's CPU time for each rollout."""
    with tempfile.TemporaryDirectory(prefix="osmosis-bench-", dir=where) as root, serving(python, Path(root)) as (pid, url):
        asyncio.run(drive(url, 200, in_flight, "warm"))
        before = cpu_seconds(pid)
        asyncio.run(drive(url, rollouts, in_flight, "r"))
        return (cpu_seconds(pid) - before) / rollouts


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


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


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


if __name__ == "__main__":
    main()
