"""Calls to an OpenAI-compatible provider over one shared session (E31, rulings 18 and 22).

The body goes out as the policy shaped it. Redirects are not followed: they would carry the key elsewhere. Waiting for an answer
is bounded by silence, not by total time, because long completions are legitimate.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from osmosis.pure.completion import BAD_GATEWAY, ProviderError
from osmosis.pure.providers import NO_KEY, Endpoint
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.retry_policy import BACKOFF_SECONDS, retry_delay
from osmosis.shell.bridge.source import CallFailed, OnWait, Reply, Rollout

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 600.0
"""The longest silence of a provider that is still waited for."""

IDLE_CONNECTION_SECONDS = 4.0
"""Below the 5 s after which common model servers close idle connections, so that a call never meets a closing one."""

_LONG_BODY = 2**20

_FAULT_FOUND = (400, 422)


class Upstream:
    """A provider, as a source of answers. Must be created inside a running event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        backoff: tuple[float, ...] = BACKOFF_SECONDS,
        on_wait: OnWait = lambda *_: None,
    ) -> None:
        self._url = endpoint.url
        self._backoff = backoff
        self._on_wait = on_wait
        self._plain_streams = False
        self._session = aiohttp.ClientSession(
            # The run's own cap limits the calls in flight; a second, silent cap here would only hide waiting.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS),
            headers={
                "Authorization": f"Bearer {endpoint.api_key or NO_KEY}",
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": "osmosis-bridge",
            },
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not endpoint.is_loopback,
        )

    @asynccontextmanager
    async def open(self, _: Rollout | None, request: UpstreamRequest) -> AsyncIterator[Reply]:
        """Send one request; repeat it only before the first byte of an answer, as `retry_policy` allows."""
        asks_usage = request.plain_body is not None and not self._plain_streams
        response = await self._send(request, request.body if asks_usage else request.plain_body or request.body)
        try:
            refusal = await _read(response) if asks_usage and response.status in _FAULT_FOUND else None
            if refusal is not None and b"stream_options" in refusal:
                # The provider refuses what the bridge asks for on its own account, so the bridge takes that back. What the
                # client sent is never taken out of a request (E33).
                self._plain_streams, refusal = True, None
                response.release()
                response = await self._send(request, request.plain_body or request.body)
            yield Reply(
                status=response.status,
                content_type=response.content_type,
                retry_after=response.headers.get("Retry-After"),
                chunks=_chunks(response) if refusal is None else _once(refusal),
            )
        finally:
            response.release()

    async def _send(self, request: UpstreamRequest, body: bytes) -> aiohttp.ClientResponse:
        headers = {"Accept": "text/event-stream"} if request.stream else None
        tries = 0
        while True:
            tries += 1
            status = None
            try:
                response = await self._session.post(self._url, data=_payload(body), headers=headers, allow_redirects=False)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                delay = self._delay(tries, None, None) if _is_connection_failure(error) else None
                if delay is None:
                    raise CallFailed(ProviderError(BAD_GATEWAY, describe(error))) from error
            else:
                status = response.status
                delay = None if response.ok else self._delay(tries, status, response.headers.get("Retry-After"))
                if delay is None:
                    return response
                response.release()
            self._on_wait(delay, status)
            try:
                await asyncio.sleep(delay)
            finally:
                self._on_wait(None, None)

    def _delay(self, tries: int, status: int | None, retry_after: str | None) -> float | None:
        now = datetime.now(UTC)
        jitter = random.random()  # noqa: S311 - spreads retries, guards nothing
        return retry_delay(tries, status, retry_after, now=now, jitter=jitter, backoff=self._backoff)

    async def close(self) -> None:
        """Close the session and its connections."""
        await self._session.close()


def _payload(body: bytes) -> bytes | io.BytesIO:
    # aiohttp writes a stream in pieces, so that a long body does not hold up the loop.
    return body if len(body) < _LONG_BODY else io.BytesIO(body)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    return b"".join([chunk async for chunk in _chunks(response)])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        while chunk := await response.content.readany():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        message = f"the provider's answer broke off: {describe(error)}"
        raise CallFailed(ProviderError(BAD_GATEWAY, message, response.status)) from error


def _is_connection_failure(error: Exception) -> bool:
    # No connection came about, or a kept one was closed as the request arrived: nobody has begun to answer.
    return isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError)) and not isinstance(
        error, aiohttp.ClientConnectorCertificateError
    )


def describe(error: Exception) -> str:
    """A sentence for a transport error, without a traceback and never empty."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the host name {error.host!r} is unknown"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return f"no trusted TLS connection to {error.host}:{error.port}: {error}"
        case aiohttp.ClientConnectorError():
            reason = error.os_error.strerror or str(error.os_error)
            return f"cannot connect to {error.host}:{error.port}: {reason}"
        case aiohttp.ServerDisconnectedError():
            return "the provider closed the connection without an answer"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {CONNECT_SECONDS:g} s"
        case TimeoutError():
            return f"the provider was silent for {SILENCE_SECONDS:g} s"
        case _:
            return str(error) or type(error).__name__
