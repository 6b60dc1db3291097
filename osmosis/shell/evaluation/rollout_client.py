"""One rollout over the wire: admission, long poll, cancel (protocol 0.4, `rollout_protocol.md` section 8).

The hot path of a run: kept connections to the rollout server, msgspec on both ends. What a status or a silence means is looked
up in `osmosis.pure.protocol`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Self

from osmosis.pure import protocol
from osmosis.pure.protocol import (
    CANCEL_TIMEOUT_SEC,
    GATEWAY_RETRY_DELAYS_SEC,
    GATEWAY_STATUSES,
    POLLING_LEASE_HEADER,
    TRANSPORT_RETRY_DELAYS_SEC,
    CancelRequest,
    InitRequest,
    InitResponse,
    RemoteProtocolError,
    ResultResponse,
    RolloutStatus,
)
from osmosis.shell.evaluation.loopback_http import Answer, LoopbackHttp, NoAnswer, StaleConnection, field_value

ADMISSION_TIMEOUT = 30.0
_SHOWN = 400
_READ = 1 << 16


class AdmissionRefused(Exception):
    """The server answered the start of a rollout with a 4xx other than 429; asking again would change nothing."""


class ServerUnreachable(Exception):
    """The server cannot be talked to any more: no answer inside the lease, or one that makes no sense."""


class RolloutClient:
    """Drives rollouts on the server at `url`, which may be set anew. Use as an async context manager."""

    def __init__(self, url: str) -> None:
        self._http = LoopbackHttp(url)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._http.url

    @url.setter
    def url(self, url: str) -> None:
        self._http.close()
        self._http = LoopbackHttp(url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._http.close()

    async def run(self, request: InitRequest) -> ResultResponse:
        """Start the rollout and wait for its terminal result. Raises AdmissionRefused or ServerUnreachable."""
        sent = time.monotonic()
        admission = await self._admit(request)
        return await self._poll(request.rollout_id, admission, sent)

    async def cancel(self, rollout_id: str) -> None:
        """Ask the server to cancel; silence and errors are taken as they come, since the lease ends what nobody polls."""
        body = protocol.encode(CancelRequest(ids=[rollout_id]))
        with suppress(NoAnswer):
            await self._post("/rollout/cancel", body, CANCEL_TIMEOUT_SEC)

    async def _post(self, path: str, body: bytes, within: float) -> tuple[Answer, bool]:
        """The answer, and whether the request had to be sent again because a kept connection was closed under it.

        Neither of our requests does harm the second time: a cancelled rollout stays cancelled, and an id is admitted once.
        """
        try:
            return await self._http.post(path, body, within=within), False
        except StaleConnection:
            return await self._http.post(path, body, within=within), True

    async def _admit(self, request: InitRequest) -> InitResponse:
        body = protocol.encode(request)
        while True:
            try:
                answer, repeated = await self._post("/rollout", body, ADMISSION_TIMEOUT)
            except NoAnswer as error:
                raise ServerUnreachable(f"the rollout server does not take rollouts: {error}") from error
            if answer.status == 409 and repeated:
                raise ServerUnreachable("the rollout server took a rollout and closed the connection instead of saying so")
            if answer.status == 429:
                await asyncio.sleep(protocol.retry_after_sec(answer.retry_after))
                continue
            if 400 <= answer.status < 500:
                raise AdmissionRefused(f"status {answer.status}: {_shown(answer.body)}")
            if answer.status != 202:
                raise ServerUnreachable(f"the rollout server answered {answer.status} to a new rollout: {_shown(answer.body)}")
            try:
                admission = protocol.decode_init_response(answer.body)
                protocol.expect_rollout(admission, request.rollout_id)
            except RemoteProtocolError as error:
                raise _not_the_protocol(error) from error
            return admission

    async def _poll(self, rollout_id: str, admission: InitResponse, sent: float) -> ResultResponse:
        path = protocol.rollout_path(rollout_id)
        try:
            lease = f"{POLLING_LEASE_HEADER}: {field_value(admission.polling_lease_token)}\r\n"
        except ValueError as error:
            raise _not_the_protocol(error) from error
        failures = 0
        while True:
            asked = time.monotonic()
            try:
                answer = await self._http.get(path, headers=lease, within=admission.poll_timeout_sec)
                trouble = None if answer.status == 200 else f"status {answer.status}: {_shown(answer.body)}"
                schedule: tuple[float, ...] = GATEWAY_RETRY_DELAYS_SEC if answer.status in GATEWAY_STATUSES else ()
            except NoAnswer as error:
                trouble, schedule = str(error), TRANSPORT_RETRY_DELAYS_SEC
            if trouble is None:
                sent = asked
                result = _decoded(answer.body, rollout_id)
                if result.status.terminal:
                    return result
                if result.status is not RolloutStatus.UNKNOWN:
                    failures = 0
                    continue
                # A backend that lost track answers at once, so asking again without a pause would be a busy loop.
                trouble, schedule = "its status is unknown", GATEWAY_RETRY_DELAYS_SEC
            failures += 1
            left = sent + admission.polling_lease_timeout_sec - time.monotonic()
            delay = protocol.retry_delay_sec(schedule, failures, left_sec=left, poll_timeout_sec=admission.poll_timeout_sec)
            if delay is None:
                raise ServerUnreachable(
                    f"the rollout server does not tell the result of {rollout_id}{_tries(failures)}: {trouble}"
                )
            await asyncio.sleep(delay)


def _decoded(answer: bytes, rollout_id: str) -> ResultResponse:
    try:
        result = protocol.decode_result(answer)
        protocol.expect_rollout(result, rollout_id)
    except RemoteProtocolError as error:
        raise _not_the_protocol(error) from error
    return result


def _tries(failures: int) -> str:
    """How often was asked: `trouble` tells of the last time alone, so a wait given there is not the whole wait."""
    return f", asked {failures} times" if failures > 1 else ""


def _not_the_protocol(error: ValueError) -> ServerUnreachable:
    return ServerUnreachable(f"the rollout server does not speak protocol 0.4: {error}")


def _shown(body: bytes) -> str:
    return body[:_READ].decode(errors="replace")


def shortened(text: str) -> str:
    """`text` at the length at which it is shown. To be called after redaction: half a secret is not recognised."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
