"""Live previews and ownership telemetry of a real server process (rollout_protocol sections 7.9 and 11)."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from osmosis.pure.ownership import Run, Server
from osmosis.pure.protocol import RolloutStatus
from osmosis.shell.rollout.telemetry import OwnershipTelemetry
from tests.integration.rollout_server_process import INSTANCE_ID, rollout_server
from tests.integration.workspaces import PATIENCE, eventually

PREVIEW_ROOT = "_OSMOSIS_ROLLOUT_PREVIEW_ROOT"


@pytest.fixture
def gate(tmp_path):
    """A FIFO at which a workflow waits until the test opens it."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def preview(root: Path, rollout_id: str) -> dict[str, Any] | None:
    """A rollout's preview, if there is one."""
    path = root / rollout_id / "preview.json"
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def state(root: Path, rollout_id: str) -> str | None:
    """The status that a rollout's preview tells."""
    document = preview(root, rollout_id)
    return None if document is None else document["extra"]["osmosis"]["status"]


async def test_a_rollout_is_shown_while_it_runs_and_at_its_end(tmp_path, gate):
    """From its source while it runs, then with its last status; only its owner may look."""
    previews = tmp_path / "previews"
    with rollout_server(tmp_path / "trials", variables={PREVIEW_ROOT: str(previews)}) as server:
        await asyncio.to_thread(server.start, "pv", {"behave": "source gate", "gate": str(gate)}, llm_api_key="the-model-key")
        await eventually(lambda: state(previews, "pv") == "running")
        running = preview(previews, "pv")
        assert running is not None
        assert [step["message"] for step in running["steps"]] == ["so far, with [REDACTED]"]
        assert running["extra"]["osmosis"]["turn"] == 9
        await asyncio.to_thread(gate.write_bytes, b"")
        await asyncio.to_thread(server.result, "pv")
        await eventually(lambda: state(previews, "pv") == "success")
    done = preview(previews, "pv")
    assert done is not None
    assert [step["message"] for step in done["steps"]] == ["from the source"]
    assert done["extra"]["osmosis"]["preview_version"] > running["extra"]["osmosis"]["preview_version"]
    path = previews / "pv" / "preview.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["preview.json"]


async def test_what_a_workflow_returned_is_shown_at_the_end(tmp_path):
    """Without a source there is nothing to show before; ids that do not suit are never shown."""
    previews = tmp_path / "previews"
    with rollout_server(tmp_path / "trials", variables={PREVIEW_ROOT: str(previews)}) as server:
        await asyncio.to_thread(server.run, "plain")
        await asyncio.to_thread(server.run, ".hidden")
        await eventually(lambda: state(previews, "plain") == "success")
    assert [entry.name for entry in previews.iterdir()] == ["plain"]


@pytest.mark.parametrize("kind", ["relative", "symlink", "symlink above"])
def test_a_root_that_is_not_safe_is_not_used(tmp_path, kind):
    """No previews, and no harm to the rollout."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    root = {"relative": "previews", "symlink": str(tmp_path / "link"), "symlink above": str(tmp_path / "link" / "below")}[kind]
    with rollout_server(tmp_path / "trials", variables={PREVIEW_ROOT: root}) as server:
        assert server.run("r")["status"] == "success"
    assert list(real.iterdir()) == []
    assert not Path("previews").exists()


def test_a_link_in_the_place_of_a_preview_is_not_followed(tmp_path):
    """Somebody else's directory behind a rollout's name stays as it is."""
    previews, victim = tmp_path / "previews", tmp_path / "victim"
    previews.mkdir()
    victim.mkdir()
    (previews / "r").symlink_to(victim)
    with rollout_server(tmp_path / "trials", variables={PREVIEW_ROOT: str(previews)}) as server:
        assert server.run("r")["status"] == "success"
        server.process.terminate()
        server.process.wait(PATIENCE)
    assert list(victim.iterdir()) == []


class Collector:
    """An OTLP collector that keeps what it was sent. It answers as long as `answering` is set."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.records: list[dict[str, Any]] = []
        self.asked, self.answering = asyncio.Event(), asyncio.Event()
        self.answering.set()

    async def take(self, request: web.Request) -> web.Response:
        """Answer with the next status that the test wants, 200 by default."""
        self.requests.append((request.path, dict(request.headers)))
        self.asked.set()
        await self.answering.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if status == 200:
            body = await request.json()
            for resource in body["resourceLogs"]:
                assert resource["resource"]["attributes"][0]["value"] == {"stringValue": "osmosis-rollout-server"}
                for scope in resource["scopeLogs"]:
                    self.records += [
                        {entry["key"]: next(iter(entry["value"].values())) for entry in record["attributes"]}
                        for record in scope["logRecords"]
                    ]
        return web.json_response({}, status=status)


