"""LocalBackend on a real event loop: slots, queueing, fresh objects for each rollout, artifacts (rollout_protocol 5)."""

from __future__ import annotations

import asyncio
import re

import pytest

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, ErrorCategory, RolloutStatus
from osmosis.shell.rollout.agent_workflow import AgentWorkflow
from osmosis.shell.rollout.context import get_rollout_context
from osmosis.shell.rollout.grader import Grader
from osmosis.shell.rollout.local_backend import LocalBackend
from osmosis.shell.rollout.types.config import AgentWorkflowConfig, GraderConfig
from osmosis.shell.rollout.types.execution import ExecutionRequest


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Rollouts leave their files here."""
    monkeypatch.setenv(ARTIFACT_ROOT_ENV, str(tmp_path / "trials"))
    return tmp_path / "trials"


class Gated(AgentWorkflow[AgentWorkflowConfig]):
    """Reports that it started, then waits for the test."""

    started: asyncio.Queue[str]
    release: asyncio.Event

    async def run(self, ctx):
        """Wait."""
        context = get_rollout_context()
        assert context is not None
        self.started.put_nowait(context.rollout_id)
        await self.release.wait()
        return [*ctx.prompt, {"role": "assistant", "content": "done"}]


@pytest.fixture
async def gated():
    """A workflow class of this test's own event loop."""
    return type("OwnGated", (Gated,), {"started": asyncio.Queue(), "release": asyncio.Event()})


def request(rollout_id, **fields):
    """A rollout that is not graded."""
    return ExecutionRequest(id=rollout_id, prompt=[], grade=False, **fields)


async def test_slots_are_taken_in_order(gated):
    """Two run, two wait, and the report says so; then the next in line runs."""
    config = AgentWorkflowConfig.model_validate({"name": "w", "concurrency": {"max_concurrent": 2}})
    backend = LocalBackend(workflow=gated, workflow_config=config)
    tasks = [asyncio.create_task(backend.execute(request(name))) for name in "abcd"]
    first = {await gated.started.get(), await gated.started.get()}
    assert first == {"a", "b"}
    assert gated.started.empty()
    assert backend.health()["concurrency"] == {"max_concurrent": 2, "queued": 2, "running": 2}
    gated.release.set()
    outcomes = await asyncio.gather(*tasks)
    assert {outcome.result.status for outcome in outcomes} == {RolloutStatus.SUCCESS}
    assert backend.health()["concurrency"] == {"max_concurrent": 2, "queued": 0, "running": 0}


async def test_waiting_for_a_slot_counts_against_the_workflow(gated):
    """A rollout whose time was over before its turn fails without having started; who had its turn at once waited no time."""
    config = AgentWorkflowConfig.model_validate({"name": "w", "concurrency": {"max_concurrent": 1}})
    backend = LocalBackend(workflow=gated, workflow_config=config)
    first = asyncio.create_task(backend.execute(request("first")))
    assert await gated.started.get() == "first"
    waiting = asyncio.create_task(backend.execute(request("late", agent_timeout_sec=0.2)))
    while backend.health()["concurrency"]["queued"] == 0:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0)
    # Its time began before this moment, so it is over before the slot is free.
    asyncio.get_running_loop().call_later(0.2, gated.release.set)
    late = await waiting
    assert (await first).result.status is RolloutStatus.SUCCESS
    assert late.result.err_category == "timeout"
    assert re.fullmatch(r"workflow exceeded its 0\.2s deadline \(\d+\.\ds of it spent queued\)", late.result.err_message or "")
    assert gated.started.empty()
    gated.release.clear()
    alone = await backend.execute(request("alone", agent_timeout_sec=0.2))
    assert alone.result.err_message == "workflow exceeded its 0.2s deadline"


async def test_a_cancelled_wait_gives_its_place_back(gated):
    """Cancelling who waits and who runs leaves no slot taken."""
    backend = LocalBackend(workflow=gated)
    tasks = [asyncio.create_task(backend.execute(request(str(number)))) for number in range(6)]
    for _ in range(4):
        await gated.started.get()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert backend.health()["concurrency"] == {"max_concurrent": 4, "queued": 0, "running": 0}


