"""LocalBackend: workflow and grader in the server's own process (contract: rollout_protocol sections 4 and 5; E28)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from osmosis.pure.protocol import RolloutStatus
from osmosis.shell.rollout.agent_workflow import AgentWorkflow
from osmosis.shell.rollout.artifacts import artifact_root, prepare_artifacts_dir
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.context import AgentWorkflowContext, GraderContext, RolloutContext, get_rollout_context
from osmosis.shell.rollout.failure import DeadlineExceededError, error_category, error_text
from osmosis.shell.rollout.grader import Grader
from osmosis.shell.rollout.references import load_reference
from osmosis.shell.rollout.reward_grader import as_grader
from osmosis.shell.rollout.stored_samples import StoredSamples
from osmosis.shell.rollout.types.config import AgentWorkflowConfig, GraderConfig
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult
from osmosis.shell.rollout.types.output import coerce_output
from osmosis.shell.rollout.types.sample import RolloutSample

DEFAULT_MAX_CONCURRENT = 4

T = TypeVar("T")

RewardFunction = Callable[..., Any]
"""A function that `osmosis_reward` or `osmosis_rubric` decorated; it may stand where a grader does."""


class LocalBackend(ExecutionBackend):
    """Runs an `AgentWorkflow` and then a `Grader` as coroutines of the server.

    Each argument is the object itself or a `"module:attribute"` string; a function that `osmosis_reward` or `osmosis_rubric`
    decorated is a grader too. Without a `workflow_config` four rollouts run at once; with one its `concurrency.max_concurrent`
    decides, and None there means no limit. Raises ValueError for a string without a colon, ImportError for a missing attribute.
    """

    def __init__(
        self,
        *,
        workflow: type[AgentWorkflow[Any]] | str,
        workflow_config: AgentWorkflowConfig | str | None = None,
        grader: type[Grader] | RewardFunction | str | None = None,
        grader_config: GraderConfig | str | None = None,
    ) -> None:
        self._workflow = load_reference(workflow)
        self._workflow_config = load_reference(workflow_config)
        self._grader = as_grader(load_reference(grader))
        self._grader_config = load_reference(grader_config)
        self._artifact_root = artifact_root()
        self._stored = StoredSamples.from_environment()
        config: AgentWorkflowConfig | None = self._workflow_config
        self._slots = _Slots(DEFAULT_MAX_CONCURRENT if config is None else config.concurrency.max_concurrent)

    def health(self) -> dict[str, Any]:
        """The load: `max_concurrent` (None for no limit), how many wait for a slot, how many hold one."""
        slots = self._slots
        load = {"max_concurrent": slots.limit, "queued": slots.queued, "running": slots.running}
        return {"status": "ok", "concurrency": load} | ({} if self._stored is None else {"regrades": True})

    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        """Wait for a slot, run the workflow, then the grader if grading is wanted; one slot serves both."""
        async with self._slots.taken() as queued_sec:
            artifacts_dir = await prepare_artifacts_dir(self._artifact_root, request.id)
            context, activation = _context(request)
            with activation:
                workflow = await self._run_workflow(request, context, artifacts_dir, queued_sec)
                if workflow.status is not RolloutStatus.SUCCESS or not request.grade:
                    return ExecutionOutcome(workflow=workflow)
                grader = await self._run_grader(request, context, artifacts_dir, workflow.sample)
                return ExecutionOutcome(workflow=workflow, grader=grader)

    async def _run_workflow(
        self, request: ExecutionRequest, context: RolloutContext, artifacts_dir: Path | None, queued_sec: float
    ) -> ExecutionResult:
        async def run() -> RolloutSample | None:
            if self._stored is not None:
                return await self._stored.load(request.id)
            config = copy.deepcopy(self._workflow_config)
            workflow: AgentWorkflow[Any] = self._workflow(config)
            returned = await workflow.run(
                AgentWorkflowContext(
                    prompt=request.prompt, config=config, metadata=request.metadata, artifacts_dir=artifacts_dir
                )
            )
            return await _collect_sample(returned, context, request.label)

        return await _phase("workflow", run, request.agent_timeout_sec, sample=None, queued_sec=queued_sec)

    async def _run_grader(
        self, request: ExecutionRequest, context: RolloutContext, artifacts_dir: Path | None, sample: RolloutSample | None
    ) -> ExecutionResult:
        async def grade() -> RolloutSample | None:
            if self._grader is None:
                raise ValueError("Grading was requested, but this rollout has no grader")
            if request.label is None and request.metadata is None:
                raise ValueError("Grading was requested, but the row has neither a label nor metadata to grade against")
            await context.set_status(RolloutStatus.GRADING)
            grader: Grader = self._grader(self._grader_config)
            grading = GraderContext(label=request.label, sample=sample, metadata=request.metadata, artifacts_dir=artifacts_dir)
            await grader.grade(grading)
            return _graded(grading.sample)

        return await _phase("grader", grade, request.grader_timeout_sec, sample=sample)


def _context(request: ExecutionRequest) -> tuple[RolloutContext, AbstractContextManager[object]]:
    """The server's context for this rollout; a backend that is used without a server makes its own."""
    active = get_rollout_context()
    if active is not None:
        return active, nullcontext()
    fresh = RolloutContext(rollout_id=request.id)
    return fresh, fresh


