"""Which event loop a run has: uvloop where it is installed, as the extra `eval` does where there is one, else asyncio's own.

It halves what a request costs the runner, and waits for child processes without a thread for each (decision 0060).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop."""
    try:
        import uvloop  # noqa: PLC0415 - Windows has none
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
