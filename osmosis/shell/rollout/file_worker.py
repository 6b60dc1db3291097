"""The one thread that does a server's file work, so that the event loop never waits for a disk.

All rollouts of a server write below one root, so one thread is enough. Handing work to a thread and back costs more than the
trivial work itself, so it is paid once for many: what is asked for in one turn of the event loop is handed over together, and
what gathers while the thread works is reported together.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MOST_AT_ONCE: Final = 16
"""Pieces of work between two reports; the first of them waits for the last."""

_Item = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Done = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Any, BaseException | None]


class _Pending(threading.local):
    """What this thread's event loop has asked for in its present turn."""

    loop: asyncio.AbstractEventLoop | None = None
    items: list[_Item]


_pending = _Pending()
_queue: queue.SimpleQueue[list[_Item]] = queue.SimpleQueue()
_starting = threading.Lock()
_thread: threading.Thread | None = None


async def off_loop(work: Callable[[], T]) -> T:
    """What `work()` returns or raises, done on the file thread. Work that was begun is finished even if this is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    if _pending.loop is not loop:
        _pending.loop, _pending.items = loop, []
        loop.call_soon(_hand_over)
    _pending.items.append((work, loop, future))
    return await future


def _hand_over() -> None:
    items, _pending.loop, _pending.items = _pending.items, None, []
    _ensure_thread()
    _queue.put(items)


def _ensure_thread() -> None:
    global _thread  # noqa: PLW0603 - one thread a process, started when it is first needed
    if _thread is not None and _thread.is_alive():
        return
    with _starting:
        if _thread is None or not _thread.is_alive():  # Not alive after a fork, either.
            _thread = threading.Thread(target=_serve, name="osmosis files", daemon=True)
            _thread.start()


def _serve() -> None:
    while True:
        items = _queue.get()
        while len(items) < _MOST_AT_ONCE:
            try:
                items += _queue.get_nowait()
            except queue.Empty:
                break
        for first in range(0, len(items), _MOST_AT_ONCE):
            _report([_do(item) for item in items[first : first + _MOST_AT_ONCE]])


def _do(item: _Item) -> _Done:
    work, loop, future = item
    try:
        return loop, future, work(), None
    except BaseException as error:  # noqa: BLE001 - it is raised again where the work was asked for
        return loop, future, None, error


def _report(done: list[_Done]) -> None:
    for loop in {item[0] for item in done}:
        try:
            loop.call_soon_threadsafe(_settle, [item for item in done if item[0] is loop])
        except RuntimeError:
            continue  # That loop is closed: nobody waits any more.


def _settle(done: list[_Done]) -> None:
    for _, future, result, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
