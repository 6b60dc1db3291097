"""One invocation that has work to do: create the run, start the parts, supervise, finalize.

Parts start in the order in which their failure is cheapest to a person: credentials, the model's answer, the run directory,
dependencies, bridge, rollout server. A new run that ends before its first dispatch leaves no directory behind (ruling 10).
"""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from osmosis import __version__
from osmosis.pure.cassette import Header
from osmosis.pure.conclusion import Closing, run_report
from osmosis.pure.item_table import packed_history
from osmosis.pure.journal import InvocationStarted
from osmosis.pure.plan import Manifest
from osmosis.pure.projections import running_summary
from osmosis.pure.protocol import InitRequest
from osmosis.pure.providers import Endpoint
from osmosis.pure.redaction import Redactor
from osmosis.pure.report import RunReport
from osmosis.pure.resume import Workload, still_to_run
from osmosis.pure.secret_forms import secret_values
from osmosis.pure.secret_resolution import values_to_redact
from osmosis.pure.supervision_events import Dispatch
from osmosis.pure.supervision_state import Assignment, State, begin
from osmosis.pure.supervisor import item_deadline
from osmosis.shell.evaluation import run_directory
from osmosis.shell.evaluation.access import endpoint_for
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.credentials import placed_in_environment, resolve_secrets
from osmosis.shell.evaluation.dataset_rows_file import restore_dataset_rows
from osmosis.shell.evaluation.descriptors import descriptor_limit, rollout_ceiling
from osmosis.shell.evaluation.event_loop import event_loop_factory
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.journal_file import JournalReading, JournalWriter, read_journal
from osmosis.shell.evaluation.preparation import Preparation
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.rollout_dependencies import sync_environment
from osmosis.shell.evaluation.rollout_process import RolloutProcess
from osmosis.shell.evaluation.run_creation import archive_earlier, create_run
from osmosis.shell.evaluation.run_evidence import RunEvidence
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.server_launch import launch_of, start_of
from osmosis.shell.evaluation.signals import interrupts_to
from osmosis.shell.evaluation.standby import Standby, standing_by
from osmosis.shell.evaluation.view import RunView

if TYPE_CHECKING:
    from osmosis.shell.bridge.server import Bridge
    from osmosis.shell.evaluation.public_route import RouteRequest
    from osmosis.shell.evaluation.session import Session


