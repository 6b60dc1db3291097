"""Interrupts at every stage of a run (E24; issue 3, must show 5)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Workspace, alive, eventually, group_members

pytestmark = pytest.mark.slow

STUBBORN = """
import asyncio

class Stubborn(Echo):
    async def run(self, ctx):
        try:
            return await super().run(ctx)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)
            raise

Echo = Stubborn
"""


def has_reader(pipe: Path, writers: list[int]) -> bool:
    """Whether somebody has opened `pipe` to read; `writers` then holds its other end, so that the reader comes to wait."""
    try:
        writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def waits_in_a_pipe(pid: int) -> bool:
    """Whether the process sleeps in a read of a pipe. Python hears a signal that comes just before only behind that read."""
    return "pipe_read" in Path(f"/proc/{pid}/wchan").read_text()


def cleans_up_for_an_hour(workspace: Workspace) -> None:
    """Make the rollout's clean-up take as long as it is allowed to."""
    main = workspace.project / "main.py"
    source = main.read_text()
    position = source.index("\ndef leak")
    main.write_text(source[:position] + STUBBORN + source[position:])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_one_interrupt_ends_the_run_and_resume_completes_it(
    workspace: Workspace, model: StubModel, number: signal.Signals
) -> None:
    """Ctrl-C, SIGTERM and SIGHUP alike: the slow model call is abandoned, the report is there, the rest stays pending."""
    workspace.write_rows("echo one", "held two", "held three")
    async with workspace.start("--name", "cut", "--json") as running:
        await model.wait_calls(2, "held")
        await eventually(lambda: len(workspace.records("cut", "result")) == 1)
        server = workspace.server("cut")
        running.signal(number)
        ended = await running.end()
    assert (ended.code, ended.err) == (130, "")
    assert ended.envelope["status"] == "interrupted"
    assert (ended.resource["pending"], ended.resource["succeeded"], ended.resource["cancelled"]) == (2, 1, True)
    await eventually(lambda: model.abandoned == 2)
    assert group_members(server["pgid"]) == []
    assert not (workspace.run_directory("cut") / "server.json").exists()
    assert workspace.metrics("cut")["eval_run"]["status"] == "incomplete"
    assert workspace.records("cut", "invocation.ended")[-1]["ending"] == "interrupted"
    model.release()
    assert (await workspace.run("--name", "cut")).code == 0
    assert model.count("echo") == 1


async def test_the_first_interrupt_says_what_happens_and_the_second_cuts_the_wait(
    workspace: Workspace, model: StubModel
) -> None:
    """Clean-up that takes long is announced with its limit at once; the second Ctrl-C leaves five seconds."""
    cleans_up_for_an_hour(workspace)
    workspace.write_rows("held one", "held two")
    async with workspace.start("--name", "slow", "--plain") as running:
        await model.wait_calls(2, "held")
        server = workspace.server("slow")
        running.signal()
        await running.until("interrupted: cancelling 2 rollouts; up to 120 s for clean-up. Ctrl-C again to wait 5 s only")
        assert running.process.returncode is None
        running.signal()
        await running.until("interrupted again: the rollout server gets 5 s")
        ended = await running.end()
    assert ended.code == 130
    assert "Traceback" not in ended.said
    assert "2 pending" in ended.out
    assert group_members(server["pgid"]) == []


async def test_the_third_interrupt_leaves_at_once(workspace: Workspace, model: StubModel) -> None:
    """Three interrupts: gone without waiting, the server killed, the journal whole, resume completes.

    After the second the run gives itself five seconds, so the third comes together with it, as a signal that cannot be taken
    for the same one.
    """
    cleans_up_for_an_hour(workspace)
    workspace.write_rows("echo one", "held two")
    async with workspace.start("--name", "gone", "--plain") as running:
        await model.wait_calls(1, "held")
        await eventually(lambda: len(workspace.records("gone", "result")) == 1)
        server = workspace.server("gone")
        running.signal()
        await running.until("interrupted: cancelling 1 rollout;")
        running.signal()
        running.signal(signal.SIGTERM)
        await running.until("interrupted a third time")
        ended = await running.end()
    assert "interrupted again" in ended.err
    assert ended.code == 130
    assert "Traceback" not in ended.said
    await eventually(lambda: not group_members(server["pgid"]))
    model.release()
    (workspace.run_directory("gone") / "events.jsonl").read_bytes().decode()
    assert (await workspace.run("--name", "gone", "--json")).resource["resumed"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_before_the_first_dispatch_leaves_nothing(workspace: Workspace, number: signal.Signals) -> None:
    """While the server is still starting: exit 130, no run directory, no process."""
    (workspace.project / "main.py").write_text("import time\nprint('waiting', flush=True)\ntime.sleep(3600)\n")
    async with workspace.start("--name", "early", "--json") as running:
        log = workspace.run_directory("early") / "logs.txt"
        await eventually(lambda: log.exists() and "waiting" in log.read_text())
        server = workspace.server("early")
        running.signal(number)
        ended = await running.end()
    assert ended.code == 130
    assert ended.envelope["status"] == "interrupted"
    assert ended.resource["pending"] == 3
    assert ended.err == ""
    assert workspace.nothing_left()
    assert group_members(server["pgid"]) == []


async def test_a_run_started_to_ignore_hangups_ignores_them(workspace: Workspace, model: StubModel) -> None:
    """`nohup osmosis eval run` survives the end of its terminal."""
    workspace.write_rows("held one")
    async with workspace.start("--name", "deaf", "--json", wrapped=["nohup"]) as running:
        await model.wait_calls(1)
        running.signal(signal.SIGHUP)
        running.signal(signal.SIGHUP)
        model.release()
        ended = await running.end()
    assert ended.code == 0
    assert ended.resource["succeeded"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_an_interrupt_while_inputs_are_read(workspace: Workspace, number: signal.Signals) -> None:
    """There is no plan to report on yet: exit 130 and an error envelope, nothing on standard output, nothing left behind."""
    inputs = workspace.root / "secrets"
    os.mkfifo(inputs)
    async with workspace.start("--secrets-file", str(inputs), "--json") as running:
        writers: list[int] = []
        await eventually(lambda: has_reader(inputs, writers))
        await eventually(lambda: waits_in_a_pipe(running.process.pid))
        running.signal(number)
        ended = await running.end()
    os.close(*writers)
    error = json.loads(ended.err)
    assert (ended.code, ended.out) == (130, "")
    assert (error["command"], error["error"]["code"]) == ("eval run", "INTERRUPTED")
    assert workspace.nothing_left()


async def test_an_interrupt_during_the_model_check(workspace: Workspace, model: StubModel) -> None:
    """While the provider has not answered the first question: exit 130 at once, and nothing was created."""
    model.holds_preflight = True
    async with workspace.start("--plain") as running:
        await model.wait_calls(1, "hi")
        assert alive(running.process.pid)
        running.signal()
        ended = await running.end()
    assert ended.code == 130
    assert "Traceback" not in ended.said
    assert workspace.nothing_left()
