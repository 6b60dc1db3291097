"""The crash matrix from end to end, moment by moment: real processes die between two operations on a run's files (ruling 28).

Nothing of the product is replaced. A command dies by SIGKILL just before it opens, renames or removes a file of the list
(`dying_command.py`), in a new run, a resume, a retry, a new start over an old run, and a repair. Rollout servers are killed and
stopped as well, alone and together with the command. Whatever died, the same command once more has to end as if nothing had
been.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.dying_command import dying
from tests.integration.stub_model import StubModel
from tests.integration.survival import NAME, durable, finish_and_check, living_below, verified
from tests.integration.workspaces import Ended, Workspace, eventually

pytestmark = pytest.mark.slow

ROWS = 4
ALONE = ("--name", NAME, "--max-in-flight", "1")

EVIDENCE = "open:trajectory.json"
"""The files of a trial are made durable, one trial after the other."""
END = "os.rename:summary.jsonl"

NEW = {
    "sources": ["os.rename:source_files.json"],
    "rows": ["os.rename:dataset_rows.jsonl"],
    "manifest": ["os.rename:manifest.json"],
    "log": ["open:logs.txt"],
    "progress": ["os.rename:progress.json"],
    "server known": ["os.rename:server.json"],
    "journal": ["open:events.jsonl"],
    "first evidence": [EVIDENCE],
    "third evidence": [EVIDENCE] * 3,
    "trajectory": ["os.rename:trajectories/row_0_run_0.json"],
    "index": ["open:index.jsonl"],
    "server stopped": ["os.remove:server.json"],
    "summary": [END],
    "projections synced": [END, f"open:{NAME}/trajectories"],
    "final metrics": [END, "os.rename:metrics.json"],
}
RESUMED = {
    "metrics of the start": ["os.rename:metrics.json"],
    "server known": ["os.rename:server.json"],
    "journal": ["open:events.jsonl"] * 2,
    "evidence": [EVIDENCE],
    "trajectory": ["os.rename:trajectories/row_2_run_0.json"],
    "final index": ["os.rename:index.jsonl"],
    "final metrics": [END, "os.rename:metrics.json"],
}
RETRIED = {
    "metrics of the start": ["os.rename:metrics.json"],
    "evidence": [EVIDENCE],
    "final index": ["os.rename:index.jsonl"],
    "final metrics": [END, "os.rename:metrics.json"],
}
REPAIRED = {
    "trajectory": ["os.rename:trajectories/row_0_run_0.json"],
    "index": ["os.rename:index.jsonl"],
    "summary": [END],
    "progress": ["os.rename:progress.json"],
    "metrics": ["os.rename:metrics.json"],
}


async def dies(workspace: Workspace, moments: list[str], *flags: str, words: list[str] | None = None, **more: str) -> Ended:
    """The command dies in that moment; had it not come so far, it would have ended otherwise."""
    async with workspace.start(*flags, words=words, wrapped=dying(*moments), **more) as running:
        ended = await running.end()
    assert ended.code == -signal.SIGKILL, ended
    return ended


@pytest.mark.parametrize("moment", NEW)
async def test_a_new_run_dies(moment: str, workspace: Workspace, model: StubModel) -> None:
    """From the first file of a run to its last, there is no moment in which death costs a result or doubles one."""
    workspace.write_rows(*[f"echo {row}" for row in range(ROWS)])
    await dies(workspace, NEW[moment], *ALONE)
    await finish_and_check(workspace, model, ROWS)


@pytest.mark.parametrize("moment", RESUMED)
async def test_a_resume_dies(moment: str, workspace: Workspace, model: StubModel) -> None:
    """The second process dies as well, and what either of them finished is never run again."""
    workspace.write_rows(*[f"echo {row}" for row in range(ROWS)])
    await dies(workspace, [EVIDENCE] * 3, *ALONE)
    first = durable(workspace)
    assert first
    await dies(workspace, RESUMED[moment], *ALONE)
    await finish_and_check(workspace, model, ROWS)
    assert {model.calls[f"echo {row}"] for row in first} == {1}


@pytest.mark.parametrize("moment", RETRIED)
async def test_a_retry_dies(moment: str, workspace: Workspace, model: StubModel) -> None:
    """`--retry-failed` dies: successes are kept, failures are tried again until they are successes, each of them once."""
    workspace.write_rows("echo 0", "raise 1", "echo 2", "raise 3")
    model.release()
    assert (await workspace.run(*ALONE)).code == 0
    await dies(workspace, RETRIED[moment], *ALONE, "--retry-failed", HOLD_RAISE="1")
    ended = await workspace.run(*ALONE, "--retry-failed", HOLD_RAISE="1")
    assert ended.code == 0, ended
    assert [row["status"] for row in workspace.index(NAME)] == ["success"] * ROWS
    assert (model.calls["echo 0"], model.calls["echo 2"]) == (1, 1)
    won = Counter(record["item"][0] for record in workspace.records(NAME, "result") if record["status"] == "success")
    assert won == Counter(range(ROWS))
    await verified(workspace)


@pytest.mark.parametrize("moment", ["os.rename:/" + NAME, "os.mkdir:rollout_trials", "os.rename:manifest.json"])
async def test_starting_over_dies(moment: str, workspace: Workspace, model: StubModel) -> None:
    """`--fresh` dies before, between or after: the old run is whole under one of its two names, and a new one can be had."""
    workspace.write_rows(*[f"echo {row}" for row in range(ROWS)])
    assert (await workspace.run(*ALONE)).code == 0
    before = content(workspace.run_directory(NAME))
    await dies(workspace, [moment], *ALONE, "--fresh")
    moved = list(workspace.runs.glob(f"{NAME}.archive-*"))
    assert [content(path) for path in moved or [workspace.run_directory(NAME)]] == [before]
    await finish_and_check(workspace, model, ROWS)


def content(directory: Path) -> dict[str, bytes]:
    """Every file below `directory`."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("moment", REPAIRED)
