"""Runs whose rollouts reach the model from outside: advertised ways, managed tunnels, and what is left when they fail (E3)."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import msgspec
import pytest

from osmosis.pure.tunnel import MOST_IN_FLIGHT
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.orphans import TUNNEL_RECORD, stop_orphans
from osmosis.shell.evaluation.process_identity import ProcessRecord
from osmosis.shell.evaluation.public_route import RouteRequest, open_route
from osmosis.shell.evaluation.run_directory import RunDirectory
from tests.integration.cloudflared import Program
from tests.integration.crash_lab import Silent
from tests.integration.stub_provider import PATIENCE, TOKEN, answers, bridged, serving
from tests.integration.workspaces import Workspace, alive

pytestmark = pytest.mark.slow

LOOPBACK_URL = re.compile(r"http://127\.0\.0\.1:\d+")
FAR_SANDBOX = '''
"""A healthy server whose sandbox cannot reach loopback."""
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Far(BaseHTTPRequestHandler):
    def do_GET(self):
        report = {"status": "ok", "instance_id": os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"],
                  "chat_endpoint": {"requires_public_url": True, "environment": "daytona"}}
        body = json.dumps(report).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ["_OSMOSIS_ROLLOUT_PORT"])), Far).serve_forever()
'''


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The stand-in, first on PATH."""
    program = Program(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{program.directory}{os.pathsep}{os.environ['PATH']}")
    return program


@contextmanager
def kept_port() -> Iterator[int]:
    """A port that the system gives to nobody else while the context lasts. Who asks for it by number may listen there."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]


async def test_an_advertised_way(workspace: Workspace) -> None:
    """Rollouts use the advertised URL, path and all; here it leads straight to the listener's port."""
    with kept_port() as port:
        there = f"http://localhost:{port}"
        ended = await workspace.run("--name", "far", "--advertise-url", there, "--listener-port", str(port))
    assert ended.code == 0, ended.said
    assert f"rollouts reach the model through {there}" in ended.said
    assert "INSECURE" not in ended.said
    assert len(workspace.records("far", "result")) == 3


async def test_flags_that_do_not_go_together_create_nothing(workspace: Workspace) -> None:
    """What is wrong with the flags is told before anything is created."""
    ended = await workspace.run("--advertise-url", "https://x.test", "--tunnel", "cloudflared", "--json")
    assert ended.code == 1
    assert "--listener-port" in ended.said
    assert workspace.nothing_left()


@pytest.mark.parametrize("by_itself", [False, True])
async def test_a_tunnel_that_is_refused_leaves_nothing(workspace: Workspace, program: Program, by_itself: bool) -> None:
    """Asked for, or chosen because the sandbox is far: a refused tunnel ends the run with guidance and without a trace."""
    program.behave("rate-limit", "exit-1")
    if by_itself:
        (workspace.project / "main.py").write_text(FAR_SANDBOX)
    flags = [] if by_itself else ["--tunnel", "cloudflared"]
    ended = await workspace.run("--name", "refused", *flags, PATH=os.environ["PATH"])
    assert ended.code == 1
    reason = "the daytona sandbox cannot reach loopback" if by_itself else "--tunnel"
    assert f"opening a tunnel to the model ({reason})" in ended.said
    assert "--advertise-url" in ended.said
    assert "Traceback" not in ended.said
    assert not alive(program.seen["pid"])
    assert not {name for name in program.seen["environment"] if "KEY" in name or "SECRET" in name}
    assert workspace.nothing_left()


async def test_a_tunnel_is_remembered_while_it_runs(tmp_path, program) -> None:
    """Its process is on record from its start, its limit caps the run, a loss is told, and the record goes with it."""
    program.behave("announce", "die-on-cue")
    directory = RunDirectory(tmp_path, "calm-otter-7")
    directory.path.mkdir()
    lost: asyncio.Queue[str] = asyncio.Queue()
    async with serving(answers()) as stub, bridged(stub.url) as front, AsyncExitStack() as stack:
        request = RouteRequest(front.bridge, TOKEN, directory, "cloudflared", None, None, pattern=LOOPBACK_URL)
        route = await open_route(stack, request, Silent(), FileLayer(), lost.put_nowait)
        record = msgspec.json.decode((directory.path / TUNNEL_RECORD).read_bytes(), type=ProcessRecord)
        assert (record.pid, record.port, record.instance_id) == (program.seen["pid"], front.bridge.port, "cloudflared")
        assert route.most_in_flight == MOST_IN_FLIGHT
        assert LOOPBACK_URL.match(front.bridge.chat_completions_url("r"))
        with await asyncio.to_thread(open, program.directory / "cue", "wb"):
            pass
        async with asyncio.timeout(PATIENCE):
            assert "exit code 3" in await lost.get()
    assert not (directory.path / TUNNEL_RECORD).exists()


async def test_an_orphaned_tunnel_is_stopped_at_the_next_start(tmp_path, program) -> None:
    """A tunnel whose supervisor was killed is found by its recorded identity and stopped."""
    program.behave("announce", "stubborn")
    directory = RunDirectory(tmp_path / "evals", "calm-otter-7")
    directory.path.mkdir(parents=True)
    announced: list[str] = []
    async with serving(answers()) as stub, bridged(stub.url) as front, AsyncExitStack() as stack:
        request = RouteRequest(front.bridge, TOKEN, directory, "cloudflared", None, None, pattern=LOOPBACK_URL)
        await open_route(stack, request, Silent(), FileLayer(), lambda _: None)
        await asyncio.to_thread(stop_orphans, tmp_path / "evals", announced.append)
        assert not alive(program.seen["pid"])
    assert [text.partition(" that")[0] for text in announced] == ["stopped a tunnel"]
    assert not (directory.path / TUNNEL_RECORD).exists()
