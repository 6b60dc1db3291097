"""Ctrl-C, SIGTERM and SIGHUP are one thing to a command, from its first import to its last byte (E24; issues 3 and 9).

A signal that this process was started to ignore stays ignored: `nohup`, and shells that start background commands, mean it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """While this lasts, SIGTERM and SIGHUP raise KeyboardInterrupt as SIGINT does. Afterwards everything is as before."""
    before = _heeded()
    for number in before.keys() - {signal.SIGINT}:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def interrupts_to(interrupt: Callable[[], None]) -> Iterator[None]:
    """While this lasts, each of the signals calls `interrupt` on the running event loop instead."""
    import asyncio  # noqa: PLC0415 - long imported where a loop runs; the rest of this is for those without

    loop = asyncio.get_running_loop()
    before = _heeded()
    for number in before:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in before:
            loop.remove_signal_handler(number)
        _restore(before)


def _heeded() -> dict[signal.Signals, object]:
    """The signals that are not ignored, and who handles them. Outside the main thread they are nobody's business here."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}


def _restore(before: dict[signal.Signals, object]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]
