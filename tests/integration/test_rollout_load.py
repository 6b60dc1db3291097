"""Two thousand rollouts at once on one server process, each with a long poll open (issue 5, must show 4)."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from osmosis.pure.protocol import POLLING_LEASE_HEADER, rollout_path
from tests.integration.rollout_server_process import RolloutServer, rollout_server

pytestmark = pytest.mark.slow

ROLLOUTS = 2000
PATIENCE = 1800.0
"""Seconds after which a wave has failed."""
DESCRIPTOR_MARGIN = 64
MEMORY_LIMIT_MB = 400
WAVES = 3
"""The first wave warms everything up; later ones may need this much more, for the results that are still kept:"""
GROWTH_LIMIT_MB = 32


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def memory_mb(pid: int) -> float:
    """The resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@pytest.fixture
def limit_descriptors():
    """Sets how many descriptors this process, and what it starts, may open; restored at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ROLLOUTS + 1024:
        pytest.fail(f"this machine allows {hard} descriptors, and {ROLLOUTS + 1024} are needed")
    yield lambda number: resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_no_result_is_lost(tmp_path, limit_descriptors):
    """All wait in their workflows until the last one has come, so that all are there at once; then all end, each with its own
    result. The server holds one descriptor for each poll, although it was started with the usual limit, and no more memory
    wave after wave."""
    options: dict[str, Any] = {"result_retention_sec": 60.0, "result_wait_timeout_sec": 60.0}
    limit_descriptors(1024)
    with rollout_server(tmp_path, backend="unlimited", **options) as server:
        limit_descriptors(ROLLOUTS + 1024)
        pid = server.process.pid
        idle = descriptors(pid)
        peaks: list[tuple[int, float]] = []
        for wave in range(WAVES):
            results = await asyncio.wait_for(run_wave(server, f"w{wave}", peaks), PATIENCE)
            assert len(results) == ROLLOUTS
            for rollout_id, result in results.items():
                assert result["status"] == "success", result
                assert result["sample"]["messages"][-1]["content"] == rollout_id
                assert json.loads((tmp_path / rollout_id / "trajectory.json").read_bytes())["session_id"] == rollout_id
        health = (await asyncio.to_thread(server.http.get, "/health")).json()
        assert health["lifecycle"] == {"accepting_rollouts": True, "active_rollouts": 0}
        assert health["concurrency"] == {"max_concurrent": None, "queued": 0, "running": 0}
        assert descriptors(pid) <= idle + DESCRIPTOR_MARGIN
    open_at_peak, memory = [peak[0] for peak in peaks], [peak[1] for peak in peaks]
    assert max(open_at_peak) <= ROLLOUTS + idle + DESCRIPTOR_MARGIN
    assert max(memory) < MEMORY_LIMIT_MB
    assert memory[-1] <= memory[0] + GROWTH_LIMIT_MB


async def run_wave(server: RolloutServer, wave: str, peaks: list[tuple[int, float]]) -> dict[str, dict[str, Any]]:
    """Start all rollouts, poll each, let the last one open the gate for all; what the server holds then goes to `peaks`."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector, timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session:
        names = [f"{wave}-{number}" for number in range(ROLLOUTS)]
        polls = [asyncio.create_task(run_one(session, wave, name)) for name in names]
        await until_running(session, ROLLOUTS)
        peaks.append((descriptors(server.process.pid), memory_mb(server.process.pid)))
        async with session.post("/rollout", json=body(wave, "opener", "open")) as answer:
            assert answer.status == 202
        return dict(zip(names, await asyncio.gather(*polls), strict=True))


async def until_running(session: aiohttp.ClientSession, count: int) -> None:
    """Wait until that many rollouts are inside their workflows."""
    while True:
        async with session.get("/health") as answer:
            if (await answer.json())["concurrency"]["running"] >= count:
                return


def body(wave: str, rollout_id: str, behave: str) -> dict[str, Any]:
    """The start of one rollout."""
    return {
        "initial_messages": [{"role": "user", "content": "wait"}],
        "rollout_id": rollout_id if rollout_id.startswith(wave) else f"{wave}-{rollout_id}",
        "chat_completions_url": "http://127.0.0.1:9/v1",
        "label": "4",
        "metadata": {"behave": behave, "wave": wave},
    }


async def run_one(session: aiohttp.ClientSession, wave: str, rollout_id: str) -> dict[str, Any]:
    """One rollout from its start to its result."""
    async with session.post("/rollout", json=body(wave, rollout_id, "wave")) as answer:
        assert answer.status == 202, await answer.text()
        lease = {POLLING_LEASE_HEADER: (await answer.json())["polling_lease_token"]}
    while True:
        async with session.get(rollout_path(rollout_id), headers=lease) as answer:
            assert answer.status == 200, await answer.text()
            result: dict[str, Any] = await answer.json()
        if result["status"] in ("success", "failure", "cancelled"):
            return result
