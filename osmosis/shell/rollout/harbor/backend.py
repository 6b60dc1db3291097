"""HarborBackend: each rollout is one trial of the real Harbor (contract: rollout_protocol section 13; E1, E3, E24).

The trial's life: choose and lay out the task, submit, follow by hooks, judge, settle its files, answer. Whatever fails before
the trial begins is this rollout's failure in phase `setup`. A cancelled rollout waits until its sandbox is gone.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
from osmosis.pure.protocol import ErrorCategory, RolloutStatus
from osmosis.pure.sandbox_reach import ORACLE, chat_endpoint, has_gateway, sandbox_url
from osmosis.shell.packaging.site import SITES_DIR, build_site, site_key
from osmosis.shell.rollout.artifacts import artifact_root, prepare_artifacts_dir
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.context import get_rollout_context
from osmosis.shell.rollout.failure import error_category, error_text
from osmosis.shell.rollout.harbor import configuration, trial_config
from osmosis.shell.rollout.harbor.aftermath import Aftermath, settle
from osmosis.shell.rollout.harbor.engine import gateway_of, project_name, sweep
from osmosis.shell.rollout.harbor.flights import Flight, Flights
from osmosis.shell.rollout.harbor.guardian import Guardian
from osmosis.shell.rollout.harbor.installation import site_directory
from osmosis.shell.rollout.harbor.materialise import BakedSite, Materialised, Materials, materialise
from osmosis.shell.rollout.harbor.outcome import FinishedTrial, setup_failure
from osmosis.shell.rollout.harbor.prewarming import Prewarmer
from osmosis.shell.rollout.harbor.side import TrialSide, on_the_side
from osmosis.shell.rollout.harbor.tasks import TaskStore
from osmosis.shell.rollout.harbor.trial_loop import TrialLoop
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult

logger = logging.getLogger(__name__)


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
        self._flights = Flights()
        self._trial_loop = TrialLoop()
        self._pythons: dict[Path, Any] = {}
        self._guardian = Guardian(self._engine)
        self._gateway = gateway_of(self._engine) if self._engine is not None and sys.platform == "linux" else None
        self._orchestrator = orchestrator
        for event, hook in (
            (TrialEvent.START, self._trial_started),
            (TrialEvent.VERIFICATION_START, self._verification_started),
        ):
            orchestrator.add_hook(event, hook)
        self._prewarmer = Prewarmer(
            submit=lambda config: self._trial_loop.start(orchestrator.submit(config)),
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
        return {
            "status": "ok",
            "backend": "harbor",
            "agent": self._agent.name,
            "in_flight": self._flights.pending,
            "running": self._flights.running,
            "queued": self._flights.queued,
            "max_queue_depth": self._max_queue_depth,
            "chat_endpoint": self._chat_endpoint(),
        }

    def _chat_endpoint(self) -> dict[str, Any]:
        found = chat_endpoint(self._environment.label, sys.platform, agent=self._agent.name, gateway=self._gateway)
        report: dict[str, Any] = msgspec.to_builtins(found)
        if found.gateway is None:
            del report["gateway"]
        return report

    @property
    def _engine(self) -> str | None:
        """The container engine of this machine that runs the sandboxes, if one does."""
        return self._environment.label if has_gateway(self._environment.label) else None

    def has_capacity(self) -> bool:
        """Whether the queue has room."""
        return self._max_queue_depth is None or self._flights.queued < self._max_queue_depth

    def rollout_status(self, rollout_id: str) -> dict[str, Any] | None:
        """The status of a rollout in flight, or of one that ended in the last 15 minutes."""
        return self._flights.status(rollout_id)

    def cancel_rollouts(
        self,
        ids: Sequence[str] | None = None,
        prefix: str | None = None,
        all: bool = False,  # noqa: A002 - the name is part of the contract
    ) -> dict[str, str]:
        """Cancel by exactly one selector. Raises ValueError for none or several."""
        return self._flights.cancel(ids, prefix, all)

    async def shutdown(self) -> None:
        """Let go of what is left."""
        await self._guardian.close()
        await self._trial_loop.close()

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
        flight = Flight(request.id, trial_name, asyncio.get_running_loop(), get_rollout_context())
        self._flights.enter(flight)
        try:
            outcome = await self._run(request, flight)
        finally:
            self._flights.leave(flight)
            await asyncio.to_thread(shutil.rmtree, self._staging / trial_name, True)
        self._flights.remember(request.id, outcome)
        return outcome

    async def _run(self, request: ExecutionRequest, flight: Flight) -> ExecutionOutcome:
        for limit, phase in ((request.agent_timeout_sec, "workflow"), (request.grader_timeout_sec, "grader")):
            if limit is not None and limit <= 0:
                late = TimeoutError(f"{phase} exceeded its {float(limit)}s deadline")
                return setup_failure(late, str(late), ErrorCategory.TIMEOUT)
        try:
            await prepare_artifacts_dir(self._artifact_root, request.id)
            config, side, laid_out, task = await self._prepare(request, flight)
        except Exception as error:  # noqa: BLE001 - whatever hinders the trial is this rollout's failure
            return setup_failure(error, error_text(error), error_category(error))
        if flight.cancelled:
            return ExecutionOutcome(workflow=ExecutionResult(status=RolloutStatus.CANCELLED))
        with on_the_side(flight.trial_name, side):
            return await self._try(request, flight, config, side, laid_out, task)

    async def _prepare(self, request: ExecutionRequest, flight: Flight) -> tuple[TrialConfig, TrialSide, Materialised, Path]:
        choice = choose_task(request.metadata, self._mode)
        task = await self._tasks.path(choice)
        self._prewarmer.refuse_failed(task)
        context = flight.context
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
        laid_out = await asyncio.to_thread(materialise, task, self._staging / flight.trial_name, materials)
        plan = trial_config.TrialPlan(
            trial_name=flight.trial_name,
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
        flight: Flight,
        config: TrialConfig,
        side: TrialSide,
        laid_out: Materialised,
        task: Path,
    ) -> ExecutionOutcome:
        directory = self._trials / flight.trial_name
        await asyncio.to_thread(shutil.rmtree, directory, True)
        flight.task = self._trial_loop.start(self._orchestrator.submit(config))
        project = project_name(f"{flight.trial_name}__env")
        with self._guardian.watching(project):
            result, error = await self._await_trial(flight)
            if self._engine is not None and (error is not None or flight.cancelled):
                await sweep(self._engine, project)
        if side.python is not None:
            self._pythons[task] = side.python
        if flight.cancelled or isinstance(error, asyncio.CancelledError):
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
            verified=flight.verifying,
            graded=request.grade,
        )
        clean = finished.clean and self._cleanup
        skipped = await self._settle(request, directory, side, cancelled=False, clean_up=clean)
        return finished.outcome(request.label, skipped)

    async def _await_trial(self, flight: Flight) -> tuple[Any, BaseException | None]:
        """The trial's result, or what it ended with. Whoever cancels this waits until the sandbox is gone, too."""
        assert flight.task is not None
        while not flight.task.done:
            try:
                await asyncio.wait({flight.task.finished})
            except asyncio.CancelledError:
                flight.cancel()
        result, error = flight.task.finished.result()
        return result, error

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

    # --- Hooks --------------------------------------------------------------------------------------------------------------

    async def _trial_started(self, event: Any) -> None:
        flight = self._flights.of_trial(event.config.trial_name)
        if flight is not None:
            flight.started = True

    async def _verification_started(self, event: Any) -> None:
        flight = self._flights.of_trial(event.config.trial_name)
        if flight is not None:
            flight.verifying = True
            if flight.context is not None:
                # This is the trials' loop; the rollout's context belongs to the server's.
                asyncio.run_coroutine_threadsafe(flight.context.set_status(RolloutStatus.GRADING), flight.loop)
