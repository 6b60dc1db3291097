"""Driving rollouts on a server, for programs (contract: rollout_protocol section 8).

`run_rollout_async` returns once the rollout is admitted; a background task then polls until it has ended. What a status, a
silence or a malformed answer means is decided by `osmosis.pure.protocol`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from osmosis.pure import protocol
from osmosis.pure.canonical import decode_json
from osmosis.pure.protocol import InitRequest, InitResponse, RemoteProtocolError, ResultResponse, RolloutStatus
from osmosis.shell.rollout.handle import RolloutHandle
from osmosis.shell.rollout.types.protocol import CancelRolloutsResponse, RolloutResultResponse
from osmosis.shell.rollout.types.sample import MessageDict, RolloutSample

T = TypeVar("T")

_JSON = {"content-type": "application/json"}
_SHOWN_CHARACTERS = 300
_RETRIED_POLL_ERRORS = (httpx.RemoteProtocolError, httpx.NetworkError, httpx.ReadTimeout)


class RolloutProtocolError(RuntimeError):
    """The server answered with something that the protocol does not foresee. `status_code` is the HTTP status."""

    def __init__(self, message: str, *, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class RolloutAdmissionTimeoutError(TimeoutError):
    """A rollout was not admitted in time. It may have been admitted all the same; its lease will end it."""


class RolloutClient:
    """Talks to the rollout server at `url`. An HTTP client that is passed in stays the caller's to close.

    `admission_timeout_sec` bounds the whole admission, waiting for a free place included. Raises ValueError for a timeout that
    is not finite and a blank `api_key`.
    """

    def __init__(
        self,
        *,
        url: str,
        http_client: httpx.AsyncClient | None = None,
        admission_timeout_sec: float | None = None,
        api_key: str | None = None,
    ) -> None:
        if admission_timeout_sec is not None and not math.isfinite(admission_timeout_sec):
            raise ValueError("admission_timeout_sec must be finite")
        if api_key is not None and not api_key.strip():
            raise ValueError("api_key must not be blank; use None for no authentication")
        self._url = url.rstrip("/")
        self._http = httpx.AsyncClient() if http_client is None else http_client
        self._owns_http = http_client is None
        self._admission_timeout_sec = admission_timeout_sec
        self._headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}

    async def aclose(self) -> None:
        """Close the HTTP client, if it is our own."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def health(self) -> dict[str, Any]:
        """The health report. Raises RolloutProtocolError unless it is a JSON object with status 200."""
        response = await self._send("GET", "/health")
        if response.status_code != httpx.codes.OK:
            raise _unexpected("health report", response)
        try:
            report = decode_json(response.content)
        except ValueError as error:
            raise RolloutProtocolError(f"the health report is not JSON: {error}", status_code=200) from None
        if not isinstance(report, dict):
            raise RolloutProtocolError("the health report is not a JSON object", status_code=200)
        return report

    async def wait_idle(
        self, *, timeout_sec: float = 120, poll_interval_sec: float = 1, process_id: str | None = None
    ) -> dict[str, Any]:
        """Wait until the server runs no rollout; returns that health report. Raises TimeoutError.

        Passing trouble is waited out. A server that is not the one of `process_id`, or was replaced while we waited, or
        reports no lifecycle, raises RolloutProtocolError.
        """
        async with asyncio.timeout(timeout_sec):
            while True:
                report = await self._health_if_possible()
                if report is not None:
                    process_id = _same_process(report, process_id)
                    if _active_rollouts(report) == 0:
                        return report
                await asyncio.sleep(poll_interval_sec)

    async def run_rollout(
        self,
        initial_messages: list[MessageDict],
        chat_completions_url: str,
        rollout_id: str,
        llm_api_key: str | None = None,
        label: str | None = None,
        metadata: dict[str, Any] | None = None,
        grade: bool = True,
        agent_timeout_sec: float | None = None,
        grader_timeout_sec: float | None = None,
        extra_fields: dict[str, Any] | None = None,
    ) -> RolloutResultResponse:
        """Start a rollout and return its final response."""
        handle = await self.run_rollout_async(
            initial_messages,
            chat_completions_url,
            rollout_id,
            llm_api_key,
            label,
            metadata,
            grade,
            agent_timeout_sec,
            grader_timeout_sec,
            extra_fields,
        )
        try:
            return await handle
        finally:
            handle.cancel()

    async def run_rollout_async(
        self,
        initial_messages: list[MessageDict],
        chat_completions_url: str,
        rollout_id: str,
        llm_api_key: str | None = None,
        label: str | None = None,
        metadata: dict[str, Any] | None = None,
        grade: bool = True,
        agent_timeout_sec: float | None = None,
        grader_timeout_sec: float | None = None,
        extra_fields: dict[str, Any] | None = None,
    ) -> RolloutHandle:
        """Start a rollout and return once it is admitted.

        Raises RolloutProtocolError if it is refused, RolloutAdmissionTimeoutError if that took too long, ValueError for a
        request that the protocol forbids.
        """
        request = InitRequest(
            initial_messages=initial_messages,
            label=label,
            metadata=metadata,
            rollout_id=rollout_id,
            chat_completions_url=chat_completions_url,
            llm_api_key=llm_api_key,
            grade=grade,
            agent_timeout_sec=agent_timeout_sec,
            grader_timeout_sec=grader_timeout_sec,
            extra_fields=extra_fields,
        )
        admission, lease_end = await self._admit_in_time(request)
        handle = RolloutHandle(rollout_id, admission.status)
        handle.follow(lambda followed: self._poll(followed, admission, lease_end))
        return handle

    async def cancel_rollout(self, rollout_id: str) -> CancelRolloutsResponse:
        """Ask for the end of one rollout. Raises TimeoutError after five seconds."""
        body = protocol.encode(protocol.CancelRequest(ids=[rollout_id]))
        async with asyncio.timeout(protocol.CANCEL_TIMEOUT_SEC):
            response = await self._send("POST", "/rollout/cancel", body)
        if response.status_code != httpx.codes.OK:
            raise _unexpected("answer to a cancel request", response)
        answer = _decoded(protocol.decode_cancel_response, response)
        return CancelRolloutsResponse(dispositions=answer.dispositions)

    # ---- admission ------------------------------------------------------------------------------------------------------

    async def _admit_in_time(self, request: InitRequest) -> tuple[InitResponse, float]:
        limit = self._admission_timeout_sec
        try:
            async with asyncio.timeout(limit) as timeout:
                return await self._admit(request)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            message = f"rollout {request.rollout_id!r} was not admitted within {limit} s"
            raise RolloutAdmissionTimeoutError(message) from error

    async def _admit(self, request: InitRequest) -> tuple[InitResponse, float]:
        """The admission, and the time (of the event loop) at which its lease runs out unless it is polled."""
        body = protocol.encode(request)
        while True:
            sent = _now()
            response = await self._send("POST", "/rollout", body)
            if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
                await asyncio.sleep(protocol.retry_after_sec(response.headers.get("retry-after")))
                continue
            if response.status_code != httpx.codes.ACCEPTED:
                raise _unexpected("answer to a new rollout", response)
            admission = _decoded(protocol.decode_init_response, response)
            _expect(admission, request.rollout_id, response)
            return admission, sent + admission.polling_lease_timeout_sec

    # ---- polling --------------------------------------------------------------------------------------------------------

    async def _poll(self, handle: RolloutHandle, admission: InitResponse, lease_end: float) -> RolloutResultResponse:
        failures = 0
        while True:
            sent = _now()
            answer = await self._poll_once(handle.rollout_id, admission)
            if isinstance(answer, ResultResponse):
                response = _for_users(answer)
                handle.take(response)
                if response.status.terminal:
                    return response
                lease_end = sent + admission.polling_lease_timeout_sec
                if response.status is not RolloutStatus.UNKNOWN:
                    failures = 0
                    continue
                # A server that lost track answers at once, so asking again without a pause would be a busy loop.
                answer = _Trouble(protocol.GATEWAY_RETRY_DELAYS_SEC, RolloutProtocolError("unknown status", status_code=200))
            failures += 1
            delay = protocol.retry_delay_sec(
                answer.schedule, failures, left_sec=lease_end - _now(), poll_timeout_sec=admission.poll_timeout_sec
            )
            if delay is None:
                raise answer.error
            await asyncio.sleep(delay)

    async def _poll_once(self, rollout_id: str, admission: InitResponse) -> ResultResponse | _Trouble:
        lease = {protocol.POLLING_LEASE_HEADER: admission.polling_lease_token}
        try:
            response = await self._send(
                "GET", protocol.rollout_path(rollout_id), headers=lease, timeout=admission.poll_timeout_sec
            )
        except _RETRIED_POLL_ERRORS as error:
            return _Trouble(protocol.TRANSPORT_RETRY_DELAYS_SEC, error)
        if response.status_code in protocol.GATEWAY_STATUSES:
            return _Trouble(protocol.GATEWAY_RETRY_DELAYS_SEC, _unexpected("answer to a poll", response))
        if response.status_code != httpx.codes.OK:
            raise _unexpected("answer to a poll", response)
        result = _decoded(protocol.decode_result, response)
        _expect(result, rollout_id, response)
        return result

    # ---- HTTP -----------------------------------------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of the one request, kept by httpx
    ) -> httpx.Response:
        return await self._http.request(
            method,
            self._url + path,
            content=body,
            headers={**self._headers, **({} if body is None else _JSON), **(headers or {})},
            timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
            follow_redirects=False,
        )

    async def _health_if_possible(self) -> dict[str, Any] | None:
        with contextlib.suppress(httpx.TransportError):
            try:
                return await self.health()
            except RolloutProtocolError as error:
                if error.status_code not in (408, 429) and error.status_code < 500:
                    raise
        return None