class Invocation:
    """Performs `work` on a run. `manifest` is None for a run that has to be created; `standby` may have been started already,
    and is abandoned by who started it."""

    def __init__(
        self,
        preparation: Preparation,
        view: RunView,
        files: FileLayer,
        manifest: Manifest | None,
        reading: JournalReading,
        work: Workload,
        standby: Standby | None,
    ) -> None:
        self._preparation = preparation
        self._request = preparation.request
        self._config = preparation.config
        self._directory = preparation.directory
        self._view = view
        self._files = files
        self._manifest = manifest
        self._reading = reading
        self._work = work
        self._standby = standby
        self._token = secrets.token_hex(16)
        self._session: Session | None = None
        self._journal: JournalWriter | None = None
        self._projector: Projector | None = None

    def perform(self) -> RunReport:
        """Run to the end. The process's environment is as before when this returns or raises."""
        inherited = dict(os.environ)
        file = self._preparation.file_secrets or ()
        found = resolve_secrets(self._config.secret_names, file, inherited, self._view.prompt_secret)
        with placed_in_environment(found.placed):
            endpoint = self._endpoint()
            required = {secret.name: secret.value for secret in found.required}
            configured, other = values_to_redact(found)
            # A known variable that the secrets file overrides still stands in the rollout's environment.
            covered = secret_values((), inherited)
            known = {*covered, *secret_values([*configured, self._token], os.environ, [*other, endpoint.api_key or ""])}
            self._view.protect(known)
            rollout_environment = inherited | self._config.env | required
            # Until the session begins, most of what is made is modules, which stay (decision 0061).
            gc.disable()
            try:
                with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
                    return runner.run(self._evaluate(endpoint, rollout_environment, Redactor(known)))
            finally:
                gc.enable()

    def _endpoint(self) -> Endpoint:
        replays, holds = self._preparation.cassette is not None, self._preparation.held is not None
        return endpoint_for(self._config.experiment.model_path, os.environ, replays=replays, holds=holds)

    async def _evaluate(self, endpoint: Endpoint, environment: Mapping[str, str], redactor: Redactor) -> RunReport:
        with self._interrupts():
            async with AsyncExitStack() as stack:
                standby = self._standby_for(environment) or stack.enter_context(
                    standing_by(start_of(self._preparation, environment))
                )
                return await self._evaluate_beside(standby, endpoint, environment, redactor)

    def _standby_for(self, environment: Mapping[str, str]) -> Standby | None:
        """The one that was started already, if nothing that was learnt since then belongs into its environment."""
        if self._standby is None or self._standby.begun == start_of(self._preparation, environment):
            return self._standby
        self._standby.abandon()
        return None

    async def _evaluate_beside(
        self, standby: Standby | None, endpoint: Endpoint, environment: Mapping[str, str], redactor: Redactor
    ) -> RunReport:
        from osmosis.shell.bridge.preflight import preflight  # noqa: PLC0415 - HTTP, once the server's process has begun

        if self._preparation.cassette is None and self._preparation.held is None:
            self._view.milestone(f"checking model {self._config.experiment.model_path}")
            await preflight(endpoint, redactor=redactor)
        archived = archive_earlier(self._preparation, self._files, self._view)
        try:
            manifest = self._manifest or create_run(self._preparation, self._files, endpoint)
            if self._manifest is not None:
                restore_dataset_rows(self._files, self._directory, self._preparation.dataset.rows)
            state = await self._supervise(manifest, endpoint, environment, redactor, standby)
        except BaseException:
            if self._manifest is None and not self._dispatched:
                run_directory.remove(self._files, self._directory)
                if archived is not None:
                    run_directory.restore(self._files, self._directory, archived)
            raise
        return self._conclude(manifest, state)

    @property
    def _dispatched(self) -> bool:
        return self._session is not None and self._session.state.began

    # --- At work -----------------------------------------------------------------------------------------------------------

    async def _supervise(
        self,
        manifest: Manifest,
        endpoint: Endpoint,
        environment: Mapping[str, str],
        redactor: Redactor,
        standby: Standby | None,
    ) -> State:
        from osmosis.shell.evaluation.public_route import open_route  # noqa: PLC0415 - HTTP, like the next
        from osmosis.shell.evaluation.session import Session, Tools  # noqa: PLC0415

        history = self._reading.history
        async with AsyncExitStack() as stack:
            log = stack.enter_context(RunLog(self._directory.log, redactor, echo=self._view.log_line, files=self._files))
            projector = Projector(self._files, self._directory, lambda text: _log_warning(log, text))
            self._projector = projector
            stack.callback(projector.close)
            asyncio.get_running_loop().set_exception_handler(lambda _, context: _log_trouble(log, context))
            state = begin(self._assignment(), history, self._preparation.inputs.pass_threshold)
            projector.begin(manifest, history, state.tally)
            self._log_start(log)
            self._view.milestone(f"syncing rollout dependencies ({self._config.experiment.rollout})")
            await sync_environment(self._preparation.project, environment, log)
            bridge = await self._start_bridge(stack, endpoint, redactor)
            launch = launch_of(self._preparation, environment)
            self._view.milestone(f"starting rollout server ({launch.start.entrypoint})")
            server = await RolloutProcess.start(launch, log, self._files, *([standby] if standby else []))
            stack.push_async_callback(server.stop, 0.0)
            self._welcome(server, state.assignment)
            route = await open_route(stack, self._route_request(bridge, server), self._view, self._files, self._tunnel_lost)
            tools = Tools(
                bridge=bridge,
                projector=projector,
                log=log,
                view=self._view,
                start_server=lambda: RolloutProcess.start(launch, log, self._files),
                rollout_request=lambda dispatch: self._rollout_request(bridge, dispatch),
                write_metrics=lambda tally: projector.write_running(manifest, history, tally),
                most_in_flight=route.most_in_flight,
                deadline=item_deadline(
                    self._config.evaluation.agent_workflow_timeout_s, self._config.evaluation.grader_timeout_s
                ),
            )
            self._session = Session(state, tools, server)
            gc.enable()
            state = await self._session.run(self._open_journal)
            self._report_cassette(bridge)
        return state

    def _assignment(self) -> Assignment:
        return Assignment(
            invocation=InvocationStarted(
                id=uuid.uuid4().hex,
                at=utc_now(),
                sdk_version=__version__,
                retry_failed=self._request.retry_failed,
                max_in_flight=self._request.max_in_flight,
            ),
            workload=self._work,
            source_rows=tuple(self._preparation.dataset.selected.indices()),
            total_items=self._preparation.total_items,
            attempts=self._reading.history.attempts,
            max_in_flight=self._request.max_in_flight,
            batch_size=self._config.evaluation.batch_size,
            ceiling=rollout_ceiling(),
        )

    def _log_start(self, log: RunLog) -> None:
        log.write(
            "INFO",
            "run",
            f"{self._work.size} of {self._preparation.total_items} work items to run",
            {"sdk_version": __version__},
        )
        if self._reading.torn:
            log.write("WARNING", "resume", "dropped an incomplete last record of the journal", {"bytes": self._reading.torn})

    async def _start_bridge(self, stack: AsyncExitStack, endpoint: Endpoint, redactor: Redactor) -> Bridge:
        from osmosis.shell.bridge.recorder import Recorder  # noqa: PLC0415 - HTTP, like the next
        from osmosis.shell.bridge.server import Bridge  # noqa: PLC0415
        from osmosis.shell.bridge.tracing import start_tracing  # noqa: PLC0415

        record = self._request.record or self._request.replay_or_record
        recorder = None
        if record is not None:
            header = Header(model=endpoint.model_path, recorded_from=endpoint.base_url, created_at=utc_now())
            recorder = Recorder(self._request.working_directory / record.expanduser(), header, redactor)
        bridge = Bridge(
            endpoint,
            token=self._token,
            redactor=redactor,
            record=recorder,
            replay=self._preparation.cassette or self._preparation.held,
            price=self._config.price,
            tracing=start_tracing(os.environ, endpoint, self._directory.name),
            max_in_flight=self._request.max_in_flight,
        )
        stack.push_async_callback(bridge.stop, 0.0)
        await bridge.start(self._request.listener_port or 0)
        return bridge

    def _welcome(self, server: RolloutProcess, assignment: Assignment) -> None:
        self._view.milestone(f"rollout server healthy on port {server.port}")
        cap = assignment.cap(server.health.capacity)
        if cap < msgspec.structs.replace(assignment, ceiling=None).cap(server.health.capacity):
            self._view.warning(
                "FEW_FILE_DESCRIPTORS",
                f"this process may open {descriptor_limit()} files, so {cap} rollouts run at once; raise it with ulimit -n",
            )
        if server.sdk_version not in (None, __version__):
            self._view.warning(
                "ROLLOUT_SDK_VERSION_MISMATCH",
                f"the rollout's environment has osmosis-ai {server.sdk_version}, this command is {__version__}",
            )

    def _route_request(self, bridge: Bridge, server: RolloutProcess) -> RouteRequest:
        from osmosis.shell.evaluation.public_route import RouteRequest  # noqa: PLC0415 - HTTP

        sandbox = (server.health.environment or "remote").strip() or "remote"
        return RouteRequest(
            bridge=bridge,
            token=self._token,
            directory=self._directory,
            tunnel=self._request.tunnel,
            advertise_url=self._request.advertise_url,
            sandbox=sandbox if server.health.requires_public_url else None,
            listener_host=self._request.listener_host,
            gateway=server.health.gateway,
        )

    def _tunnel_lost(self, reason: str) -> None:
        if self._session is not None:
            self._session.tunnel_lost(reason)

    def _rollout_request(self, bridge: Bridge, dispatch: Dispatch) -> InitRequest:
        row = self._preparation.dataset.rows[dispatch.item.row_index]
        return InitRequest(
            initial_messages=row.messages(),
            label=row.label,
            metadata=row.metadata,
            rollout_id=dispatch.rollout_id,
            chat_completions_url=bridge.chat_completions_url(dispatch.rollout_id),
            llm_api_key=self._token,
            grade=True,
            agent_timeout_sec=self._config.evaluation.agent_workflow_timeout_s,
            grader_timeout_sec=self._config.evaluation.grader_timeout_s,
            extra_fields={"row_index": dispatch.item.row_index, "run_index": dispatch.item.run_index},
        )

    def _open_journal(
        self, *, on_committed: Callable[[tuple[str, ...]], None], on_failed: Callable[[Exception], None]
    ) -> JournalWriter:
        self._journal = JournalWriter(
            self._files,
            self._directory.journal,
            self._reading,
            evidence=RunEvidence(self._directory),
            on_committed=on_committed,
            on_failed=on_failed,
        )
        return self._journal

    def _report_cassette(self, bridge: Bridge) -> None:
        if missing := bridge.missing:
            self._view.warning(
                "CASSETTE_MISS",
                f"{len(missing)} model calls were not in {self._request.replay}; the first: {missing[0].explanation}",
            )
        if bridge.recording_error is not None:
            self._view.warning("CASSETTE_INCOMPLETE", str(bridge.recording_error))

    # --- Afterwards --------------------------------------------------------------------------------------------------------

    def _conclude(self, manifest: Manifest, state: State) -> RunReport:
        """Fold what is durable, write the final projections, and say how it went."""
        assert self._journal is not None
        empty = packed_history(len(self._preparation.dataset.rows), self._config.evaluation.n)
        reading = read_journal(self._directory.journal, empty.total_items, size=self._journal.size, history=empty)
        history = reading.history
        reason = state.reason
        try:
            summary = Projector(self._files, self._directory, lambda _: None, self._projector).finalize(manifest, history)
        except OSError as error:
            reason = reason or f"the run directory cannot be written: {error.strerror}"
            tally = begin(self._assignment(), history, self._preparation.inputs.pass_threshold).tally
            summary = running_summary(tally)
        return run_report(
            name=self._directory.name,
            manifest=manifest,
            history=history,
            closing=Closing(
                dispatched=state.cursor,
                pending=still_to_run(self._work, history, state.assignment.invocation.id),
                interrupted=state.interrupts > 0,
                halt_reason=reason,
                suspects=state.suspects,
            ),
            metrics=summary,
            output_path=str(self._directory.path),
            trials_path=str(self._directory.trials),
            workspace_directory=str(self._preparation.workspace),
        )

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Signals go to the session once it dispatches; before that they cancel what is being prepared."""
        main = asyncio.current_task()
        assert main is not None
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            if self._session is not None and self._session.state.began:
                self._session.interrupt()
            elif not interrupted:
                # Only once: what is cancelled kills its children, and a second blow would interrupt just that.
                interrupted = True
                self._view.milestone("interrupted: nothing has been dispatched; cleaning up")
                main.cancel()

        try:
            with interrupts_to(interrupt):
                yield
        except asyncio.CancelledError:
            if interrupted:
                raise KeyboardInterrupt from None
            raise


def _log_warning(log: RunLog, text: str) -> None:
    log.write("WARNING", "artifacts", text)


def _log_trouble(log: RunLog, context: Mapping[str, Any]) -> None:
    """What the event loop has to complain about (a listener that is out of descriptors, say) is for the log, not the screen."""
    with suppress(OSError, ValueError):
        log.write("WARNING", "event-loop", str(context.get("message")), {"error": repr(context.get("exception"))})
