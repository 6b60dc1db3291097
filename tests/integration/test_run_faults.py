"""Process faults: what ends a run leaves items pending and says why; what concerns one item fails only that (issue 3)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import pytest

from osmosis.pure.errors import OsmosisError
from osmosis.pure.redaction import Redactor
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.process_identity import ProcessRecord
from osmosis.shell.evaluation.rollout_process import RolloutProcess
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.standby import Launch, Start
from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Command, Ended, Workspace, alive, eventually, group_members

pytestmark = pytest.mark.slow

BROKEN_SERVER = '''
"""A server that is healthy and then does not keep to the protocol, in the way that BREAK names."""
import json, os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Broken(BaseHTTPRequestHandler):
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/health":
            self.answer(200, json.dumps({"status": "ok", "instance_id": os.environ["_OSMOSIS_ROLLOUT_INSTANCE_ID"]}).encode())
        else:
            self.answer(200, b"[1, 2")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        admitted = {"rollout_id": asked.get("rollout_id"), "polling_lease_token": "t", "protocol_version": "0.4",
                    "result_wait_timeout_sec": 30.0, "polling_lease_timeout_sec": 120.0}
        match os.environ["BREAK"]:
            case "html":
                self.answer(200, b"<html>" + os.environ["OPENAI_API_KEY"].encode())
            case "status":
                self.answer(500, b"out of order")
            case "other":
                self.answer(202, json.dumps({**admitted, "rollout_id": "0" * 32}).encode())
            case "deaf":
                self.answer(202, json.dumps(admitted).encode())
                server.socket.close()
            case _:
                self.answer(202, json.dumps(admitted).encode())

    def log_message(self, *arguments):
        pass

signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ["BREAK"] == "deaf" else signal.SIG_DFL)
server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["_OSMOSIS_ROLLOUT_PORT"])), Broken)
try:
    server.serve_forever()
except (OSError, ValueError):
    threading.Event().wait(600)
'''


def halted(ended: Ended, pending: int, *texts: str) -> None:
    """The run stopped with `pending` items, exit code 1, a reason that holds each of `texts`, and no traceback."""
    assert ended.code == 1, ended.said
    assert ended.envelope["status"] == "partial"
    assert ended.resource["pending"] == pending
    assert ended.resource["failed"] == 0
    for text in texts:
        assert text in ended.resource["halt_reason"]
    assert "Traceback" not in ended.err


async def test_a_server_that_dies_leaves_items_pending(workspace: Workspace, model: StubModel) -> None:
    """The server's last lines are quoted, nothing is failed for it, and a resume without the cause finishes."""
    workspace.write_rows("held one", "held two")
    async with workspace.start("--name", "dead", "--json") as running:
        await model.wait_calls(2)
        os.killpg(workspace.server("dead")["pgid"], signal.SIGKILL)
        ended = await running.end()
    halted(ended, 2, "SIGKILL")
    model.release()
    assert (await workspace.run("--name", "dead")).code == 0


async def test_a_poisonous_item_is_found_over_several_runs(workspace: Workspace, model: StubModel) -> None:
    """Twice it takes the server with it; the third time it runs alone, is failed with a reason, and the rest goes on."""
    workspace.write_rows("kill the server", "held back")
    for _ in range(2):
        ended = await workspace.run("--name", "poisoned", "--json")
        halted(ended, 2, "about to be killed")
        assert "The same command" in ended.envelope["message"]
    assert "now runs each of those alone" in ended.envelope["message"]
    model.release()
    ended = await workspace.run("--name", "poisoned", "--json")
    assert ended.code == 0
    assert (ended.resource["succeeded"], ended.resource["failed"]) == (1, 1)
    poison, innocent = workspace.index("poisoned")
    assert (poison["status"], poison["error_type"]) == ("failed", "server_crash")
    assert innocent["status"] == "success"
    assert "about to be killed" in workspace.records("poisoned", "result")[0]["error_message"]


async def test_a_rejected_key_stops_the_run(workspace: Workspace, model: StubModel) -> None:
    """A provider that says 401 in the middle: the variable is named, nothing is failed for it, calls in flight end."""
    workspace.write_rows("held one", "reject beside two")
    ended = await workspace.run("--name", "rejected", "--json")
    halted(ended, 2, "OPENAI_API_KEY", "401", "this key is not known")
    assert workspace.records("rejected", "result") == []
    await eventually(lambda: model.abandoned == 1)


@pytest.mark.parametrize(
    ("how", "text"),
    [("html", "answered 200"), ("status", "answered 500"), ("other", "protocol 0.4"), ("poll", "protocol 0.4")],
)
async def test_a_server_that_answers_nonsense_stops_the_run(workspace: Workspace, how: str, text: str) -> None:
    """An answer outside of the protocol leaves every item pending, and what is quoted of it holds no secret."""
    (workspace.project / "main.py").write_text(BROKEN_SERVER)
    ended = await workspace.run("--name", "nonsense", "--json", BREAK=how)
    halted(ended, 3, text)
    assert "sk-test" not in ended.said + (workspace.run_directory("nonsense") / "logs.txt").read_text()


