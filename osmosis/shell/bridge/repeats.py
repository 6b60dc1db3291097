"""Repeated calls of clients that lost their answer: served without buying a second completion.

The OpenAI SDKs repeat a call whose answer they did not get, byte for byte, and say so in `x-stainless-retry-count`. So a call
of theirs runs on for a while after its client is gone, and whole answers are kept for a while after they were sent. A
repetition takes what is there. One that follows an error is a new call, as the client means it; what was given out to one
repetition is not given out to another.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict

import msgspec

KEPT_ANSWERS = 16
"""Answers that are kept for one rollout."""

KEPT_BYTES = 2**20
"""Longer answers are not kept."""

HOLD_SECONDS = 10.0
"""How long a call runs on for a client that is gone. The SDKs come back within 8 s."""


class WholeAnswer(msgspec.Struct, frozen=True):
    """An answer in one piece: HTTP status, JSON body, and the `Retry-After` header if there is one."""

    status: int
    body: bytes
    retry_after: str | None = None


class Repeats:
    """What one rollout's clients may come back for. Keys are digests of request bodies."""

    def __init__(self) -> None:
        self._abandoned: defaultdict[bytes, list[asyncio.Task[WholeAnswer]]] = defaultdict(list)
        self._kept: OrderedDict[int, tuple[bytes, WholeAnswer]] = OrderedDict()
        self._refused: Counter[bytes] = Counter()
        self._serial = 0

    @property
    def running(self) -> int:
        """How many calls run on without a client."""
        return sum(not call.done() for calls in self._abandoned.values() for call in calls)

    def abandon(self, key: bytes, call: asyncio.Task[WholeAnswer], hold_seconds: float) -> None:
        """The client of `call` is gone; the call goes on for `hold_seconds` unless somebody takes it."""
        self._abandoned[key].append(call)
        asyncio.get_running_loop().call_later(hold_seconds, self._give_up, key, call)

    def sent(self, key: bytes, answer: WholeAnswer) -> None:
        """An answer went out. It may be lost on the way."""
        if answer.status != 200:
            self._refused[key] += 1
        elif len(answer.body) <= KEPT_BYTES:
            self._serial += 1
            self._kept[self._serial] = (key, answer)
            if len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)

    def claim(self, key: bytes) -> asyncio.Task[WholeAnswer] | WholeAnswer | None:
        """What a repetition of `key` gets; None when it has to be asked anew."""
        if self._refused[key]:
            self._refused[key] -= 1
            return None
        if calls := self._abandoned.get(key):
            return calls.pop(0)
        serial = next((serial for serial, (kept, _) in self._kept.items() if kept == key), None)
        return None if serial is None else self._kept.pop(serial)[1]

    def _give_up(self, key: bytes, call: asyncio.Task[WholeAnswer]) -> None:
        calls = self._abandoned.get(key, [])
        if call in calls:
            calls.remove(call)
            call.cancel()
