"""The streamed answer to a client: begun late enough to carry a real status, early enough to keep the connection alive.

Until the provider answers, or COMMIT_SECONDS pass, nothing is sent, so that an error still has its own HTTP status and
`Retry-After`. From then on the status is 200, comments keep silent connections open, and an error is an `error` event.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"

COMMIT_SECONDS = 5.0
PING_SECONDS = 15.0

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class EventWriter:
    """Writes events to one client. Used as a context, which stops the keep-alive comments on the way out."""

    def __init__(self, request: web.BaseRequest, *, commit_seconds: float, ping_seconds: float) -> None:
        self.response = web.StreamResponse(headers=_HEADERS)
        self.begun = False
        self._request = request
        self._commit_seconds = commit_seconds
        self._ping_seconds = ping_seconds
        self._prepared = asyncio.Event()
        self._last_write = 0.0

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep_alive())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeper.cancel()
        await asyncio.wait([self._keeper])

    async def begin(self) -> None:
        """Commit to status 200 and send the first comment. Beginning twice is harmless."""
        if self.begun:
            await self._prepared.wait()
            return
        self.begun = True
        try:
            await self.response.prepare(self._request)
        finally:
            self._prepared.set()
        await self._send(PING)

    async def write(self, events: bytes) -> None:
        """Send whole events, and wait until the client keeps up."""
        await self.begin()
        await self._send(events)

    async def finish(self) -> web.StreamResponse:
        """End the answer."""
        await self.response.write_eof()
        return self.response

    async def _send(self, data: bytes) -> None:
        self._last_write = asyncio.get_running_loop().time()
        await self.response.write(data)

    async def _keep_alive(self) -> None:
        try:
            await asyncio.sleep(self._commit_seconds)
            await self.begin()
            while True:
                idle = asyncio.get_running_loop().time() - self._last_write
                if idle >= self._ping_seconds:
                    await self._send(PING)
                    idle = 0.0
                await asyncio.sleep(self._ping_seconds - idle)
        except ConnectionError:
            # The client left. The handler learns it from its own write, or is cancelled.
            return
