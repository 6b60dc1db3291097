"""The wall clock, in the one spelling that every record uses: ISO 8601, UTC, microseconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """The time now, for example `2026-11-30T12:35:44.521865Z`."""
    return _spelled(datetime.now(UTC))


def utc_at(timestamp: float) -> str:
    """A time in seconds since the epoch, such as that of a file."""
    return _spelled(datetime.fromtimestamp(timestamp, UTC))


def _spelled(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
