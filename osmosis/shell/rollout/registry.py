"""The rollouts of one server: admission, leases, results, cancellation, shutdown (contract: rollout_protocol sections 7.3-7.8).

A rollout lives as long as somebody polls it: each poll renews its lease, and when the lease runs out the work is cancelled. A
finished result can be read again and again until its retention ends. Everything here runs on the event loop without awaiting
between a check and its consequence, so no locks are needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from osmosis.pure.ownership import Run, run_of
from osmosis.pure.protocol import (
    CancelRequest,
    CancelResponse,
    Disposition,
    ErrorCategory,
    InitRequest,
    InitResponse,
    ResultResponse,
    RolloutStatus,
    encode,
)
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.context import RolloutContext, RolloutProgress
from osmosis.shell.rollout.failure import error_category
from osmosis.shell.rollout.preview import Previews, RolloutPreview
from osmosis.shell.rollout.trajectory import save_trajectory
from osmosis.shell.rollout.types.execution import ExecutionRequest
from osmosis.shell.rollout.wire_sample import compose_result

if TYPE_CHECKING:
    from osmosis.shell.rollout.telemetry import OwnershipTelemetry

logger = logging.getLogger(__name__)

_NO_RUN = Run()
FINISH_GRACE_SEC = 10.0
CANCEL_GRACE_SEC = 120.0
LAST_GRACE_SEC = 10.0
RETRY_AFTER_SEC = 5
NEWS_DELAY_SEC = 0.005
"""A change of status answers the waiting poll this much later, so that one that is over at once costs no poll of its own."""


class RefusalError(Exception):
    """A request that cannot be served: the HTTP status, what to say, and extra headers."""

    def __init__(self, status: int, detail: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Limits:
    """Seconds: how long a poll waits, how long a lease lasts, how long a result is kept."""

    result_wait_timeout_sec: float
    polling_lease_timeout_sec: float
    result_retention_sec: float


@dataclass(eq=False)
class _Rollout:
    """What stays of a rollout until its retention ends. Its request, with the model key in it, is not among it."""

    rollout_id: str
    token_digest: bytes
    lease_deadline: float
    run: Run
    status: RolloutStatus = RolloutStatus.QUEUED
    body: bytes | None = None
    preview: RolloutPreview | None = None
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    waiters: set[asyncio.Future[None]] = field(default_factory=set)

    def wake(self) -> None:
        _resolve_all(self.waiters)


class RolloutRegistry:
    """Every rollout that is running or whose result is still kept, by id."""

    def __init__(
        self,
        backend: ExecutionBackend,
        limits: Limits,
        *,
        process_id: str,
        previews: Previews | None = None,
        telemetry: OwnershipTelemetry | None = None,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._process_id = process_id
        self._previews = previews
        self._telemetry = telemetry
        self._rollouts: dict[str, _Rollout] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepting = True

    @property
    def active(self) -> int:
        """How many executions have not ended."""
        return len(self._tasks)

    # ---- admission ------------------------------------------------------------------------------------------------------

    def admit(self, request: InitRequest) -> InitResponse:
        """Start a rollout. Raises RefusalError: 503 while shutting down, 429 without capacity, 409 for a known id."""
        if not self.accepting:
            raise RefusalError(503, "rollout server is shutting down")
        if not self._backend.has_capacity():
            raise RefusalError(429, "rollout queue is full; retry later", {"retry-after": str(RETRY_AFTER_SEC)})
        if request.rollout_id in self._rollouts:
            raise RefusalError(409, "rollout_id is already registered")
        loop = asyncio.get_running_loop()
        token = secrets.token_urlsafe(32)
        lease_deadline = loop.time() + self._limits.polling_lease_timeout_sec
        rollout = _Rollout(request.rollout_id, _digest(token), lease_deadline, _NO_RUN)
        if self._telemetry is not None:
            rollout.run = run_of(request.metadata)
        self._rollouts[rollout.rollout_id] = rollout
        self._note(rollout)
        rollout.timer = loop.call_at(rollout.lease_deadline, self._check_lease, rollout)
        rollout.task = loop.create_task(self._execute(rollout, request), name=f"rollout {rollout.rollout_id}")
        self._tasks.add(rollout.task)
        rollout.task.add_done_callback(lambda task: self._execution_ended(rollout, task))
        return InitResponse(
            rollout_id=rollout.rollout_id,
            status=RolloutStatus.QUEUED,
            polling_lease_token=token,
            result_wait_timeout_sec=self._limits.result_wait_timeout_sec,
            polling_lease_timeout_sec=self._limits.polling_lease_timeout_sec,
        )

    async def _execute(self, rollout: _Rollout, request: InitRequest) -> None:
        self._move(rollout, RolloutStatus.RUNNING)
        try:
            response = await self._run_backend(rollout, request)
        except asyncio.CancelledError:
            self._finish(rollout, _ended(rollout, RolloutStatus.CANCELLED, "cancelled"))
            raise
        except Exception as error:
            logger.exception("Rollout %s failed in its backend", rollout.rollout_id)
            message = str(error) or "Internal server error"
            response = _ended(rollout, RolloutStatus.FAILURE, message, error_category(error))
        self._finish(rollout, response)

    async def _run_backend(self, rollout: _Rollout, request: InitRequest) -> ResultResponse:
        context = RolloutContext(
            chat_completions_url=request.chat_completions_url,
            api_key=request.llm_api_key,
            rollout_id=request.rollout_id,
            progress=RolloutProgress(
                status=RolloutStatus.RUNNING,
                on_status=lambda status: self._move(rollout, status),
            ),
            process_id=self._process_id,
        )
        with context:
            if self._previews is not None:
                rollout.preview = self._previews.follow(context)
            outcome = await self._backend.execute(
                ExecutionRequest(
                    id=request.rollout_id,
                    prompt=request.initial_messages,
                    label=request.label,
                    metadata=request.metadata,
                    agent_timeout_sec=request.agent_timeout_sec,
                    grader_timeout_sec=request.grader_timeout_sec,
                    grade=request.grade,
                )
            )
        if outcome.result.status is not RolloutStatus.CANCELLED:
            await save_trajectory(
                rollout_id=request.rollout_id,
                result=outcome.result_to_save,
                request_label=request.label,
                request_metadata=request.metadata,
                request_extra_fields=request.extra_fields,
                diagnostics=outcome.result.extra_fields or outcome.workflow.extra_fields,
            )
        response = compose_result(request.rollout_id, outcome)
        if rollout.preview is not None:
            rollout.preview.ended(response.status, outcome.result_to_save.sample)
        return response

    # ---- a rollout's life -----------------------------------------------------------------------------------------------

    def _move(self, rollout: _Rollout, status: RolloutStatus) -> None:
        """Follow the execution's own status; the end is announced by `_finish` alone, together with the result."""
        if rollout.body is None and not status.terminal and status != rollout.status:
            rollout.status = status
            if rollout.waiters:
                # Those that wait now; a poll that comes later asks about this status already.
                asyncio.get_running_loop().call_later(NEWS_DELAY_SEC, _resolve_all, tuple(rollout.waiters))
            self._note(rollout)
            if rollout.preview is not None:
                rollout.preview.moved(status)

    def _note(self, rollout: _Rollout) -> None:
        if self._telemetry is not None:
            self._telemetry.note(rollout.rollout_id, rollout.run, rollout.status)

    def _finish(self, rollout: _Rollout, response: ResultResponse) -> None:
        """Make a result readable, once, and start its retention. A result that comes after the lease ran out is void."""
        if rollout.body is not None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= rollout.lease_deadline:
            response = _lease_expired(rollout)
        rollout.body = encode(response)
        rollout.status = response.status
        if rollout.timer is not None:
            rollout.timer.cancel()
        rollout.timer = loop.call_later(self._limits.result_retention_sec, self._forget, rollout)
        rollout.wake()
        self._note(rollout)
        if rollout.preview is not None:
            rollout.preview.ended(response.status, None)
            rollout.preview = None

    def _check_lease(self, rollout: _Rollout) -> None:
        """The lease's timer: polls only move the deadline, so most of the time this sets the timer anew."""
        loop = asyncio.get_running_loop()
        if loop.time() < rollout.lease_deadline:
            rollout.timer = loop.call_at(rollout.lease_deadline, self._check_lease, rollout)
        else:
            self._expire(rollout)

    def _expire(self, rollout: _Rollout) -> None:
        self._finish(rollout, _lease_expired(rollout))
        if rollout.task is not None:
            rollout.task.cancel()

    def _execution_ended(self, rollout: _Rollout, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._finish(rollout, _ended(rollout, RolloutStatus.CANCELLED))
        elif task.exception() is not None:
            logger.error("The task of rollout %s crashed", rollout.rollout_id, exc_info=task.exception())
            failed = _ended(rollout, RolloutStatus.FAILURE, "rollout task crashed", ErrorCategory.INTERNAL_ERROR)
            self._finish(rollout, failed)

    def _forget(self, rollout: _Rollout) -> None:
        """Drop a kept result, but not before its execution has really ended: until then the id must not be used again."""
        if rollout.task is None or rollout.task.done():
            self._rollouts.pop(rollout.rollout_id, None)
        else:
            rollout.task.add_done_callback(lambda _: self._rollouts.pop(rollout.rollout_id, None))

    # ---- polling --------------------------------------------------------------------------------------------------------

    async def poll(self, rollout_id: str, token: str) -> bytes:
        """The body of a result: final if the rollout has ended, else at its next change of status or after the wait.

        Raises RefusalError: 404 for an unknown id, 403 for a wrong token.
        """
        rollout = self._rollouts.get(rollout_id)
        if rollout is None:
            raise RefusalError(404, "unknown rollout_id")
        if not hmac.compare_digest(_digest(token), rollout.token_digest):
            raise RefusalError(403, "invalid polling lease")
        if rollout.body is None:
            await self._wait(rollout)
        return rollout.body or encode(ResultResponse(rollout_id=rollout_id, status=rollout.status))

    async def _wait(self, rollout: _Rollout) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= rollout.lease_deadline:
            self._expire(rollout)
            return
        rollout.lease_deadline = now + self._limits.polling_lease_timeout_sec
        waiter = loop.create_future()
        rollout.waiters.add(waiter)
        timer = loop.call_later(self._limits.result_wait_timeout_sec, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            rollout.waiters.discard(waiter)

    # ---- cancellation ---------------------------------------------------------------------------------------------------

    def cancel(self, request: CancelRequest) -> CancelResponse:
        """Ask for the end of rollouts; what becomes of them shows in their results. Exactly one selector must be given."""
        if request.ids is not None:
            ids = request.ids
        else:
            ids = [known for known in self._rollouts if known.startswith(request.prefix or "")]
        return CancelResponse({rollout_id: self._cancel_one(rollout_id) for rollout_id in ids})

    def _cancel_one(self, rollout_id: str) -> str:
        rollout = self._rollouts.get(rollout_id)
        if rollout is None or rollout.body is not None or rollout.task is None:
            return Disposition.NOT_FOUND
        answer = self._ask_backend(rollout_id)
        if answer is not None:
            return answer
        queued = rollout.status is RolloutStatus.QUEUED
        rollout.task.cancel()
        return Disposition.CANCELLED_QUEUED if queued else Disposition.CANCELLED_RUNNING

    def _ask_backend(self, rollout_id: str) -> str | None:
        """The backend's own disposition; None if it has none, or says `not_found` of work that it does not know to be over."""
        try:
            answer = self._backend.cancel_rollouts(ids=[rollout_id]).get(rollout_id)
            if answer == Disposition.NOT_FOUND and not _is_terminal(self._backend.rollout_status(rollout_id)):
                return None
        except Exception:
            logger.exception("The backend failed to cancel rollout %s", rollout_id)
            return None
        return answer if answer in set(Disposition) else None

    # ---- shutdown -------------------------------------------------------------------------------------------------------

    async def shutdown(self) -> None:
        """Admit nothing more, let rollouts finish for a while, cancel the rest, then close the backend."""
        self.accepting = False
        if await self._drain(FINISH_GRACE_SEC):
            self._cancel_all()
            if await self._drain(CANCEL_GRACE_SEC):
                logger.warning("%d rollouts ignore their cancellation; giving up on them", self.active)
                for task in self._tasks:
                    task.cancel()
                await self._drain(LAST_GRACE_SEC)
        await self._backend.shutdown()
        for rollout in self._rollouts.values():
            if rollout.timer is not None:
                rollout.timer.cancel()
        if self._previews is not None:
            await self._previews.stop()
        if self._telemetry is not None:
            await self._telemetry.close()

    async def _drain(self, timeout_sec: float) -> bool:
        """Wait for running rollouts to end; True if some are left."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_sec)
        return bool(self._tasks)

    def _cancel_all(self) -> None:
        for rollout_id in [rollout.rollout_id for rollout in self._rollouts.values() if rollout.body is None]:
            self._cancel_one(rollout_id)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _resolve_all(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        _resolve(waiter)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _is_terminal(status: dict[str, Any] | None) -> bool:
    known = None if status is None else status.get("status")
    return known in {member for member in RolloutStatus if member.terminal}


def _ended(
    rollout: _Rollout, status: RolloutStatus, message: str | None = None, category: ErrorCategory | None = None
) -> ResultResponse:
    return ResultResponse(rollout_id=rollout.rollout_id, status=status, err_message=message, err_category=category)


def _lease_expired(rollout: _Rollout) -> ResultResponse:
    return _ended(rollout, RolloutStatus.FAILURE, "polling lease expired", ErrorCategory.LEASE_EXPIRED)
