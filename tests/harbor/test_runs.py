"""Whole evaluations in real sandboxes, from `osmosis eval run` to metrics (issue 5, must show 3 and 5; E3, E24)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from osmosis.shell.rollout.harbor.evidence import verify_trial_evidence
from tests.harbor.harbor_workspace import ORACLE, WORKFLOW, HarborWorkspace, descendants, left_alive
from tests.integration.workspaces import eventually

EVERY_KIND = pytest.mark.parametrize("harbor", ["bubblewrap", "docker", "podman"], indirect=True)
ONE_OF_EACH = pytest.mark.parametrize("harbor", ["bubblewrap", "docker"], indirect=True)
"""One sandbox of ours and one of an engine: podman differs from docker only in what `EVERY_KIND` covers."""


@pytest.fixture
def harbor(request) -> HarborWorkspace:
    """A workspace in a kind of sandbox."""
    return request.getfixturevalue(f"in_{request.param}")


async def findings(harbor: HarborWorkspace, name: str) -> list[object]:
    """What `eval verify` has to say: also that no sandbox's files reached a trial after its result."""
    found: list[object] = (await harbor.workspace.run(words=["eval", "verify", name, "--json"])).resource["findings"]
    return found


@EVERY_KIND
async def test_the_oracle_earns_its_reward(harbor):
    """The task's own solution runs in a sandbox, its tests grade it, and the metrics say that every row passed."""
    harbor.workspace.write_rows("echo one", "echo two")
    ended = await harbor.run("oracle", ORACLE)
    assert ended.code == 0, ended.said
    assert [row["reward"] for row in harbor.workspace.index("oracle")] == [1.0, 1.0]
    assert harbor.workspace.metrics("oracle")["summary"]["pass_rate"] == 1.0


@EVERY_KIND
async def test_a_workflow_and_its_grader_run_inside(harbor, model):
    """The workflow calls the model from its sandbox, the grader scores it there, and everything comes back: rewards, a failure,
    a skip, tokens, trajectories, artifacts of both, evidence, and no key in any file."""
    harbor.workspace.write_rows(
        "echo right", "echo wrong", "fail at once", "echo skip", labels={"echo wrong": "other", "echo skip": "discard"}
    )
    ended = await harbor.run("work", WORKFLOW)
    assert ended.code == 0, ended.said
    rows = {row["row_index"]: row for row in harbor.workspace.index("work")}
    assert [(rows[index]["status"], rows[index].get("reward")) for index in range(4)] == [
        ("success", 1.0),
        ("success", 0.0),
        ("failed", None),
        ("skipped", None),
    ], ended.said
    assert rows[2]["error_type"] == "validation_error"
    assert rows[0]["tokens"] > 0
    run = harbor.workspace.run_directory("work")
    artifacts = run / "artifacts" / "row_0_run_0" / "logs" / "artifacts"
    assert (artifacts / "graded.txt").read_text() == "echo right"
    assert "echo right" in (artifacts / "answer.txt").read_text()
    assert (artifacts / "key.txt").read_text() == "the key is [REDACTED]"
    assert (run / "trajectories" / "row_0_run_0.json").exists()
    verify_trial_evidence(run / "rollout_trials" / rows[0]["rollout_id"] / "harbor", rows[0]["rollout_id"])
    assert not list(harbor.trials.glob(f"*{rows[0]['rollout_id']}*"))
    assert await findings(harbor, "work") == []


@EVERY_KIND
async def test_an_interrupt_leaves_nothing_behind(harbor, model):
    """Ctrl-C while a workflow waits for the model: exit code 130, and no process and no container of the run is left."""
    harbor.workspace.write_rows("held one", "held two")
    async with harbor.workspace.start("--name", "stop", *harbor.flags, HARBOR_TEST=harbor.described(WORKFLOW)) as running:
        await eventually(lambda: model.count("held") == 2 or running.process.returncode is not None, 180)
        assert model.count("held") == 2, running.err
        below = descendants(running.process.pid)
        assert containers(harbor)
        running.signal(signal.SIGINT)
        ended = await running.end()
    assert ended.code == 130, ended.said
    await eventually(lambda: not left_alive(below))
    assert not containers(harbor, all_of_them=True)


