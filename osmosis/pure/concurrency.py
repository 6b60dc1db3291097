"""How many model calls may be in flight: additive increase, multiplicative decrease (Chiu and Jain 1989; issue "bridge").

It starts low and doubles while the provider is healthy; at the first 429 it halves, and from then on it rises by one for each
full round of answers. It never falls below one call and never exceeds its ceiling, so it always recovers. A burst of refusals
is one event: calls that were sent before the cut say nothing about the rate after it.
"""

from __future__ import annotations

import msgspec

START = 8
"""Calls in flight at first."""

BURST_SECONDS = 1.0
"""Refusals this close together count as one."""

DESCRIPTORS_RESERVED = 96
"""File descriptors that are left to everything else: logs, journal, database of the rollout server's pipes, the loop."""

DESCRIPTORS_PER_CALL = 3
"""A call holds a connection to the client and one to the provider; one more is for a host name being looked up."""


class Window(msgspec.Struct, frozen=True):
    """The state. `size` is fractional between whole rounds; `limit` is what counts. Times are in seconds of any clock."""

    ceiling: int
    size: float
    starting: bool = True
    cut_at: float = float("-inf")

    @property
    def limit(self) -> int:
        """Calls that may be in flight now; at least 1."""
        return int(self.size)


def begin(ceiling: int) -> Window:
    """A window for at most `ceiling` calls (at least 1)."""
    ceiling = max(1, ceiling)
    return Window(ceiling, float(min(START, ceiling)))


def answered(window: Window, in_flight: int) -> Window:
    """A call was answered while `in_flight` calls were out, itself included. Only a window that was used up has to grow."""
    if in_flight < window.limit or window.size >= window.ceiling:
        return window
    return _grown(window, 1.0 if window.starting else 1.0 / window.size)


def waited(window: Window) -> Window:
    """A second went by with calls waiting and none refused: slow answers are no reason to stay small."""
    return _grown(window, window.size if window.starting else 1.0)


def refused(window: Window, now: float) -> Window:
    """The provider said 429 at `now`."""
    if now - window.cut_at < BURST_SECONDS:
        return window
    return Window(window.ceiling, max(1.0, window.size / 2), starting=False, cut_at=now)


def _grown(window: Window, step: float) -> Window:
    return msgspec.structs.replace(window, size=min(float(window.ceiling), window.size + step))


def descriptor_ceiling(descriptors: int) -> int:
    """The most calls that `descriptors` (the process's limit) leave room for; at least 1."""
    return max(1, (descriptors - DESCRIPTORS_RESERVED) // DESCRIPTORS_PER_CALL)