async def test_a_server_that_went_deaf_is_not_waited_for(workspace: Workspace) -> None:
    """It listens no more and ignores SIGTERM: the run stops, and the server is killed after the short grace."""
    (workspace.project / "main.py").write_text(BROKEN_SERVER)
    workspace.write_rows("echo one")
    ended = await workspace.run("--name", "deaf", "--json", BREAK="deaf")
    halted(ended, 1, "rollout server")
    log = (workspace.run_directory("deaf") / "logs.txt").read_text()
    assert "330 s" not in log


async def test_the_log_has_the_cause_of_a_failed_model_call(workspace: Workspace) -> None:
    """A client that tells its rollout nothing but the status costs nobody the cause: it is in the log, with row and status."""
    workspace.write_rows("echo one", "broken two")
    await workspace.run("--name", "causes", "--json")
    lines = (workspace.run_directory("causes") / "logs.txt").read_text().splitlines()
    told = [line for line in lines if "a model call failed" in line]
    assert told
    assert all("row 1 run 0: a model call failed: " in line and '"status":502' in line for line in told)
    assert all("out of order" in line for line in told)


async def test_item_faults_fail_the_item_and_the_run_goes_on(workspace: Workspace) -> None:
    """A NaN reward, a workflow that raises, a broken provider: failed, each with its reason."""
    workspace.write_rows("unfinite", "raise an alarm", "broken down", "garbage in", "echo one")
    ended = await workspace.run("--name", "faulty", "--json")
    assert ended.code == 0
    assert (ended.resource["succeeded"], ended.resource["failed"]) == (1, 4)
    results = {record["item"][0]: record for record in workspace.records("faulty", "result")}
    assert results[0]["error_type"] == "validation_error"
    assert "raise an alarm" in results[1]["error_message"]
    assert results[4]["status"] == "success"
    assert workspace.metrics("faulty")["summary"]["pass_rate"] == pytest.approx(1 / 5)


async def test_a_workflow_that_takes_too_long_fails_the_item_and_the_run_goes_on(workspace: Workspace) -> None:
    """Two model calls that are never answered, one after the other: each is given up after the time that the config says."""
    workspace.write_config(evaluation="agent_workflow_timeout_s = 2")
    workspace.write_rows("held for ever", "held as long")
    ended = await workspace.run("--name", "late", "--json", "--max-in-flight", "1")
    assert ended.code == 3
    assert [record["error_type"] for record in workspace.records("late", "result")] == ["timeout"] * 2


async def test_few_file_descriptors_slow_the_run_and_fail_nothing(workspace: Workspace, model: StubModel) -> None:
    """A process that may open few files runs fewer rollouts at once, says so, and finishes every item."""
    workspace.write_rows(*[f"echo {number}" for number in range(14)])
    shell = ["sh", "-c", 'ulimit -n 120; exec "$@"', "sh"]
    async with workspace.start("--name", "narrow", "--json", "--max-in-flight", "14", wrapped=shell) as running:
        ended = await running.end()
    assert ended.code == 0
    assert ended.resource["succeeded"] == model.count("echo") == 14
    assert "FEW_FILE_DESCRIPTORS" in ended.err
    assert "may open 120 files, so 8 rollouts run at once" in ended.err


async def test_a_server_that_never_becomes_healthy_is_given_up(tmp_path: Path, workspace: Workspace) -> None:
    """What it says instead is told, its last lines are quoted, and it is stopped."""
    (workspace.project / "main.py").write_text(
        "import os, http.server as h, socketserver\nprint('serving 503', flush=True)\n"
        "class S(h.BaseHTTPRequestHandler):\n    def do_GET(self):\n        self.send_error(503)\n"
        "    def log_message(self, *a):\n        pass\n"
        # An HTTPServer would ask the system's resolver for its own name first, which may take as long as it likes.
        "socketserver.TCPServer(('127.0.0.1', int(os.environ['_OSMOSIS_ROLLOUT_PORT'])), S).serve_forever()\n"
    )
    launch = Launch(
        start=Start(workspace.project, "main.py", workspace.environment),
        run_directory=tmp_path,
        trials=tmp_path / "trials",
        created_at="2026-11-30T00:00:00Z",
        health_timeout=15.0,
    )
    with RunLog(tmp_path / "logs.txt", Redactor()) as log, pytest.raises(OsmosisError) as caught:
        await RolloutProcess.start(launch, log, FileLayer())
    assert "did not become healthy within 15 s" in caught.value.message
    said = str(caught.value)
    assert "status 503" in said
    assert "serving 503" in said
    assert not (tmp_path / "server.json").exists()


