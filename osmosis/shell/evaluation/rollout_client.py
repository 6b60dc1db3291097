"""One rollout over the wire: admission, long poll, cancel (protocol 0.4, `rollout_protocol.md` section 8).

The hot path of a run: one shared aiohttp session to the rollout server, msgspec on both ends. What a status or a silence means
is looked up in `osmosis.pure.protocol`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Self

import aiohttp

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

ADMISSION_TIMEOUT = 30.0
_SHOWN = 400
_READ = 1 << 16


class AdmissionRefused(Exception):
    """The server answered the start of a rollout with a 4xx other than 429; asking again would change nothing."""


class ServerUnreachable(Exception):
    """The server cannot be talked to any more: no answer inside the lease, or one that makes no sense."""


class RolloutClient:
    """Drives rollouts on the server at `url`. Use as an async context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5.0),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is used outside its context"
        return self._session

    async def run(self, request: InitRequest) -> ResultResponse:
        """Start the rollout and wait for its terminal result. Raises AdmissionRefused or ServerUnreachable."""
        sent = time.monotonic()
        admission = await self._admit(request)
        return await self._poll(request.rollout_id, admission, sent)

    async def cancel(self, rollout_id: str) -> None:
        """Ask the server to cancel; silence and errors are taken as they come, since the lease ends what nobody polls."""
        body = protocol.encode(CancelRequest(ids=[rollout_id]))
        timeout = aiohttp.ClientTimeout(total=CANCEL_TIMEOUT_SEC)
        try:
            async with self._http.post(f"{self.url}/rollout/cancel", data=body, headers=_JSON, timeout=timeout) as response:
                await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            pass

    async def _admit(self, request: InitRequest) -> InitResponse:
        body = protocol.encode(request)
        timeout = aiohttp.ClientTimeout(total=ADMISSION_TIMEOUT)
        while True:
            try:
                async with self._http.post(f"{self.url}/rollout", data=body, headers=_JSON, timeout=timeout) as response:
                    answer = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ServerUnreachable(f"the rollout server does not take rollouts: {_named(error)}") from error
            if response.status == 429:
                await asyncio.sleep(protocol.retry_after_sec(response.headers.get("Retry-After")))
                continue
            if 400 <= response.status < 500:
                raise AdmissionRefused(f"status {response.status}: {_shown(answer)}")
            if response.status != 202:
                raise ServerUnreachable(f"the rollout server answered {response.status} to a new rollout: {_shown(answer)}")
            try:
                admission = protocol.decode_init_response(answer)
                protocol.expect_rollout(admission, request.rollout_id)
            except RemoteProtocolError as error:
                raise ServerUnreachable(f"the rollout server does not speak protocol 0.4: {error}") from error
            return admission

    async def _poll(self, rollout_id: str, admission: InitResponse, sent: float) -> ResultResponse:
        url = self.url + protocol.rollout_path(rollout_id)
        headers = {POLLING_LEASE_HEADER: admission.polling_lease_token}
        timeout = aiohttp.ClientTimeout(total=admission.poll_timeout_sec)
        failures = 0
        while True:
            asked = time.monotonic()
            try:
                async with self._http.get(url, headers=headers, timeout=timeout) as response:
                    answer = await response.read()
                trouble = None if response.status == 200 else f"status {response.status}: {_shown(answer)}"
                schedule: tuple[float, ...] = GATEWAY_RETRY_DELAYS_SEC if response.status in GATEWAY_STATUSES else ()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                trouble, schedule = _named(error), TRANSPORT_RETRY_DELAYS_SEC
            if trouble is None:
                sent = asked
                result = _decoded(answer, rollout_id)
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
                raise ServerUnreachable(f"the rollout server does not tell the result of {rollout_id}: {trouble}")
            await asyncio.sleep(delay)


_JSON = {"Content-Type": "application/json"}


def _decoded(answer: bytes, rollout_id: str) -> ResultResponse:
    try:
        result = protocol.decode_result(answer)
        protocol.expect_rollout(result, rollout_id)
    except RemoteProtocolError as error:
        raise ServerUnreachable(f"the rollout server does not speak protocol 0.4: {error}") from error
    return result


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _shown(body: bytes) -> str:
    return body[:_READ].decode(errors="replace")


def shortened(text: str) -> str:
    """`text` at the length at which it is shown. To be called after redaction: half a secret is not recognised."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