@pytest.fixture
async def collector():
    """A collector on loopback, and its address."""
    taking = Collector()
    app = web.Application()
    app.router.add_post("/{tail:.*}", taking.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield taking, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_each_status_of_a_rollout_is_reported(tmp_path, collector):
    """In order, with server and run; a collector that is busy gets them later, and shutdown sends what is left."""
    taking, url = collector
    taking.statuses = [503]
    variables = {
        "OSMOSIS_ROLLOUT_OTLP_ENDPOINT": f"{url}/",
        "_OSMOSIS_ROLLOUT_NAME": "calculator",
        "OSMOSIS_ROLLOUT_NAMESPACE": "team-a",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b",
    }
    metadata = {"osmosis_observability": {"run_id": "run-7", "run_name": "happy-fox-7"}}
    with rollout_server(tmp_path, variables=variables) as server:
        await asyncio.to_thread(server.run, "r-1", metadata)
        await eventually(lambda: len(taking.records) == 4)
        await asyncio.to_thread(server.run, "bad\nid")
        await asyncio.to_thread(server.run, "r-2")
        server.process.terminate()
        await asyncio.to_thread(server.process.wait, PATIENCE)
    first = [record for record in taking.records if record["rollout_id"] == "r-1"]
    assert [record["status"] for record in first] == ["queued", "running", "grading", "success"]
    assert [record["event_sequence"] for record in first] == ["1", "2", "3", "4"]
    assert (
        first[0].items()
        >= {
            "event": "rollout.ownership",
            "server_id": INSTANCE_ID,
            "server_name": "calculator",
            "namespace": "team-a",
            "run_id": "run-7",
            "run_name": "happy-fox-7",
        }.items()
    )
    second = [record for record in taking.records if record["rollout_id"] == "r-2"]
    assert [record["status"] for record in second] == ["queued", "running", "grading", "success"]
    assert "run_id" not in second[0]
    assert {path for path, _ in taking.requests} == {"/v1/logs"}
    assert {headers["x-team"] for _, headers in taking.requests} == {"a b"}
    assert len(taking.records) == 8


async def test_what_is_on_its_way_at_the_end_is_not_sent_twice(collector):
    """Closing waits for the answer to the request that is open, and then sends what has come since."""
    taking, url = collector
    taking.answering.clear()
    telemetry = OwnershipTelemetry(url, Server("s"), {})
    telemetry.note("r-1", Run(), RolloutStatus.QUEUED)
    async with asyncio.timeout(PATIENCE):
        await taking.asked.wait()
    telemetry.note("r-2", Run(), RolloutStatus.QUEUED)
    closing = asyncio.create_task(telemetry.close())
    await asyncio.sleep(0)
    taking.answering.set()
    await closing
    assert [record["rollout_id"] for record in taking.records] == ["r-1", "r-2"]


async def test_no_collector_no_harm(tmp_path):
    """Rollouts end and the server stops, whoever does not listen."""
    with rollout_server(tmp_path, variables={"OSMOSIS_ROLLOUT_OTLP_ENDPOINT": "http://127.0.0.1:9"}) as server:
        assert (await asyncio.to_thread(server.run, "r"))["status"] == "success"
        server.process.terminate()
        assert await asyncio.to_thread(server.process.wait, PATIENCE) is not None