GIVES_WAY = """
import os
asked = os.environ["ASKED"]
if not os.path.exists(asked):
    with open(asked + ".new", "w") as file:
        file.write(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    os.rename(asked + ".new", asked)
    with open(os.environ["GO_ON"]) as pipe:
        pipe.readline()
"""


@contextmanager
def gives_way(place: Path, workspace: Workspace) -> Iterator[tuple[Path, IO[bytes]]]:
    """The first server writes its port into a file, and waits for a line through a pipe before it listens: (file, pipe)."""
    main = workspace.project / "main.py"
    main.write_text(GIVES_WAY + main.read_text())
    workspace.environment |= {"ASKED": str(place / "asked"), "GO_ON": str(place / "go on")}
    os.mkfifo(place / "go on")
    with open(os.open(place / "go on", os.O_RDWR), "wb", buffering=0) as pipe:
        yield place / "asked", pipe


async def port_of(asked: Path, running: Command) -> int:
    """The port that the first server was given."""
    await eventually(lambda: asked.exists() or running.process.returncode is not None)
    return int(await asyncio.to_thread(asked.read_text))


async def test_a_port_that_somebody_takes_first_ends_no_run(tmp_path: Path, workspace: Workspace) -> None:
    """Between the choice of a port and the server's use of it the system may give it away: another one is tried."""
    with gives_way(tmp_path, workspace) as (asked, go_on), socket.socket() as somebody:
        async with workspace.start("--name", "moved", "--json") as running:
            port = await port_of(asked, running)
            somebody.bind(("127.0.0.1", port))
            go_on.write(b"\n")
            ended = await running.end()
    assert (ended.code, ended.resource["succeeded"]) == (0, 3), ended
    assert f"('127.0.0.1', {port}): address already in use" in (workspace.run_directory("moved") / "logs.txt").read_text()


async def test_a_named_port_that_somebody_takes_first_is_told(tmp_path: Path, workspace: Workspace) -> None:
    """A port that was asked for is not exchanged: the run says who is in the way, in the server's own words too."""
    with gives_way(tmp_path, workspace) as (asked, go_on), socket.socket() as somebody:
        somebody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        somebody.bind(("127.0.0.1", 0))
        port = somebody.getsockname()[1]
        async with workspace.start("--name", "stays", "--json", "--rollout-port", str(port)) as running:
            assert await port_of(asked, running) == port
            somebody.listen()
            go_on.write(b"\n")
            ended = await running.end()
    assert ended.code == 1
    for text in (f"Another process has port {port}", "--rollout-port", "address already in use"):
        assert text in ended.err
    assert workspace.nothing_left()


async def test_orphans_are_stopped_at_the_next_start(workspace: Workspace, model: StubModel) -> None:
    """The server of a killed supervisor, unable to end by itself, is found by its identity whether or not uv still lives."""
    workspace.write_rows("held one")
    groups: list[int] = []
    said = ""
    # With this, the server is a child of `uv run`, as it is wherever its environment's own Python cannot be used.
    (workspace.root / "variables").write_text("")
    variables = str(workspace.root / "variables")
    for name, kills_uv in (("first", False), ("second", True)):
        async with workspace.start("--name", name, UV_ENV_FILE=variables) as running:
            await model.wait_calls(len(groups) + 1)
            record = workspace.server(name)
            groups.append(record["pgid"])
            os.killpg(record["pgid"], signal.SIGSTOP)
            if kills_uv:
                os.kill(record["pid"], signal.SIGKILL)
            running.signal(signal.SIGKILL)
            said += (await running.end()).said
        assert group_members(record["pgid"])
    model.release()
    ended = await workspace.run("--name", "third", "--plain")
    assert ended.code == 0
    assert (said + ended.said).count("stopped a rollout server that an earlier run left behind") == 2
    assert [group_members(group) for group in groups] == [[], []]
    assert not list(workspace.runs.glob("*/server.json"))


async def test_a_process_that_only_has_the_number_is_left_alone(workspace: Workspace) -> None:
    """A recorded pid that belongs to somebody else by now is not touched, and the stale record goes."""
    workspace.write_rows("echo one")
    stranger = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        record = ProcessRecord(stranger.pid, stranger.pid, "1", "another", 1, "2026-11-30T00:00:00Z")
        (workspace.run_directory("old")).mkdir(parents=True)
        (workspace.run_directory("old") / "server.json").write_bytes(msgspec.json.encode(record))
        assert (await workspace.run("--name", "new")).code == 0
        assert alive(stranger.pid)
        assert not (workspace.run_directory("old") / "server.json").exists()
    finally:
        await stranger.communicate(b"\n")
