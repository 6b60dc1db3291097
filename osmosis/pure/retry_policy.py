"""When a model call may be tried again by the bridge itself: only where the provider cannot have answered (issue "bridge").

A call is repeated after a failed connection, 408, 429 and 5xx, always before the first byte of an answer, a bounded number of
times. `Retry-After` is honoured (seconds or an HTTP date, RFC 9110 section 10.2.3); a provider that wants more patience than
the bridge has gets it from the rollout, which sees the 429 and the header. Nothing is ever taken out of a request to make
it pass.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

BACKOFF_SECONDS = (0.5, 1.0)
"""Longest wait before each further try; its length is the number of further tries."""

PATIENCE_SECONDS = 20.0
"""The longest `Retry-After` that the bridge waits out itself."""

RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})


def retry_delay(
    tries: int,
    status: int | None,
    retry_after: str | None,
    *,
    now: datetime,
    jitter: float,
    backoff: tuple[float, ...] = BACKOFF_SECONDS,
    patience: float = PATIENCE_SECONDS,
) -> float | None:
    """Seconds to wait before trying again, or None to give up, also when `Retry-After` asks for more than `patience` seconds.

    `tries` counts the failed tries so far, from 1. `status` is the provider's, None when no connection came about. `jitter`
    is a random number in [0, 1) that spreads the back-off over its upper half, so that parallel calls do not return in step.
    """
    if tries > len(backoff) or (status is not None and status not in RETRIED_STATUSES):
        return None
    asked = parse_retry_after(retry_after, now)
    if asked is not None and asked > patience:
        return None
    pause = backoff[tries - 1] * (0.5 + jitter / 2)
    return pause if asked is None else max(asked, pause)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks for; never negative; None when it is missing or unreadable. `now` is aware."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), 1e9)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
