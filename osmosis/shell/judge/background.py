"""An event loop in a thread of its own, for synchronous functions that have to wait for calls.

`evaluate_rubric` must work where a loop is already running (a notebook, an async grader) and where none is, from several
threads, and after a fork; and it must leave the caller's own loop alone, which `asyncio.run` does not.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for callers that block. The thread starts with the first of them and ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for `coroutine` and return its result, or raise what it raises. An interrupt cancels it.

        Raises RuntimeError when it is called from the background thread itself, where waiting would never end.
        """
        if self._thread is threading.current_thread():
            coroutine.close()
            raise RuntimeError("a synchronous judge cannot run inside another judge's event loop; await the async form")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A forked child has the loop object of its parent, and no thread that runs it.
            if self._loop is None or self._process != os.getpid():
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="osmosis-judge", daemon=True)
                thread.start()
                self._loop, self._thread, self._process = loop, thread, os.getpid()
                atexit.register(self.close)
            return self._loop

    def close(self) -> None:
        """End the thread; the next `run` starts another."""
        with self._lock:
            loop, thread, process = self._loop, self._thread, self._process
            self._loop = self._thread = None
        if loop is None or thread is None or process != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _renew_after_fork() -> None:
    # The lock may have been held by a thread that does not exist in the child.
    background._lock = threading.Lock()


background = BackgroundLoop()
"""The loop that all synchronous judging of this process shares."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