@ONE_OF_EACH
async def test_a_killed_server_leaves_nothing_behind(harbor, model):
    """A second interrupt gives the server no time; whatever it leaves of its sandboxes is removed all the same."""
    harbor.workspace.write_rows("held one")
    async with harbor.workspace.start("--name", "kill", *harbor.flags, HARBOR_TEST=harbor.described(WORKFLOW)) as running:
        await eventually(lambda: model.count("held") == 1 or running.process.returncode is not None, 180)
        assert model.count("held") == 1, running.err
        below = descendants(running.process.pid)
        running.process.kill()
        for pid in below:
            # The server as well, as if the machine had run out of memory; its own children it may no longer look after.
            if b"main.py" in _command(pid):
                _kill(pid)
        await running.end()
    await eventually(lambda: not left_alive(below), 180)
    await eventually(lambda: not containers(harbor, all_of_them=True), 180)


@ONE_OF_EACH
async def test_hostile_artifacts_stay_where_they_are(harbor, model):
    """Links, pipes, sockets, devices, giants and odd names among the artifacts are neither followed nor read nor published;
    each is named with a reason, and the honest files beside them come out."""
    harbor.workspace.write_rows("hostile row")
    ended = await harbor.run("hostile", WORKFLOW)
    assert ended.code == 0, ended.said
    assert harbor.workspace.metrics("hostile")["summary"]["pass_rate"] == 1.0
    published = harbor.workspace.run_directory("hostile") / "artifacts" / "row_0_run_0"
    names = {path.relative_to(published).as_posix() for path in published.rglob("*") if not path.is_dir()}
    honest = {"answer.txt", "key.txt", "graded.txt", "honest.txt", "deep/er/honest.txt"}
    allowed = {f"logs/artifacts/{name}" for name in honest | {"no-device.txt", "no-giant.txt"}}
    assert {f"logs/artifacts/{name}" for name in honest} <= names <= allowed, names
    assert not [path for path in published.rglob("*") if path.is_symlink()]
    trial = harbor.trial("hostile")
    said = (trial / "logs" / "trial.log").read_text() + (trial / "diagnostics.json").read_text()
    for name in ("link.txt", "up.txt", "directory", "pipe", "socket", "slash.txt", "line.txt"):
        assert name in said, said
    assert await findings(harbor, "hostile") == []


async def test_a_bubblewrap_sandbox_reaches_the_model_and_nothing_else(in_bubblewrap, model, tmp_path):
    """No network, no port of this machine but the model's, no directory of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        in_bubblewrap.workspace.write_rows(f"poke {other.getsockname()[1]} {tmp_path}")
        ended = await in_bubblewrap.run("poke", WORKFLOW)
    assert ended.code == 0, ended.said
    assert (in_bubblewrap.trial("poke") / "artifacts/logs/artifacts/reached.txt").read_text() == ""


async def test_docker_without_a_way_to_the_model_is_refused_by_the_run(in_docker):
    """Without a flag the run looks for a tunnel; the machine has none, and the error names the flag that would help."""
    in_docker.workspace.environment["PATH"] = _path_without(in_docker.workspace.environment["PATH"], "cloudflared")
    ended = await in_docker.workspace.run("--name", "lost", HARBOR_TEST=in_docker.described(WORKFLOW))
    assert ended.code == 1
    assert "docker sandbox cannot reach" in ended.said


def containers(harbor, *, all_of_them=False):
    """The containers of the workspace's engine; for bubblewrap whatever is true while something runs."""
    if harbor.kind == "bubblewrap":
        return [] if all_of_them else ["bubblewrap has none"]
    command = [harbor.kind, "ps", "--quiet", *(["--all"] if all_of_them else [])]
    done = subprocess.run(command, env=harbor.workspace.environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def _path_without(path, program):
    kept = [part for part in path.split(os.pathsep) if shutil.which(program, path=part) is None]
    return os.pathsep.join(kept)


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