async def test_a_repair_dies(moment: str, workspace: Workspace) -> None:
    """A repair that dies is repaired by the next one, and every projection is what it was, byte for byte."""
    workspace.write_rows(*[f"echo {row}" for row in range(ROWS)])
    assert (await workspace.run(*ALONE)).code == 0
    directory = workspace.run_directory(NAME)
    before = content(directory)
    for name in ("index.jsonl", "summary.jsonl", "progress.json", "metrics.json", "trajectories/row_0_run_0.json"):
        (directory / name).unlink()
    await dies(workspace, REPAIRED[moment], words=["eval", "verify", NAME, "--repair"])
    ended = await workspace.run(words=["eval", "verify", NAME, "--repair", "--json"])
    assert ended.code == 0, ended
    assert {name: data for name, data in content(directory).items() if name in before} == before
    await verified(workspace)


# --- Rollout servers ----------------------------------------------------------------------------------------------------------


def kill_server(workspace: Workspace) -> None:
    """The rollout server and all that it started end here and now."""
    os.killpg(workspace.server(NAME)["pgid"], signal.SIGKILL)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "with the command"])
@pytest.mark.parametrize("held", [0, 2])
async def test_the_server_is_killed(held: int, together: bool, workspace: Workspace, model: StubModel) -> None:
    """A rollout server dies while a model call is out, and with it, or not, the command that watches it."""
    workspace.write_rows(*[f"{'held' if row == held else 'echo'} {row}" for row in range(ROWS)])
    async with workspace.start(*ALONE, "--json") as running:
        await model.wait_calls(1, "held")
        if together:
            running.signal(signal.SIGKILL)
        kill_server(workspace)
        ended = await running.end()
    if not together:
        assert (ended.code, ended.resource["pending"], ended.resource["failed"]) == (1, ROWS - held, 0), ended
    assert durable(workspace) == set(range(held))
    await finish_and_check(workspace, model, ROWS)


async def test_a_server_that_dies_while_it_waits_is_replaced(workspace: Workspace, model: StubModel) -> None:
    """A server that dies before it got leave to begin costs nothing: another one takes its place.

    It starts beside the command where the environment is known to be in order, which a first run brings about.
    """
    workspace.write_rows("echo 0")
    assert (await workspace.run("--name", "earlier")).code == 0
    workspace.write_rows(*[f"echo {row}" for row in range(1, ROWS + 1)])
    model.holds_preflight = True
    async with workspace.start(*ALONE, "--json") as running:
        await model.wait_calls(1, "hi")
        await eventually(lambda: bool(servers_of(workspace)))
        for pid in servers_of(workspace):
            os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not servers_of(workspace))
        model.release()
        ended = await running.end()
    assert (ended.code, ended.resource["succeeded"]) == (0, ROWS), ended
    await finish_and_check(workspace, model, ROWS)


