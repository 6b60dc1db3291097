"""Sends ownership records to an OTLP collector, if the environment names one (contract: rollout_protocol section 7.9).

Never in a rollout's way: a change of status only appends to a bounded queue, one task sends what has gathered, and what a
collector refuses or nobody takes is dropped with one warning.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections import deque
from typing import Final

import httpx

from osmosis import __version__
from osmosis.pure.ownership import (
    LOGS_PATH,
    OwnershipRecord,
    Run,
    Server,
    encode_logs,
    exporter_headers,
    ownership_record,
)
from osmosis.pure.protocol import INSTANCE_ID_ENV, OTLP_ENDPOINT_ENV, RolloutStatus

logger = logging.getLogger(__name__)

SERVER_ID_ENV: Final = "OSMOSIS_ROLLOUT_SERVER_ID"
SERVER_NAME_ENV: Final = "_OSMOSIS_ROLLOUT_NAME"
NAMESPACE_ENV: Final = "OSMOSIS_ROLLOUT_NAMESPACE"
HEADERS_ENVS: Final = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS")

QUEUE_LIMIT: Final = 10_000
BATCH_LIMIT: Final = 512
GATHER_SEC: Final = 1.0
REQUEST_TIMEOUT_SEC: Final = 5.0
LAST_FLUSH_SEC: Final = 5.0
_RETRY_SEC: Final = (1.0, 5.0, 30.0)
_JSON: Final = {"content-type": "application/json"}


class OwnershipTelemetry:
    """The exporter of one server. `note` belongs on the event loop that serves."""

    def __init__(self, endpoint: str, server: Server, headers: dict[str, str]) -> None:
        self._url = endpoint.rstrip("/") + LOGS_PATH
        self._server = server
        self._headers = headers | _JSON
        self._queue: deque[OwnershipRecord] = deque(maxlen=QUEUE_LIMIT)
        self._sequence = 0
        self._task: asyncio.Task[None] | None = None
        self._word = asyncio.Event()
        self._closing = asyncio.Event()
        self._warned = False

    @classmethod
    def from_environment(cls) -> OwnershipTelemetry | None:
        """The exporter that the environment asks for; None if it names no endpoint."""
        endpoint = os.environ.get(OTLP_ENDPOINT_ENV, "").strip()
        if not endpoint:
            return None
        server = Server(
            os.environ.get(SERVER_ID_ENV) or os.environ.get(INSTANCE_ID_ENV) or socket.gethostname(),
            os.environ.get(SERVER_NAME_ENV),
            os.environ.get(NAMESPACE_ENV),
        )
        headers: dict[str, str] = {}
        for name in HEADERS_ENVS:
            headers |= exporter_headers(os.environ.get(name, ""))
        return cls(endpoint, server, headers)

    def note(self, rollout_id: str, run: Run, status: RolloutStatus) -> None:
        """A rollout has this status from now on."""
        record = ownership_record(
            self._server, run, rollout_id, status, sequence=self._sequence + 1, time_unix_nano=time.time_ns()
        )
        if record is None:
            return
        self._sequence += 1
        if len(self._queue) == QUEUE_LIMIT:
            self._warn("records come faster than the collector takes them; the oldest are dropped")
        self._queue.append(record)
        self._word.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all(), name="ownership telemetry")

    async def close(self) -> None:
        """Send what is left, but not for long. A request that is on its way is waited for: given up, it would be sent twice."""
        if self._task is None:
            return
        self._closing.set()
        self._word.set()
        await asyncio.wait({self._task}, timeout=LAST_FLUSH_SEC)
        self._task.cancel()
        await asyncio.wait({self._task})
        if self._queue:
            self._warn(f"{len(self._queue)} records were not delivered before the server ended")

    async def _send_all(self) -> None:
        failures = 0
        async with self._client() as client:
            while not self._closing.is_set():
                await self._word.wait()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SEC[min(failures, len(_RETRY_SEC)) - 1] if failures else GATHER_SEC):
                        await self._closing.wait()
                self._word.clear()
                if await self._send_queue(client):
                    failures = 0
                else:
                    failures += 1
                    self._word.set()
            await self._send_queue(client)

    async def _send_queue(self, client: httpx.AsyncClient) -> bool:
        """Send all records. False: some are left, since the collector does not take them now."""
        while self._queue:
            if not await self._send_batch(client):
                return False
        return True

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=REQUEST_TIMEOUT_SEC, headers=self._headers)

    async def _send_batch(self, client: httpx.AsyncClient) -> bool:
        """Send the oldest records; they leave the queue when the collector has answered. False: try again later."""
        batch = [self._queue[index] for index in range(min(BATCH_LIMIT, len(self._queue)))]
        try:
            response = await client.post(self._url, content=encode_logs(batch, sdk_version=__version__))
        except httpx.HTTPError as error:
            self._warn(str(error) or type(error).__name__)
            return False
        if response.status_code in (429, 502, 503, 504):
            self._warn(f"the collector answered with status {response.status_code}")
            return False
        if response.is_error:
            self._warn(f"the collector refused records with status {response.status_code}")
        taken = set(map(id, batch))
        # Others may have been dropped from a full queue while the request was on its way.
        while self._queue and id(self._queue[0]) in taken:
            self._queue.popleft()
        return True

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("Ownership telemetry to %s: %s (told once)", self._url, reason)