async def test_each_rollout_has_its_own_configuration():
    """What one workflow does to its configuration the next does not see."""
    seen = []

    class Editing(AgentWorkflow[AgentWorkflowConfig]):
        async def run(self, ctx):
            assert self.config is not None
            seen.append((self.config.name, ctx.config is self.config))
            self.config.name = "edited"
            return []

    backend = LocalBackend(workflow=Editing, workflow_config=AgentWorkflowConfig(name="given"))
    for name in "ab":
        await backend.execute(request(name))
    assert seen == [("given", True)] * 2


async def test_the_grader_gets_its_configuration_and_the_label(root):
    """And writes to the same artifacts directory as the workflow."""
    config = GraderConfig(name="g")

    class Workflow(AgentWorkflow[AgentWorkflowConfig]):
        async def run(self, ctx):
            assert not hasattr(ctx, "label")
            return []

    class Careful(Grader):
        async def grade(self, ctx):
            assert self.config is config
            assert (ctx.label, ctx.metadata, ctx.project_path) == ("4", {"k": 1}, None)
            assert ctx.artifacts_dir == root / "r" / "artifacts"
            assert ctx.artifacts_dir.is_dir()
            ctx.set_reward(1)

    backend = LocalBackend(workflow=Workflow, grader=Careful, grader_config=config)
    graded = ExecutionRequest(id="r", prompt=[], label="4", metadata={"k": 1})
    outcome = await backend.execute(graded)
    assert outcome.result.err_message is None
    assert outcome.result.sample is not None
    assert outcome.result.sample.reward == 1.0


async def test_an_unwritable_root_costs_only_the_artifacts(root, gated):
    """The rollout goes on without a directory."""
    root.write_text("a file where the directory should be")
    seen = []

    class Looking(AgentWorkflow[AgentWorkflowConfig]):
        async def run(self, ctx):
            seen.append(ctx.artifacts_dir)
            return []

    outcome = await LocalBackend(workflow=Looking).execute(request("r"))
    assert outcome.result.status is RolloutStatus.SUCCESS
    assert seen == [None]


class Outcome(BaseException):
    """Like the outcome exceptions of test frameworks, and panics of compiled libraries."""


async def _exit():
    raise SystemExit(2)


async def _interrupt():
    raise KeyboardInterrupt


async def _outcome():
    raise Outcome("not what was expected")


async def _await_a_cancelled_task():
    task = asyncio.ensure_future(asyncio.sleep(3600))
    task.cancel()
    await task


LEAVINGS = {
    _exit: "SystemExit: 2",
    _interrupt: "KeyboardInterrupt",
    _outcome: "Outcome: not what was expected",
    _await_a_cancelled_task: "CancelledError",
}


@pytest.mark.parametrize("leave", LEAVINGS)
@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize("where", ["workflow", "grader"])
async def test_code_that_leaves_fails_its_own_rollout_alone(leave, limit, where):
    """`sys.exit`, `KeyboardInterrupt`, other exceptions that are no `Exception`, and a cancellation that nobody asked the
    rollout for are its failure, with a message. They neither end the server nor leave the item pending for ever."""

    class Leaving(AgentWorkflow[AgentWorkflowConfig]):
        async def run(self, ctx):
            if where == "workflow":
                await leave()
            return [{"role": "assistant", "content": "done"}]

    class LeavingGrader(Grader):
        async def grade(self, ctx):
            await leave()

    backend = LocalBackend(workflow=Leaving, grader=LeavingGrader)
    grading = ExecutionRequest(id="a", prompt=[], label="x", grade=True, agent_timeout_sec=limit, grader_timeout_sec=limit)
    task = asyncio.create_task(backend.execute(grading))
    await asyncio.wait({task})
    result = task.result().result
    assert (result.status, result.err_message) == (RolloutStatus.FAILURE, LEAVINGS[leave])
    assert result.err_category is ErrorCategory.AGENT_ERROR


async def test_a_rollout_that_is_cancelled_stays_cancelled(gated):
    """A cancellation from outside is no failure of the rollout, whatever else it waits for."""
    backend = LocalBackend(workflow=gated)
    task = asyncio.create_task(backend.execute(request("a", agent_timeout_sec=60.0)))
    await gated.started.get()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
