"""Where model calls wait until the provider can take them; `osmosis.pure.concurrency` decides how many that are."""

from __future__ import annotations

import asyncio
import resource
from collections import deque
from contextlib import suppress

from osmosis.pure.concurrency import Window, answered, begin, descriptor_ceiling, refused, waited

MOST_CALLS = 1024
"""A ceiling of its own, for machines whose descriptors have none."""


class Gate:
    """Lets calls in, first come, first served. Must be used on one event loop."""

    def __init__(self, max_in_flight: int | None = None) -> None:
        """`max_in_flight` is a person's ceiling; the process's file descriptors set another."""
        self.window: Window = begin(min(max_in_flight or MOST_CALLS, process_ceiling()))
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait to be let in."""
        return len(self._waiting)

    async def enter(self) -> None:
        """Wait for a place. Whoever comes in has to `leave`."""
        if self.in_flight < self.window.limit and not self._waiting:
            self.in_flight += 1
            return
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        if self._ticking is None:
            self._ticking = loop.call_later(1.0, self._tick)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                # The place was given in the moment of the cancellation.
                self._free()
            else:
                # It may have been taken out already, by somebody who then saw that it was cancelled.
                with suppress(ValueError):
                    self._waiting.remove(place)
            raise

    def leave(self, *, healthy: bool) -> None:
        """Give the place back. `healthy`: the provider answered."""
        if healthy:
            self.window = answered(self.window, self.in_flight)
        self._free()

    def refused(self) -> None:
        """The provider said that it is asked too much."""
        self.window = refused(self.window, asyncio.get_running_loop().time())

    def close(self) -> None:
        """Stop the clock. Those who wait are cancelled by their own callers."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    def _free(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.in_flight < self.window.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    def _tick(self) -> None:
        self._ticking = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self.window.cut_at >= 1.0:
            self.window = waited(self.window)
            self._admit()
        self._ticking = loop.call_later(1.0, self._tick)


def process_ceiling() -> int:
    """The most calls that this process has descriptors for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CALLS if soft == resource.RLIM_INFINITY else min(MOST_CALLS, descriptor_ceiling(soft))
