"""When a runner asks a rollout server again: rollout protocol 0.4, section 8.

A schedule lists the delays before the second, third, ... try, in seconds. `osmosis.pure.protocol` has the records, and
hands these names on.
"""

from __future__ import annotations

import math
from typing import Final

TRANSPORT_RETRY_DELAYS_SEC: Final = (0.1, 0.5)
GATEWAY_RETRY_DELAYS_SEC: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
GATEWAY_STATUSES: Final = frozenset({502, 503, 504})
RETRY_AFTER_DEFAULT_SEC: Final = 1.0
RETRY_AFTER_BOUNDS_SEC: Final = (0.05, 60.0)
POLL_TIMEOUT_MARGIN_SEC: Final = 10.0
"""A poll may take this much longer than the server's own `result_wait_timeout_sec` before the client gives up on it."""


def retry_after_sec(header: str | None) -> float:
    """Seconds to wait after a 429 with this `Retry-After` header; HTTP dates are not supported (section 8)."""
    try:
        seconds = float(header) if header is not None else RETRY_AFTER_DEFAULT_SEC
    except ValueError:
        return RETRY_AFTER_DEFAULT_SEC
    low, high = RETRY_AFTER_BOUNDS_SEC
    return RETRY_AFTER_DEFAULT_SEC if math.isnan(seconds) else min(max(seconds, low), high)


def retry_delay_sec(schedule: tuple[float, ...], failures: int, *, left_sec: float, poll_timeout_sec: float) -> float | None:
    """Seconds to wait before polling again after `failures` failures in a row (from 1), or None to give up.

    `left_sec` is the time until the lease runs out: a retry that could not be answered before then is pointless.
    """
    if failures > len(schedule):
        return None
    delay = schedule[failures - 1]
    return delay if delay + poll_timeout_sec <= left_sec else None
