"""The crash matrix from end to end: real processes, real SIGKILL, real full disks (ruling 28; issue 3, must-show 1).

The moment of each death is an event that the test sees: a model call that the provider holds back, or a line that the command
prints. `eval verify` has the last word on every run.
"""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.dying_command import dying
from tests.integration.stub_model import StubModel
from tests.integration.survival import NAME, durable, finish_and_check
from tests.integration.workspaces import Command, Workspace, eventually

pytestmark = pytest.mark.slow

ROWS = 4
MANY = 40
"""Rows enough for their records to need more than the rest of a page."""
MILESTONES = ("checking model", "syncing rollout dependencies", "starting rollout server", "rollout server healthy")


async def kill(running: Command) -> None:
    """The process ends here and now."""
    running.signal(signal.SIGKILL)
    assert (await running.end()).code == -signal.SIGKILL


@contextmanager
def tmpfs(place: Path) -> Iterator[bool]:
    """Four megabytes of memory as a disk of its own at `place`; False where this user may not mount one."""
    place.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, check=False)
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path) -> None:
    """Leave no page free."""
    with suppress(OSError), (place / "balloon").open("wb", buffering=0) as balloon:
        while balloon.write(b"\0" * 4096):
            pass


def limit_files(pid: int, size: int) -> None:
    """No file of this process grows beyond `size`: the system cuts a write there, and refuses the next."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("held", range(ROWS))
async def test_killed_while_a_model_call_is_out(held: int, workspace: Workspace, model: StubModel) -> None:
    """Dispatched, and no result: the rows before it stay, it runs again."""
    workspace.write_rows(*[f"{'held' if row == held else 'echo'} {row}" for row in range(ROWS)])
    async with workspace.start("--name", NAME, "--max-in-flight", "1") as running:
        await model.wait_calls(1, "held")
        await kill(running)
    assert durable(workspace) == set(range(held))
    await finish_and_check(workspace, model, ROWS)


@pytest.mark.parametrize("milestone", MILESTONES)
async def test_killed_while_it_prepares(milestone: str, workspace: Workspace, model: StubModel) -> None:
    """Nothing is dispatched yet, or just so; whatever was created serves the next start."""
    workspace.write_rows(*[f"held {row}" for row in range(ROWS)])
    async with workspace.start("--name", NAME) as running:
        await running.until(milestone)
        await kill(running)
    await finish_and_check(workspace, model, ROWS)


@pytest.mark.parametrize("results", range(1, ROWS))
async def test_killed_after_a_result(results: int, workspace: Workspace, model: StubModel) -> None:
    """A result is in the journal; its projections and the next dispatch are on their way."""
    workspace.write_rows(*[f"{'echo' if row < results else 'held'} {row}" for row in range(ROWS)])
    async with workspace.start("--name", NAME, "--max-in-flight", "1", "--verbose", "--plain") as running:
        await running.until("[result]", results)
        await kill(running)
    assert durable(workspace) == set(range(results))
    await finish_and_check(workspace, model, ROWS)


async def test_killed_after_the_last_result(workspace: Workspace, model: StubModel) -> None:
    """Every result is in the journal and shown; the run is not over while its server stops, and dies there."""
    workspace.write_rows(*[f"echo {row}" for row in range(ROWS)])
    flags = ("--name", NAME, "--max-in-flight", "1", "--verbose", "--plain")
    async with workspace.start(*flags, wrapped=dying("os.remove:server.json")) as running:
        ended = await running.end()
    assert (ended.code, ended.err.count("[result]")) == (-signal.SIGKILL, ROWS), ended
    assert durable(workspace) == set(range(ROWS))
    await finish_and_check(workspace, model, ROWS)


async def test_killed_again_while_it_resumes(workspace: Workspace, model: StubModel) -> None:
    """Three processes, two of them killed: what the first one finished is never run again."""
    workspace.write_rows("echo 0", "held 1", "held 2", "held 3")
    for calls in (1, 2):
        async with workspace.start("--name", NAME, "--max-in-flight", "1") as running:
            await model.wait_calls(calls, "held")
            await kill(running)
    assert durable(workspace) == {0}
    await finish_and_check(workspace, model, ROWS)
    assert model.calls["echo 0"] == 1


@pytest.mark.parametrize("room", [1, 40, 200])
async def test_a_record_cut_in_the_middle(room: int, workspace: Workspace, model: StubModel) -> None:
    """The system takes the first bytes of a record and refuses the rest: the run says so, and nothing torn stays behind."""
    workspace.write_rows("echo 0", "held 1", "held 2", "held 3")
    journal = workspace.run_directory(NAME) / "events.jsonl"
    async with workspace.start("--name", NAME, "--max-in-flight", "3", "--json") as running:
        await model.wait_calls(3, "held")
        await eventually(lambda: durable(workspace) == {0})
        size = journal.stat().st_size
        limit_files(running.process.pid, size + room)
        model.release()
        ended = await running.end()
    assert ended.code == 1, ended
    assert "Traceback" not in ended.said
    assert "cannot be written" in ended.resource["halt_reason"]
    assert journal.read_bytes().endswith(b"\n")
    await finish_and_check(workspace, model, ROWS)


@pytest.mark.parametrize("held", [0, 2])
async def test_a_full_disk(held: int, workspace: Workspace, model: StubModel) -> None:
    """The disk is full when a result comes: the run stops and says so, and goes on once there is room.

    Where no disk may be mounted, a limit on the size of files stands in for it.
    """
    workspace.write_rows(*[f"{'held' if row == held else 'echo'} {row}" for row in range(MANY)])
    with tmpfs(workspace.runs) as mounted:
        async with workspace.start("--name", NAME, "--max-in-flight", "1", "--json") as running:
            await model.wait_calls(1, "held")
            if mounted:
                fill(workspace.runs)
            else:
                limit_files(running.process.pid, 1)
            model.release()
            ended = await running.end()
        assert ended.code == 1, ended
        assert "Traceback" not in ended.said
        assert "cannot be written" in ended.resource["halt_reason"]
        (workspace.runs / "balloon").unlink(missing_ok=True)
        await finish_and_check(workspace, model, MANY)
