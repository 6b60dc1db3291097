"""Which calls wait because the provider asked them to, for the progress line (issue 3: `3 waiting on rate limit`)."""

from __future__ import annotations

import time
from typing import NamedTuple

from osmosis.pure.retry_policy import BACKOFF_SECONDS

_OWN_BACKOFF = max(BACKOFF_SECONDS)


class Waiting(NamedTuple):
    """`calls` wait for a provider's rate limit; the first of them tries again in `next_try_s` seconds, None if none waits."""

    calls: int = 0
    next_try_s: float | None = None


class Waits:
    """Counts waits as they begin and end. The bridge's own short back-off is not worth a word and is left out."""

    def __init__(self) -> None:
        self._due: list[float] = []

    def hear(self, seconds: float | None) -> None:
        """A wait of `seconds` begins; None: one has ended. One that ends early, with its call, is counted until its time."""
        now = time.monotonic()
        if seconds is not None and seconds > _OWN_BACKOFF:
            self._due.append(now + seconds)
        elif seconds is None:
            self._due = [due for due in self._due if due > now]

    @property
    def now(self) -> Waiting:
        """How it stands now."""
        now = time.monotonic()
        left = [due - now for due in self._due if due > now]
        return Waiting(len(left), min(left)) if left else Waiting()
