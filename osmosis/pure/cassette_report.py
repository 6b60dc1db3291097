"""Looking at cassettes: what one holds, a part of it, and how two differ (the `cassette` command group)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from osmosis.pure.cassette import CallKey, Cassette, RecordedCall, fingerprint
from osmosis.pure.members import encode_value


class Contents(msgspec.Struct, frozen=True):
    """What a cassette holds. `tokens` sums the calls that report usage, None when none does; `requests` are different ones."""

    model: str
    recorded_from: str
    created_at: str
    digest: str
    calls: int
    requests: int
    rows: int
    runs: int
    streams: int
    refusals: int
    tokens: int | None


class CallLine(msgspec.Struct, frozen=True):
    """One call, for a list."""

    row: int
    run: int
    ordinal: int
    digest: str
    status: int
    stream: bool
    tokens: int | None


class Difference(msgspec.Struct, frozen=True):
    """How a second cassette differs from a first. `changed` calls have the same key and another answer."""

    removed: tuple[CallLine, ...]
    added: tuple[CallLine, ...]
    changed: tuple[CallLine, ...]
    unchanged: int

    @property
    def same(self) -> bool:
        """Whether a replay hears the same from both."""
        return not (self.removed or self.added or self.changed)


def contents(cassette: Cassette) -> Contents:
    """What `cassette` holds."""
    calls = cassette.calls.values()
    tokens = [call.usage.total_tokens for call in calls if call.usage is not None]
    return Contents(
        model=cassette.header.model,
        recorded_from=cassette.header.recorded_from,
        created_at=cassette.header.created_at,
        digest=fingerprint(cassette),
        calls=len(cassette.calls),
        requests=len({key.digest for key in cassette.calls}),
        rows=len({key.row for key in cassette.calls}),
        runs=len({key.run for key in cassette.calls}),
        streams=sum(call.events is not None for call in calls),
        refusals=sum(call.status != 200 for call in calls),
        tokens=sum(tokens) if tokens else None,
    )


def call_lines(cassette: Cassette) -> tuple[CallLine, ...]:
    """The calls in order of their keys."""
    return tuple(_line(cassette.calls[key]) for key in sorted(cassette.calls))


def pruned(
    cassette: Cassette,
    *,
    rows: Callable[[int], bool] = lambda _: True,
    runs: int | None = None,
    refusals: bool = True,
) -> Cassette:
    """The part of `cassette` with the rows that `rows` keeps, the first `runs` runs of each, and refusals or none.

    What is left still answers whole rollouts, because ordinals count equal requests inside one rollout.
    """
    kept = {
        key: call
        for key, call in cassette.calls.items()
        if rows(key.row) and (runs is None or key.run < runs) and (refusals or call.status == 200)
    }
    return Cassette(cassette.header, kept)


def compare(first: Cassette, second: Cassette) -> Difference:
    """What is gone, new and different in `second`. Usage alone is no difference; it does not reach a client."""
    both = first.calls.keys() & second.calls.keys()
    changed = {key for key in both if _answer(first.calls[key]) != _answer(second.calls[key])}
    return Difference(
        removed=_lines(first, first.calls.keys() - both),
        added=_lines(second, second.calls.keys() - both),
        changed=_lines(second, changed),
        unchanged=len(both) - len(changed),
    )


def calls_by_row(cassette: Cassette) -> tuple[tuple[int, int], ...]:
    """(row, number of calls), sorted by row."""
    return tuple(sorted(Counter(key.row for key in cassette.calls).items()))


def _answer(call: RecordedCall) -> bytes:
    return encode_value((call.status, call.body, call.events))


def _lines(cassette: Cassette, keys: Iterable[CallKey]) -> tuple[CallLine, ...]:
    return tuple(_line(cassette.calls[key]) for key in sorted(keys))


def _line(call: RecordedCall) -> CallLine:
    key = call.key
    tokens = None if call.usage is None else call.usage.total_tokens
    return CallLine(key.row, key.run, key.ordinal, key.digest, call.status, call.events is not None, tokens)
