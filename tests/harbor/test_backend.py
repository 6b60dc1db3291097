"""HarborBackend in this process, on real sandboxes of bubblewrap (rollout_protocol section 13)."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from harbor.models.environment_type import EnvironmentType
from harbor.models.trial.config import EnvironmentConfig
from harbor.trial.queue import TrialQueue

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, ErrorCategory, RolloutStatus
from osmosis.pure.sandbox_reach import reach
from osmosis.shell.rollout.context import RolloutContext
from osmosis.shell.rollout.harbor.evidence import trial_evidence_inventory
from osmosis.shell.rollout.types.execution import ExecutionRequest
from osmosis_ai.rollout.backend.harbor import HarborBackend, TaskMode
from tests.harbor.harbor_workspace import BUBBLEWRAP, HERE, descendants, write_task
from tests.integration.workspaces import eventually


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Where rollouts leave their files."""
    root = tmp_path / "kept"
    monkeypatch.setenv(ARTIFACT_ROOT_ENV, str(root))
    return root


@pytest.fixture
def tasks(tmp_path, bubblewrap):
    """A directory of tasks."""
    write_task(tmp_path / "tasks" / "good", solved=True)
    write_task(tmp_path / "tasks" / "slow", solved=True)
    (tmp_path / "tasks" / "slow" / "solution" / "solve.sh").write_text("#!/bin/bash\nsleep 600\n")
    write_task(tmp_path / "tasks" / "broken", solved=True)
    (tmp_path / "tasks" / "broken" / "environment" / "Dockerfile").write_text("FROM x\nRUN echo no luck >&2; exit 3\n")
    write_task(tmp_path / "tasks" / "links", solved=True)
    (tmp_path / "tasks" / "links" / "environment" / "link").symlink_to("/etc/passwd")
    return tmp_path / "tasks"


def backend(tasks, tmp_path, **options):
    """A backend with the oracle in bubblewrap."""
    given = {
        "orchestrator": TrialQueue(2),
        "tasks_dir": tasks,
        "agent": "oracle",
        "task_mode": "dataset",
        "environment_config": EnvironmentConfig(import_path=BUBBLEWRAP),
        "trials_dir": tmp_path / "trials",
    }
    return HarborBackend(**(given | options))


def request(task, rollout_id="r", **options):
    """A rollout of a task."""
    return ExecutionRequest(id=rollout_id, prompt=[], label="L", metadata={"harbor_task_id": task}, **options)


async def test_a_trial_from_task_to_files(root, tasks, tmp_path):
    """Reward, status, diagnostics, logs, sound evidence; the trial's own directory is gone, the task as it was."""
    before = {path: path.read_bytes() for path in tasks.rglob("*") if path.is_file()}
    harbor = backend(tasks, tmp_path)
    with RolloutContext(rollout_id="r", process_id="p", api_key="a-secret-key"):
        outcome = await harbor.execute(request("good"))
    assert (outcome.result.status, outcome.result.sample.reward) == (RolloutStatus.SUCCESS, 1.0)
    assert outcome.result.extra_fields["phase"] == "grading"
    assert harbor.rollout_status("r") == {"status": RolloutStatus.SUCCESS, "reward": 1.0, "err_message": None}
    assert (root / "r" / "logs" / "agent" / "oracle.txt").exists()
    assert trial_evidence_inventory(root, ["r", "other"], "p")["r"] is not None
    assert trial_evidence_inventory(root, ["r", "other"], "q") == {"r": None, "other": None}
    assert list((tmp_path / "trials").iterdir()) == []
    assert {path: path.read_bytes() for path in tasks.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("task", "options", "said", "category"),
    [
        ("missing", {}, "no task directory", ErrorCategory.VALIDATION_ERROR),
        ("../x", {}, "below the tasks directory", ErrorCategory.VALIDATION_ERROR),
        ("links", {}, "neither a file nor a directory", ErrorCategory.VALIDATION_ERROR),
        ("good", {"agent_timeout_sec": 0.0}, "workflow exceeded its 0.0s deadline", ErrorCategory.TIMEOUT),
        ("broken", {}, "no luck", ErrorCategory.AGENT_ERROR),
        ("slow", {"agent_timeout_sec": 1.0}, "timed out", ErrorCategory.TIMEOUT),
    ],
)
async def test_what_fails_before_the_verdict_says_why(root, tasks, tmp_path, task, options, said, category):
    """Each as this rollout's failure, with a phase in its diagnostics."""
    outcome = await backend(tasks, tmp_path).execute(request(task, **options))
    assert outcome.result.status is RolloutStatus.FAILURE
    assert said in outcome.result.err_message
    assert outcome.result.err_category is category
    assert outcome.result.extra_fields["phase"] in ("setup", "environment_setup", "agent")


