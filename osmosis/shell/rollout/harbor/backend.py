"""HarborBackend: each rollout is one trial of the real Harbor (contract: rollout_protocol section 13; E1, E3, E24).

The trial's life: choose and lay out the task, submit, follow by hooks, judge, settle its files, answer. Whatever fails before
the trial begins is this rollout's failure in phase `setup`. A cancelled rollout waits until its sandbox is gone.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from harbor.models.trial.config import EnvironmentConfig, TrialConfig
from harbor.trial.hooks import TrialEvent
from harbor.trial.queue import TrialQueue

from osmosis.pure.container_files import ContainerInput
from osmosis.pure.harbor_task import MODEL_KEY, TaskMode, choose_task, trial_directory_name
from osmosis.pure.harbor_wiring import DEFAULT_MODEL
from osmosis.pure.prewarm import PrewarmSummary
from osmosis.pure.protocol import Disposition, ErrorCategory, RolloutStatus
from osmosis.pure.sandbox_reach import ORACLE, chat_endpoint, has_gateway, sandbox_url
from osmosis.shell.packaging.site import SITES_DIR, build_site, site_key
from osmosis.shell.rollout.artifacts import artifact_root, prepare_artifacts_dir
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.context import RolloutContext, get_rollout_context
from osmosis.shell.rollout.failure import error_category, error_text
from osmosis.shell.rollout.harbor import configuration, trial_config
from osmosis.shell.rollout.harbor.aftermath import Aftermath, settle
from osmosis.shell.rollout.harbor.engine import gateway_of, project_name, sweep
from osmosis.shell.rollout.harbor.guardian import Guardian
from osmosis.shell.rollout.harbor.installation import site_directory
from osmosis.shell.rollout.harbor.materialise import BakedSite, Materialised, Materials, materialise
from osmosis.shell.rollout.harbor.outcome import FinishedTrial, setup_failure
from osmosis.shell.rollout.harbor.prewarming import Prewarmer
from osmosis.shell.rollout.harbor.side import TrialSide, on_the_side
from osmosis.shell.rollout.harbor.tasks import TaskStore
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult

logger = logging.getLogger(__name__)

RETENTION_SEC = 900.0


@dataclass(eq=False)
class _Rollout:
    """One rollout in flight."""

    rollout_id: str
    trial_name: str
    task: asyncio.Task[Any] | None = None
    context: RolloutContext | None = None
    started: bool = False
    verifying: bool = False
    cancelled: bool = False

    @property
    def status(self) -> RolloutStatus:
        """As the health report and `rollout_status` have it."""
        if self.verifying:
            return RolloutStatus.GRADING
        return RolloutStatus.RUNNING if self.started else RolloutStatus.QUEUED


class HarborBackend(ExecutionBackend):
    """Runs rollouts as Harbor trials. `orchestrator` is a Harbor `TrialQueue`, which bounds how many run at once.

    `agent` is a native agent's name, an `AgentWorkflow`, or `"module:Class"`. Raises ValueError and TypeError for arguments
    that make no sense, and what building the bundle raises.
    """

    def __init__(
        self,
        *,
        orchestrator: TrialQueue,
        tasks_dir: Path | str,
        agent: str | type | None = None,
        native_agent_kwargs: Mapping[str, Any] | None = None,
        task_mode: TaskMode | str = TaskMode.TEMPLATE,
        model_name: str = DEFAULT_MODEL,
        grader: type | str | None = None,
        workflow_config: object | None = None,
        grader_config: object | None = None,
        code_dir: Path | str | None = None,
        bundle: Path | str | None = None,
        environment_config: EnvironmentConfig | None = None,
        trials_dir: Path | str | None = None,
        cleanup_successful_trials: bool = True,
        patch_dockerfile_with_sdk: bool | None = None,
        agent_setup_timeout_sec: float | None = None,
        max_queue_depth: int | None = None,
        prewarm: str | bool | None = None,
        verified_tasks: Collection[str] | bool = False,
    ) -> None:
        self._agent = configuration.agent_of(agent, native_agent_kwargs)
        self._mode = configuration.mode_of(task_mode)
        prewarm_given = configuration.check_numbers(max_queue_depth, prewarm)
        verified = configuration.verified_of(verified_tasks)
        self._environment = configuration.environment_of(environment_config)
        self._bundle = configuration.bundle_of(
            self._agent,
            grader=grader,
            workflow_config=workflow_config,
            grader_config=grader_config,
            code_dir=code_dir,
            bundle=bundle,
        )
        if patch_dockerfile_with_sdk and self._bundle is None:
            raise ValueError("patch_dockerfile_with_sdk=True needs a bundle: a workflow, a grader, or bundle=")
        self._site_key = "" if self._bundle is None else site_key(Path(self._bundle.wheel))
        self._bakes = self._bundle is not None and patch_dockerfile_with_sdk is not False
        self._tasks = TaskStore(Path(tasks_dir))
        self._staging, self._trials = configuration.working_directories(Path(tasks_dir), trials_dir)
        self._model_name = model_name
        self._cleanup = cleanup_successful_trials
        self._setup_timeout_sec = agent_setup_timeout_sec
        self._max_queue_depth = max_queue_depth
        self._artifact_root = artifact_root()
        self._rollouts: dict[str, _Rollout] = {}
        self._finished: dict[str, tuple[float, dict[str, Any]]] = {}
        self._pythons: dict[Path, Any] = {}
        self._guardian = Guardian(self._engine)
        self._gateway: str | None = None
        self._orchestrator = orchestrator
        for event, hook in (
            (TrialEvent.START, self._trial_started),
            (TrialEvent.VERIFICATION_START, self._verification_started),
        ):
            orchestrator.add_hook(event, hook)
        self._prewarmer = Prewarmer(
            orchestrator=orchestrator,
            tasks=self._tasks,
            mode=self._mode,
            given=prewarm_given,
            verified=verified,
            trials=self._trials,
            build=self._prewarm_config,
        )

    # --- What the server asks --------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """The load, and how sandboxes reach the model."""
        pending, running = len(self._rollouts), self._running
        return {
            "status": "ok",
            "backend": "harbor",
            "agent": self._agent.name,
            "in_flight": pending,
            "running": running,
            "queued": max(0, pending - running),
            "max_queue_depth": self._max_queue_depth,
            "chat_endpoint": self._chat_endpoint(),
        }

    def _chat_endpoint(self) -> dict[str, Any]:
        if self._gateway is None and self._engine is not None and sys.platform == "linux":
            self._gateway = gateway_of(self._engine)
        found = chat_endpoint(self._environment.label, sys.platform, agent=self._agent.name, gateway=self._gateway)
        report: dict[str, Any] = msgspec.to_builtins(found)
        if found.gateway is None:
            del report["gateway"]
        return report

    @property
    def _engine(self) -> str | None:
        """The container engine of this machine that runs the sandboxes, if one does."""
        return self._environment.label if has_gateway(self._environment.label) else None

    @property
    def _running(self) -> int:
        return sum(rollout.started for rollout in self._rollouts.values())

    def has_capacity(self) -> bool:
        """Whether the queue has room."""
        return self._max_queue_depth is None or len(self._rollouts) - self._running < self._max_queue_depth

    def rollout_status(self, rollout_id: str) -> dict[str, Any] | None:
        """The status of a rollout in flight, or of one that ended in the last 15 minutes."""
        rollout = self._rollouts.get(rollout_id)
        if rollout is not None:
            return {"status": rollout.status}
        self._forget_old()
        record = self._finished.get(rollout_id)
        return None if record is None else record[1]

    def cancel_rollouts(
        self,
        ids: Sequence[str] | None = None,
        prefix: str | None = None,
        all: bool = False,  # noqa: A002 - the name is part of the contract
    ) -> dict[str, str]:
        """Cancel by exactly one selector. Raises ValueError for none or several."""
        if (ids is not None) + (prefix is not None) + bool(all) != 1:
            raise ValueError("pass exactly one selector: ids, prefix, or all")
        wanted = ids if ids is not None else [known for known in self._rollouts if known.startswith(prefix or "")]
        return {rollout_id: self._cancel(rollout_id) for rollout_id in wanted}

    def _cancel(self, rollout_id: str) -> str:
        rollout = self._rollouts.get(rollout_id)
        if rollout is None or (rollout.task is not None and rollout.task.done()):
            return Disposition.NOT_FOUND
        if not rollout.cancelled:
            # Once is enough: a second one would interrupt the cleaning up that the first began.
            rollout.cancelled = True
            if rollout.task is not None:
                rollout.task.cancel()
        return Disposition.CANCELLED_RUNNING if rollout.started else Disposition.CANCELLED_QUEUED

    async def shutdown(self) -> None:
        """Let go of what is left."""
        await self._guardian.close()

    # --- Prewarm -----------------------------------------------------------------------------------------------------------

    async def prewarm(self, task_ids: Sequence[str] | None = None, *, prewarm: str | bool | None = None) -> PrewarmSummary:
        """Try the tasks before any rollout does. Raises RuntimeError if the whole set-up is at fault."""
        return await self._prewarmer.run(task_ids, prewarm)

    def prewarm_lifespan(
        self, task_ids: Sequence[str] | None = None, *, prewarm: str | bool | None = None
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """A `lifespan` for `create_rollout_server` that tries the tasks before the server is ready."""

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncIterator[None]:
            await self.prewarm(task_ids, prewarm=prewarm)
            yield

        return lifespan

    @property
    def prewarm_summary(self) -> PrewarmSummary | None:
        """How the last prewarm went."""
        return self._prewarmer.summary

    @property
    def failed_prewarm_tasks(self) -> dict[str, str]:
        """Tasks whose prewarm failed, and why; their rollouts fail fast."""
        return dict(self._prewarmer.failed)

    def _prewarm_config(self, task: Path, name: str, *, full: bool) -> tuple[TrialConfig, TrialSide]:
        given = ContainerInput(rollout_id=name)
        side = TrialSide(given=given, bundle=self._bundle, site_key=self._site_key)
        plan = trial_config.TrialPlan(
            trial_name=name,
            trials_dir=self._trials,
            task=task,
            agent=self._agent,
            environment=self._environment,
            side=side,
            url="http://127.0.0.1/v1" if self._agent.name != ORACLE else "",
            model=self._model_name,
            setup_timeout_sec=self._setup_timeout_sec,
        )
        return trial_config.prewarm_trial(plan, full=full), side

    # --- One rollout -------------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        """Run one trial to its end, and its files into the rollout's directory."""
        trial_name = f"trial-{trial_directory_name(request.id)}"
        if request.id in self._rollouts:
            raise ValueError(f"rollout {request.id!r} is already running")
        rollout = _Rollout(request.id, trial_name, context=get_rollout_context())
        self._rollouts[request.id] = rollout
        try:
            outcome = await self._run(request, rollout)
        finally:
            del self._rollouts[request.id]
            await asyncio.to_thread(shutil.rmtree, self._staging / trial_name, True)
        self._remember(request.id, outcome)
        return outcome

    async def _run(self, request: ExecutionRequest, rollout: _Rollout) -> ExecutionOutcome:
        for limit, phase in ((request.agent_timeout_sec, "workflow"), (request.grader_timeout_sec, "grader")):
            if limit is not None and limit <= 0:
                late = TimeoutError(f"{phase} exceeded its {float(limit)}s deadline")
                return setup_failure(late, str(late), ErrorCategory.TIMEOUT)
        try:
            await prepare_artifacts_dir(self._artifact_root, request.id)
            config, side, laid_out, task = await self._prepare(request, rollout)
        except Exception as error:  # noqa: BLE001 - whatever hinders the trial is this rollout's failure
            return setup_failure(error, error_text(error), error_category(error))
        if rollout.cancelled:
            return ExecutionOutcome(workflow=ExecutionResult(status=RolloutStatus.CANCELLED))
        with on_the_side(rollout.trial_name, side):
            return await self._try(request, rollout, config, side, laid_out, task)

    async def _prepare(self, request: ExecutionRequest, rollout: _Rollout) -> tuple[TrialConfig, TrialSide, Materialised, Path]:
        choice = choose_task(request.metadata, self._mode)
        task = await self._tasks.path(choice)
        self._prewarmer.refuse_failed(task)
        context = rollout.context
        url = self._url("" if context is None else context.chat_completions_url)
        given = ContainerInput(
            rollout_id=request.id,
            prompt=request.prompt,
            label=request.label,
            metadata=request.metadata,
            chat_completions_url=url,
        )
        side = TrialSide(
            given=given,
            api_key=None if context is None else context.api_key,
            bundle=self._bundle,
            site_key=self._site_key,
        )
        grader = self._bundle is not None and self._bundle.grader_script is not None and request.grade
        materials = Materials(
            given=given,
            template=self._mode is TaskMode.TEMPLATE,
            workflow=self._agent.workflow,
            grader_package=self._bundle.package if grader and self._bundle is not None else None,
            baked=await self._baked(task),
        )
        laid_out = await asyncio.to_thread(materialise, task, self._staging / rollout.trial_name, materials)
        plan = trial_config.TrialPlan(
            trial_name=rollout.trial_name,
            trials_dir=self._trials,
            task=laid_out.path,
            agent=self._agent,
            environment=self._environment,
            side=side,
            url=url,
            model=str((request.metadata or {}).get(MODEL_KEY) or self._model_name),
            setup_timeout_sec=self._setup_timeout_sec,
            agent_timeout_sec=request.agent_timeout_sec,
            verifier_timeout_sec=request.grader_timeout_sec,
            verify=request.grade and laid_out.has_tests,
            grader=laid_out.grader,
        )
        return trial_config.rollout_trial(plan), side, laid_out, task

    def _url(self, url: str) -> str:
        if self._environment.relays or not url:
            return url
        return sandbox_url(url, self._environment.label, sys.platform, agent=self._agent.name)

    async def _baked(self, task: Path) -> BakedSite | None:
        """Packages for the image, once a first sandbox of this task has told which Python it has."""
        python = self._pythons.get(task)
        if not self._bakes or python is None or self._bundle is None or self._environment.relays:
            return None
        archive = await asyncio.to_thread(build_site, Path(self._bundle.wheel), python, key=self._site_key, sites_dir=SITES_DIR)
        return BakedSite(archive, site_directory(self._site_key, python))

    async def _try(
        self,
        request: ExecutionRequest,
        rollout: _Rollout,
        config: TrialConfig,
        side: TrialSide,
        laid_out: Materialised,
        task: Path,
    ) -> ExecutionOutcome:
        directory = self._trials / rollout.trial_name
        await asyncio.to_thread(shutil.rmtree, directory, True)
        rollout.task = asyncio.create_task(self._orchestrator.submit(config), name=rollout.trial_name)
        project = project_name(f"{rollout.trial_name}__env")
        with self._guardian.watching(project):
            result, error = await self._await_trial(rollout)
            if self._engine is not None and (error is not None or rollout.cancelled):
                await sweep(self._engine, project)
        if side.python is not None:
            self._pythons[task] = side.python
        if rollout.cancelled or isinstance(error, asyncio.CancelledError):
            await self._settle(request, directory, side, cancelled=True, clean_up=True)
            return ExecutionOutcome(workflow=ExecutionResult(status=RolloutStatus.CANCELLED))
        if error is not None:
            await self._settle(request, directory, side, cancelled=False, clean_up=False)
            return setup_failure(error, error_text(error), error_category(error))
        finished = await asyncio.to_thread(
            FinishedTrial,
            result,
            directory,
            workflow=self._agent.workflow,
            oracle=self._agent.name == ORACLE,
            verified=rollout.verifying,
            graded=request.grade,
        )
        clean = finished.clean and self._cleanup
        skipped = await self._settle(request, directory, side, cancelled=False, clean_up=clean)
        return finished.outcome(request.label, skipped)

    async def _await_trial(self, rollout: _Rollout) -> tuple[Any, BaseException | None]:
        """The trial's result, or what it ended with. Whoever cancels this waits until the sandbox is gone, too."""
        assert rollout.task is not None
        outer: asyncio.CancelledError | None = None
        while not rollout.task.done():
            try:
                await asyncio.wait({rollout.task})
            except asyncio.CancelledError as error:
                outer = error
                self._cancel(rollout.rollout_id)
        if rollout.task.cancelled():
            return None, asyncio.CancelledError()
        failed = rollout.task.exception()
        if outer is not None:
            rollout.cancelled = True
        return (None, failed) if failed is not None else (rollout.task.result(), None)

    async def _settle(
        self, request: ExecutionRequest, directory: Path, side: TrialSide, *, cancelled: bool, clean_up: bool
    ) -> tuple[str, ...]:
        context = get_rollout_context()
        work = Aftermath(
            trial=directory,
            kept=self._artifact_root / request.id,
            rollout_id=request.id,
            process_id=None if context is None else context.process_id,
            key=side.api_key,
            cancelled=cancelled,
            clean_up=clean_up,
        )
        try:
            skipped = await asyncio.to_thread(settle, work)
        except OSError as error:
            logger.error("The files of rollout %s cannot be kept: %s", request.id, error)
            return (f"everything: {error.strerror}",)
        for text in skipped:
            logger.warning("Rollout %s: left out %s", request.id, text)
        return skipped

    # --- Hooks and memory --------------------------------------------------------------------------------------------------

    def _of_trial(self, event: Any) -> _Rollout | None:
        return next((rollout for rollout in self._rollouts.values() if rollout.trial_name == event.config.trial_name), None)

    async def _trial_started(self, event: Any) -> None:
        rollout = self._of_trial(event)
        if rollout is not None:
            rollout.started = True

    async def _verification_started(self, event: Any) -> None:
        rollout = self._of_trial(event)
        if rollout is not None:
            rollout.verifying = True
            if rollout.context is not None:
                await rollout.context.set_status(RolloutStatus.GRADING)

    def _remember(self, rollout_id: str, outcome: ExecutionOutcome) -> None:
        self._forget_old()
        result = outcome.result
        record = {
            "status": result.status,
            "reward": None if result.sample is None else result.sample.reward,
            "err_message": result.err_message,
        }
        self._finished[rollout_id] = (time.monotonic() + RETENTION_SEC, record)

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._finished and next(iter(self._finished.values()))[0] < now:
            del self._finished[next(iter(self._finished))]