async def _collect_sample(returned: object, context: RolloutContext, label: str | None) -> RolloutSample | None:
    output = coerce_output(returned)
    if output is not None and output.messages is not None:
        return RolloutSample(messages=output.messages, label=label, metrics=dict(output.metrics))
    sample = await context.get_sample()
    if sample is not None and output is not None:
        sample.metrics = {**sample.metrics, **output.metrics}
    return sample


def _graded(sample: RolloutSample | None) -> RolloutSample:
    if sample is None:
        raise ValueError("There is no sample to grade")
    if sample.reward is None and not sample.remove_sample:
        raise ValueError("Sample has no reward after grading")
    return sample


async def _phase(
    name: str,
    work: Callable[[], Awaitable[RolloutSample | None]],
    limit_sec: float | None,
    *,
    sample: RolloutSample | None,
    queued_sec: float = 0.0,
) -> ExecutionResult:
    """Run one phase of a rollout within its limit. A failure keeps the sample that the phase started with.

    `sys.exit` is a failure like any other: in a task, asyncio would let it end the event loop, with every other rollout of this
    server. So are exceptions that are no `Exception`, such as a test framework's outcome or a panic in a compiled library, and
    a cancellation that nobody asked this rollout for, such as that of a task it awaited: it would end the same way every time.
    """
    try:
        finished = await _within(name, work, limit_sec, queued_sec)
    except BaseException as error:
        if isinstance(error, GeneratorExit) or (isinstance(error, asyncio.CancelledError) and _being_cancelled()):
            raise
        return ExecutionResult(
            status=RolloutStatus.FAILURE, sample=sample, err_message=error_text(error), err_category=error_category(error)
        )
    return ExecutionResult(status=RolloutStatus.SUCCESS, sample=finished)


def _being_cancelled() -> bool:
    """Whether somebody cancelled the rollout itself, as opposed to something that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _within(name: str, work: Callable[[], Awaitable[T]], limit_sec: float | None, queued_sec: float) -> T:
    """Await `work` for at most `limit_sec` minus the time spent queued. Raises DeadlineExceededError.

    Work that swallows its cancellation, or blocks the event loop until the time is over, is late all the same.
    """
    if limit_sec is None:
        return await work()
    budget = limit_sec - queued_sec
    late = DeadlineExceededError(name, limit_sec, queued_sec)
    if budget <= 0:
        raise late
    deadline = asyncio.get_running_loop().time() + budget
    try:
        async with asyncio.timeout_at(deadline) as timeout:
            result = await work()
    except Exception as error:
        if timeout.expired():
            raise late from error
        raise
    if timeout.expired() or asyncio.get_running_loop().time() >= deadline:
        raise late
    return result


@dataclass
class _Slots:
    """How many rollouts may run at once, first come, first served."""

    limit: int | None
    queued: int = 0
    running: int = 0

    def __post_init__(self) -> None:
        self._free = None if self.limit is None else asyncio.Semaphore(self.limit)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[float]:
        """Hold a slot; yields how many seconds it took to get one."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        self.queued += 1
        try:
            if self._free is not None:
                await self._free.acquire()
        finally:
            self.queued -= 1
        self.running += 1
        try:
            yield loop.time() - asked
        finally:
            self.running -= 1
            if self._free is not None:
                self._free.release()