def servers_of(workspace: Workspace) -> list[int]:
    """The rollout servers of the workspace, those that wait for leave included. The command also starts what only lives for a
    moment, such as `git`."""
    return [pid for pid in living_below(workspace.root) if b"server_bootstrap.py" in command_line(pid)]


def command_line(pid: int) -> bytes:
    """What a process was started with; nothing of one that is gone, or has not begun yet."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_the_server_is_killed_while_a_run_resumes(workspace: Workspace, model: StubModel) -> None:
    """First the command is killed, then the server of its successor: what the first finished stays finished."""
    workspace.write_rows("echo 0", "held 1", "held 2", "echo 3")
    for calls, code in ((1, -signal.SIGKILL), (2, 1)):
        async with workspace.start(*ALONE) as running:
            await model.wait_calls(calls, "held")
            if code == 1:
                kill_server(workspace)
            else:
                running.signal(signal.SIGKILL)
            assert (await running.end()).code == code
    assert durable(workspace) == {0}
    await finish_and_check(workspace, model, ROWS)
    assert model.calls["echo 0"] == 1


async def test_the_server_is_killed_while_failures_are_retried(workspace: Workspace, model: StubModel) -> None:
    """A retry whose server dies keeps the successes and the old failures, and the next retry finishes it."""
    workspace.write_rows("echo 0", "raise 1", "echo 2", "raise 3")
    assert (await workspace.run(*ALONE)).code == 0
    async with workspace.start(*ALONE, "--retry-failed", "--json", HOLD_RAISE="1") as running:
        await model.wait_calls(1, "raise")
        kill_server(workspace)
        ended = await running.end()
    assert (ended.code, ended.resource["succeeded"], ended.resource["pending"]) == (1, 2, 2), ended
    model.release()
    assert (await workspace.run(*ALONE, "--retry-failed", HOLD_RAISE="1")).code == 0
    assert [row["status"] for row in workspace.index(NAME)] == ["success"] * ROWS
    assert (model.calls["echo 0"], model.calls["echo 2"]) == (1, 1)
    await verified(workspace)


SHORT_LEASES = "create_rollout_server(backend=backend, result_wait_timeout_sec=0.2, polling_lease_timeout_sec={lease})"


def shorten_leases(workspace: Workspace, lease: float) -> None:
    """The rollout's server waits and is waited for shortly."""
    main = workspace.project / "main.py"
    source = main.read_text()
    assert "create_rollout_server(backend=backend)" in source
    main.write_text(source.replace("create_rollout_server(backend=backend)", SHORT_LEASES.format(lease=lease)))


async def test_a_server_that_stands_still_is_given_up(workspace: Workspace, model: StubModel) -> None:
    """SIGSTOP: the server answers nothing more and dies of no SIGTERM. Once its lease is over it is given up, and killed."""
    # Long enough for a busy machine to ask again in time until the server stands still.
    shorten_leases(workspace, 20.0)
    workspace.write_rows("echo 0", "held 1", "held 2", "echo 3")
    async with workspace.start(*ALONE, "--json") as running:
        await model.wait_calls(1, "held")
        group = workspace.server(NAME)["pgid"]
        os.killpg(group, signal.SIGSTOP)
        ended = await running.end()
    assert (ended.code, ended.resource["pending"], ended.resource["failed"]) == (1, 3, 0), ended
    assert "does not tell the result" in ended.resource["halt_reason"]
    assert durable(workspace) == {0}
    await finish_and_check(workspace, model, ROWS)


async def test_a_server_that_only_stumbles_is_waited_for(workspace: Workspace, model: StubModel) -> None:
    """A server that stands still for less than its lease costs nothing: the run goes on, and no item is asked twice."""
    shorten_leases(workspace, 60.0)
    workspace.write_rows("held 0", "held 1", "echo 2", "echo 3")
    async with workspace.start("--name", NAME, "--max-in-flight", "2", "--json") as running:
        await model.wait_calls(2, "held")
        group = workspace.server(NAME)["pgid"]
        os.killpg(group, signal.SIGSTOP)
        model.release()
        os.killpg(group, signal.SIGCONT)
        ended = await running.end()
    assert (ended.code, ended.resource["succeeded"]) == (0, ROWS), ended
    assert set(model.calls.values()) == {1}
    await finish_and_check(workspace, model, ROWS)