@pytest.mark.parametrize("rollout_id", ["a:b", "a\nb"])
async def test_ids_that_harbor_cannot_use_escape_as_errors(root, tasks, tmp_path, rollout_id):
    """The server makes a failure of them."""
    with pytest.raises(ValueError, match="cannot be the id"):
        await backend(tasks, tmp_path).execute(request("good", rollout_id))


async def test_load_capacity_and_cancellation(root, tasks, tmp_path):
    """Queue and running are told apart; a cancelled rollout leaves evidence alone, and no process."""
    harbor = backend(tasks, tmp_path, orchestrator=TrialQueue(1), max_queue_depth=1)
    assert harbor.has_capacity()
    before = descendants(os.getpid())
    working = [asyncio.create_task(harbor.execute(request("slow", f"r{number}"))) for number in range(2)]
    await eventually(lambda: (harbor.health()["running"], harbor.health()["queued"]) == (1, 1))
    assert not harbor.has_capacity()
    assert harbor.health()["in_flight"] == 2
    with pytest.raises(ValueError, match="exactly one selector"):
        harbor.cancel_rollouts()
    statuses = {rollout_id: harbor.rollout_status(rollout_id)["status"] for rollout_id in ("r0", "r1")}
    running = next(rollout_id for rollout_id, status in statuses.items() if status is RolloutStatus.RUNNING)
    queued = "r1" if running == "r0" else "r0"
    assert harbor.cancel_rollouts(ids=[running, queued, "nobody"]) == {
        running: "cancelled_running",
        queued: "cancelled_queued",
        "nobody": "not_found",
    }
    outcomes = await asyncio.gather(*working)
    assert {outcome.result.status for outcome in outcomes} == {RolloutStatus.CANCELLED}
    assert harbor.rollout_status(running)["status"] is RolloutStatus.CANCELLED
    assert harbor.cancel_rollouts(all=True) == {}
    assert not (root / running / "logs").exists()
    assert list((tmp_path / "trials").iterdir()) == []
    assert descendants(os.getpid()) <= before


@pytest.mark.parametrize("kind", list(EnvironmentType))
def test_every_environment_is_accepted_and_told(tasks, tmp_path, kind):
    """Also those whose provider is not installed; the health report says which of them need a public URL."""
    harbor = backend(tasks, tmp_path, agent="terminus-2", environment_config=EnvironmentConfig(type=kind))
    endpoint = harbor.health()["chat_endpoint"]
    assert endpoint["environment"] == kind.value
    assert endpoint["requires_public_url"] is (reach(kind.value, sys.platform) == "not")
    assert backend(tasks, tmp_path, environment_config=EnvironmentConfig(type=kind)).health()["chat_endpoint"] == {
        "environment": kind.value,
        "requires_public_url": False,
    }


