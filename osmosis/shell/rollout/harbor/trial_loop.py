"""Trials on an event loop of their own, in a thread of their own.

Two reasons. Harbor and its providers block here and there, and the server must go on answering its runner. And uvicorn prefers
uvloop, whose child processes inherit a second end of their own output when both streams are one: podman's monitor keeps it
open, and whoever reads to the end waits for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class TrialTask:
    """A trial that runs on the other loop. Await `finished` on this one; it is done when the sandbox is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self.finished = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run(work), loop))

    async def _run(self, work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        self._task = asyncio.ensure_future(work)
        if self._cancelled:
            self._task.cancel()
        await asyncio.wait({self._task})
        if self._task.cancelled():
            return None, asyncio.CancelledError()
        failed = self._task.exception()
        return (None, failed) if failed is not None else (self._task.result(), None)

    @property
    def done(self) -> bool:
        """Whether the trial has ended."""
        return self.finished.done()

    def cancel(self) -> None:
        """Ask for the end. Call it once: a second time would interrupt the cleaning up."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


class TrialLoop:
    """The loop and its thread; started with the first trial."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, Any]) -> TrialTask:
        """Run `work` there."""
        if self._loop is None:
            # The standard loop, whatever policy the server's process has.
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="harbor-trials", daemon=True)
            self._thread.start()
        return TrialTask(self._loop, work)

    async def close(self) -> None:
        """Stop the thread; no trial may be running any more."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()
            self._loop = self._thread = None