class _Trouble:
    """A poll that brought no result: when to try again, and what to raise when that is over."""

    def __init__(self, schedule: tuple[float, ...], error: Exception) -> None:
        self.schedule = schedule
        self.error = error


def _now() -> float:
    return asyncio.get_running_loop().time()


def _decoded(decode: Callable[[bytes], T], response: httpx.Response) -> T:
    try:
        return decode(response.content)
    except RemoteProtocolError as error:
        raise RolloutProtocolError(str(error), status_code=response.status_code) from None


def _expect(answer: InitResponse | ResultResponse, rollout_id: str, response: httpx.Response) -> None:
    try:
        protocol.expect_rollout(answer, rollout_id)
    except RemoteProtocolError as error:
        raise RolloutProtocolError(str(error), status_code=response.status_code) from None


def _unexpected(what: str, response: httpx.Response) -> RolloutProtocolError:
    shown = response.text[:_SHOWN_CHARACTERS]
    return RolloutProtocolError(f"unexpected {what}: status {response.status_code}: {shown}", status_code=response.status_code)


def _for_users(result: ResultResponse) -> RolloutResultResponse:
    sample = result.sample
    try:
        return RolloutResultResponse(
            rollout_id=result.rollout_id,
            status=result.status,
            sample=None
            if sample is None
            else RolloutSample(
                messages=sample.messages,
                label=sample.label,
                reward=sample.reward,
                remove_sample=sample.remove_sample,
                metrics=sample.metrics,
                extra_fields=sample.extra_fields,
            ),
            err_message=result.err_message,
            err_category=result.err_category,
        )
    except ValueError as error:
        raise RolloutProtocolError(f"the result is malformed: {error}", status_code=200) from None


def _same_process(report: dict[str, Any], process_id: str | None) -> str:
    reported = report.get("process_id")
    if not isinstance(reported, str) or (process_id is not None and reported != process_id):
        raise RolloutProtocolError(
            f"the server's process_id is {reported!r}, not {process_id!r}: another process answers", status_code=200
        )
    return reported


def _active_rollouts(report: dict[str, Any]) -> int:
    active = report["lifecycle"].get("active_rollouts") if isinstance(report.get("lifecycle"), dict) else None
    if not isinstance(active, int):
        raise RolloutProtocolError("the health report has no lifecycle", status_code=200)
    return active