async def test_a_sandbox_that_cannot_reach_the_model_is_not_made(root, tasks, tmp_path):
    """The error names the ways."""
    harbor = backend(tasks, tmp_path, agent="opencode", environment_config=EnvironmentConfig(type="daytona"))
    with RolloutContext(rollout_id="r", chat_completions_url="http://127.0.0.1:1/v1"):
        outcome = await harbor.execute(request("good"))
    assert "--advertise-url" in outcome.result.err_message
    assert outcome.result.err_category is ErrorCategory.VALIDATION_ERROR


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"agent": None}, ValueError, "agent is missing"),
        ({"agent": "nobody"}, ValueError, "mini-swe-agent, opencode, oracle, terminus-2"),
        ({"agent": "m:W", "native_agent_kwargs": {"a": 1}}, ValueError, "native agents"),
        ({"max_queue_depth": 0}, ValueError, "at least 1"),
        ({"prewarm": "warm"}, ValueError, "prewarm must be one of"),
        ({"verified_tasks": "good"}, TypeError, "collection"),
        ({"patch_dockerfile_with_sdk": True}, ValueError, "needs a bundle"),
        ({"task_mode": "both"}, ValueError, "task_mode"),
        ({"bundle": __file__}, ValueError, "not a wheel"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(tasks, tmp_path, options, error, said):
    """When the backend is made, not when the first row fails."""
    with pytest.raises(error, match=said):
        backend(tasks, tmp_path, **options)
    assert TaskMode("dataset") is TaskMode.DATASET


async def test_prewarm_finds_broken_tasks(root, tasks, tmp_path):
    """One broken task of several fails fast afterwards; if it is the only one, the server does not start."""
    harbor = backend(tasks, tmp_path, prewarm="full")
    summary = await harbor.prewarm(["good", "slow", "broken"])
    assert summary.tried == ("good", "slow", "broken")
    assert list(harbor.failed_prewarm_tasks) == ["broken"]
    assert "no luck" in harbor.failed_prewarm_tasks["broken"]
    outcome = await harbor.execute(request("broken"))
    assert "The prewarm of task broken failed" in outcome.result.err_message
    with pytest.raises(RuntimeError, match="the only task failed"):
        async with harbor.prewarm_lifespan(["broken"])(None):
            pass
    assert (await harbor.prewarm(prewarm="off")).tried == ()
    assert harbor.prewarm_summary.mode == "off"


async def test_a_verified_task_needs_no_prewarm(root, tasks, tmp_path):
    """Unless it has a health check, which then runs alone."""
    harbor = backend(tasks, tmp_path, verified_tasks={"good", "slow"})
    text = (tasks / "slow" / "task.toml").read_text()
    (tasks / "slow" / "task.toml").write_text(f'{text}[environment.healthcheck]\ncommand = "test -d /app"\n')
    summary = await harbor.prewarm(["good", "slow"])
    assert (summary.tried, summary.skipped, summary.failures) == (("slow",), ("good",), ())


async def test_a_bundled_grader_grades_a_native_agent(root, tasks, tmp_path):
    """The oracle's work, by the rollout's own grader, since the task has no tests; a task's own tests win over it."""
    package = HERE / "probe"
    project = tmp_path / "project"
    (project / "probe").mkdir(parents=True)
    for path in package.glob("*.py"):
        (project / "probe" / path.name).write_bytes(path.read_bytes())
    (project / "pyproject.toml").write_text(
        '[project]\nname = "probe"\nversion = "1"\ndependencies = ["httpx"]\n'
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    )
    (tasks / "slow" / "solution" / "solve.sh").write_text("#!/bin/bash\ntrue\n")
    (tasks / "slow" / "tests" / "test.sh").unlink()
    (tasks / "slow" / "tests").rmdir()
    harbor = backend(tasks, tmp_path, grader="probe.work:Exact", code_dir=project)
    graded, tested = await asyncio.gather(harbor.execute(request("slow", "g")), harbor.execute(request("good", "t")))
    assert graded.result.sample.reward == 0.0  # Nothing to grade: the oracle has no conversation.
    assert tested.result.sample.reward == 1.0
