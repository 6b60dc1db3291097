"""One invocation at work: performs the supervisor's effects and reports what happened as events.

Nothing is decided here (ruling 31). Each effect has one method, looked up in a table; whatever ends comes back through one
queue, so that the supervisor sees one order of events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from osmosis import __version__
from osmosis.pure.errors import OsmosisError
from osmosis.pure.journal import Result
from osmosis.pure.outcome import classify
from osmosis.pure.protocol import InitRequest
from osmosis.pure.supervision_events import (
    Append,
    Cancel,
    Commit,
    Committed,
    ContactLost,
    DeadlinePassed,
    Dispatch,
    Effect,
    Event,
    Fault,
    Interrupted,
    JournalFailed,
    Leave,
    Publish,
    Ready,
    Refused,
    RestartServer,
    Returned,
    ServerLost,
    Stopped,
    StopServer,
)
from osmosis.pure.supervision_notices import notice
from osmosis.pure.supervision_state import Phase, State, progress
from osmosis.pure.supervisor import advance
from osmosis.pure.tally import Tally, finished_item
from osmosis.shell.bridge.server import Bridge
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.collector import settled_garbage
from osmosis.shell.evaluation.journal_file import JournalWriter
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.rollout_client import AdmissionRefused, RolloutClient, ServerUnreachable, shortened
from osmosis.shell.evaluation.rollout_process import RolloutProcess
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.sample_keeping import keep_sample
from osmosis.shell.evaluation.view import RunView

_WAITING_INTERVAL = 0.5
"""Seconds between looks at which model calls wait for a rate limit."""

_METRICS_INTERVAL = 1.0
"""Seconds between refreshes of `metrics.json` while a run is going on."""


class Tools(msgspec.Struct, frozen=True):
    """What a session works with. `start_server` starts the rollout server; `rollout_request` builds an item's request;
    `write_metrics` writes the counts of a run that is going on; `deadline` is in seconds;
    `most_in_flight` is what the way to the bridge carries."""

    bridge: Bridge
    projector: Projector
    log: RunLog
    view: RunView
    start_server: Callable[[], Awaitable[RolloutProcess]]
    rollout_request: Callable[[Dispatch], InitRequest]
    write_metrics: Callable[[Tally], None]
    deadline: float
    most_in_flight: int | None = None


class Session:
    """Runs from a healthy server to a stopped one. `run` returns the supervisor's last state."""

    def __init__(self, state: State, tools: Tools, server: RolloutProcess) -> None:
        self.state = state
        self._tools = tools
        self._server = server
        self._client: RolloutClient | None = None
        self._journal: JournalWriter | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._drives: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._projecting = ThreadPoolExecutor(1, thread_name_prefix="projection")
        self._projections: list[Callable[[], object]] = []
        self._metrics_due = 0.0
        self._watch(server)
        tools.bridge.report_to(on_provider_rejected=self._fault, on_call_failed=self._log_failed_call)

    def interrupt(self) -> None:
        """A signal arrived."""
        self._post(Interrupted(utc_now()))

    def tunnel_lost(self, reason: str) -> None:
        """Rollouts that are under way cannot reach their model any more; another tunnel would have another URL."""
        self._fault(reason)

    async def run(self, open_journal: Callable[..., JournalWriter]) -> State:
        """Perform effects until the supervisor is done; everything it was told to record is then on disk."""
        self._journal = open_journal(
            on_committed=lambda ids: self._post(Committed(utc_now(), ids)),
            on_failed=lambda error: self._post(JournalFailed(utc_now(), f"the journal cannot be written: {_why(error)}")),
        )
        try:
            with settled_garbage():
                async with RolloutClient(self._server.url) as self._client:
                    self._show_progress()
                    self._spawn(self._follow_waits())
                    self._post(Ready(utc_now(), self._capacity))
                    while self.state.phase is not Phase.DONE:
                        self._take(await self._events.get())
        finally:
            await self._close()
        return self.state

    @property
    def _capacity(self) -> int | None:
        """What the server and the way to the bridge can carry."""
        limits = [limit for limit in (self._server.health.capacity, self._tools.most_in_flight) if limit is not None]
        return min(limits, default=None)

    def _take(self, event: Event) -> None:
        before = self.state
        self.state, effects = advance(before, event)
        # First the words, then the deeds: a cancellation may take its time.
        if text := notice(before, self.state):
            self._tools.view.milestone(text)
            self._log("INFO", "run", text)
        for effect in effects:
            _PERFORM[type(effect)](self, effect)
        if self.state.tally is not before.tally or len(self.state.in_flight) != len(before.in_flight):
            self._show_progress()
        if self.state.reason != before.reason and self.state.reason:
            self._log("ERROR", "run", self.state.reason)

    def _post(self, event: Event) -> None:
        self._events.put_nowait(event)

    def _fault(self, reason: str) -> None:
        self._post(Fault(utc_now(), self._redacted(reason)))

    def _redacted(self, text: str) -> str:
        return self._tools.log.redactor.text(text)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        """A task of ours that dies of an error is a fault of the run, whatever it was doing."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fault(_internal(error))

    async def _close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._journal is not None
        await self._journal.close()
        self._start_projecting()
        self._projecting.shutdown()

    def _show_progress(self) -> None:
        waiting = self._tools.bridge.waiting
        self._tools.view.progress(progress(self.state, waiting.calls, waiting.next_try_s))

    async def _follow_waits(self) -> None:
        """Waits begin, go on and end without a result, so they are looked at by the clock."""
        shown = 0
        while True:
            await asyncio.sleep(_WAITING_INTERVAL)
            if shown or self._tools.bridge.waiting.calls:
                shown = self._tools.bridge.waiting.calls
                self._show_progress()

    # --- Effects -----------------------------------------------------------------------------------------------------------

    def _append(self, effect: Append) -> None:
        assert self._journal is not None
        self._journal.append(effect.record)

    def _commit(self, effect: Commit) -> None:
        assert self._journal is not None
        self._journal.commit(effect.result, over=effect.over)

    def _dispatch(self, effect: Dispatch) -> None:
        self._tools.bridge.register(effect.rollout_id, effect.source_row_index, effect.item.run_index)
        self._log("INFO", "dispatch", _item_text(effect), {"rollout_id": effect.rollout_id})
        self._drives[effect.rollout_id] = self._spawn(self._drive(effect))

    def _cancel(self, effect: Cancel) -> None:
        for rollout_id in effect.rollout_ids:
            self._spawn(self._cancel_rollout(rollout_id, effect.wait))

    def _publish(self, effect: Publish) -> None:
        result = effect.result
        self._log_result(result)
        self._tools.view.item(finished_item(result, self.state.tally.pass_threshold))
        self._project(self._tools.projector.publish, result)
        if time.monotonic() >= self._metrics_due:
            self._metrics_due = time.monotonic() + _METRICS_INTERVAL
            self._project(self._tools.write_metrics, self.state.tally)

    def _stop_server(self, effect: StopServer) -> None:
        if self._stopping is None:
            self._stopping = self._spawn(self._stop(effect.grace))
        else:
            self._spawn(self._server.stop(effect.grace))

    def _restart_server(self, _: RestartServer) -> None:
        self._restarting = self._spawn(self._restart())

    def _leave(self, _: Leave) -> None:
        self._server.kill()

    # --- Their work --------------------------------------------------------------------------------------------------------

    async def _drive(self, effect: Dispatch) -> None:
        """One rollout from dispatch to its end, whatever that is."""
        assert self._client is not None
        name = effect.rollout_id
        began = time.monotonic()

        def elapsed() -> float:
            return round((time.monotonic() - began) * 1000, 3)

        try:
            async with asyncio.timeout(self._tools.deadline):
                response = await self._client.run(self._tools.rollout_request(effect))
            if self._server.sdk_version != __version__:
                await asyncio.to_thread(keep_sample, self._server.trials / name, response.sample)
            cost, calls = self._tools.bridge.cost(name), self._tools.bridge.take_usage(name)
            # What a rollout says about its failure goes to the journal, the index and the screen: without secrets (E8, E9).
            message = response.err_message and self._redacted(response.err_message)
            outcome = classify(msgspec.structs.replace(response, err_message=message))
            self._post(Returned(utc_now(), name, outcome, elapsed(), calls, cost))
        except TimeoutError:
            cost, calls = self._tools.bridge.cost(name), self._tools.bridge.take_usage(name)
            self._post(DeadlinePassed(utc_now(), name, self._tools.deadline, elapsed(), calls, cost))
        except AdmissionRefused as refusal:
            self._post(Refused(utc_now(), name, shortened(self._redacted(str(refusal))), elapsed()))
        except ServerUnreachable as trouble:
            # A server that just exited says so itself, with its last lines: give that the first word.
            await self._server.exited_within(_LAST_WORDS)
            self._post(ContactLost(utc_now(), name, shortened(self._redacted(str(trouble)))))
            self._post(Returned(utc_now(), name, None, elapsed()))
        except asyncio.CancelledError:
            self._post(Returned(utc_now(), name, None, elapsed()))
            raise
        except OsmosisError as error:
            # The row can no longer be read from the dataset.
            self._fault(str(error))
            self._post(Returned(utc_now(), name, None, elapsed()))
        except Exception as error:  # noqa: BLE001 - a drive that ends without an event would leave its item in flight for ever
            self._fault(_internal(error))
            self._post(Returned(utc_now(), name, None, elapsed()))
        finally:
            self._tools.bridge.cancel(name)
            self._drives.pop(name, None)

    async def _cancel_rollout(self, rollout_id: str, wait: float) -> None:
        """Model calls end at once; the rollout gets `wait` seconds to clean up."""
        assert self._client is not None
        self._tools.bridge.cancel(rollout_id)
        await self._client.cancel(rollout_id)
        drive = self._drives.get(rollout_id)
        if drive is not None:
            await asyncio.wait({drive}, timeout=wait)
            drive.cancel()

    async def _stop(self, grace: float) -> None:
        if self._restarting is not None:
            # A server that is being started again would otherwise outlive the run.
            self._restarting.cancel()
            await asyncio.wait({self._restarting})
        await self._server.stop(grace)
        await self._tools.bridge.stop(0.0)
        self._post(Stopped(utc_now()))

    async def _restart(self) -> None:
        assert self._client is not None
        await self._server.stop(0.0)
        try:
            self._server = await self._tools.start_server()
        except OsmosisError as error:
            self._fault(f"the rollout server could not be started again: {error}")
            return
        self._watch(self._server)
        self._client.url = self._server.url
        self._post(Ready(utc_now(), self._capacity))

    def _watch(self, server: RolloutProcess) -> None:
        server.on_exit(lambda reason: self._post(ServerLost(utc_now(), reason)))

    def _project(self, work: Callable[[Any], object], argument: Any) -> None:
        """Write projections one after the other, off the event loop. They can be rebuilt, but a disk that refuses must show."""
        self._projections.append(partial(work, argument))
        if len(self._projections) == 1:
            # Results become durable in groups; what they bring about goes to the thread as one piece of work.
            asyncio.get_running_loop().call_soon(self._start_projecting)

    def _start_projecting(self) -> None:
        loop = asyncio.get_running_loop()
        group, self._projections = self._projections, []
        if not group:
            return

        def report(done: Future[None]) -> None:
            if (error := done.exception()) is not None:
                loop.call_soon_threadsafe(self._fault, f"the run directory cannot be written: {_why(error)}")

        self._projecting.submit(_perform_all, group).add_done_callback(report)

    def _log(self, level: str, step: str, message: str, details: dict[str, Any] | None = None) -> None:
        try:
            self._tools.log.write(level, step, message, details)
        except OSError as error:
            self._fault(f"the log cannot be written: {_why(error)}")

    def _log_failed_call(self, rollout_id: str, status: int, message: str) -> None:
        """Many clients tell their rollout the status of a failed model call and not the cause, so it stands here."""
        flight = self.state.in_flight.get(rollout_id)
        where = rollout_id if flight is None else f"row {flight.item.row_index} run {flight.item.run_index}"
        details = {"rollout_id": rollout_id, "status": status}
        self._log("WARNING", "model", f"{where}: a model call failed: {shortened(message)}", details)

    def _log_result(self, result: Result) -> None:
        details = {"rollout_id": result.rollout_id, "status": result.status.value, "reward": result.reward}
        details |= {"error_type": result.error_type, "error_message": result.error_message}
        present = {key: value for key, value in details.items() if value is not None}
        self._log("INFO", "result", f"row {result.item.row_index} run {result.item.run_index}", present)


_LAST_WORDS = 3.0
"""Seconds in which a server that just exited tells so itself; longer than `rollout_process` waits for its last lines."""

_PERFORM: dict[type[Effect], Callable[[Session, Any], None]] = {
    Append: Session._append,
    Commit: Session._commit,
    Dispatch: Session._dispatch,
    Cancel: Session._cancel,
    Publish: Session._publish,
    StopServer: Session._stop_server,
    RestartServer: Session._restart_server,
    Leave: Session._leave,
}


def _perform_all(group: list[Callable[[], object]]) -> None:
    """Each of them, also after one that failed. Raises the first error."""
    failed: Exception | None = None
    for work in group:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised below
            failed = failed or error
    if failed is not None:
        raise failed


def _why(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else _internal(error)


def _internal(error: BaseException) -> str:
    return f"internal error: {type(error).__name__}: {error}"


def _item_text(effect: Dispatch) -> str:
    return f"row {effect.item.row_index} run {effect.item.run_index}"
