"""Values counted into bins of round widths, for charts of a run (issue 9). Every value lies in exactly one bin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import floor, isfinite, log10

import msgspec

FEW_VALUES = 12
"""Up to so many different values, each has a bar of its own."""
_MOST_BINS = 20
_STEPS = (1.0, 2.0, 5.0, 10.0)


class Bin(msgspec.Struct, frozen=True):
    """`count` values from `start` on and below `end`; the last bin holds its end too. A single value has `start` == `end`."""

    start: float
    end: float
    count: int


def histogram(values: Sequence[float]) -> tuple[Bin, ...]:
    """The bins of finite `values`, in order: one a value where there are few different ones, else at most 21 of width 1, 2 or 5
    times a power of ten, empty ones between included."""
    counts = Counter(values)
    if len(counts) <= FEW_VALUES:
        return tuple(Bin(value, value, counts[value]) for value in sorted(counts))
    low, high = min(counts), max(counts)
    width = _round_width((high - low) / _MOST_BINS)
    first = floor(low / width) if width else 0
    farthest = max(abs(low), abs(high)) + 2 * width
    if not width or not isfinite(farthest) or abs(first) > 1 << 52:
        # A spread that doubles cannot cut into pieces: too wide, or too narrow beside its distance from 0.
        return (Bin(low, high, len(values)),)
    last = max(floor(high / width) - (high == floor(high / width) * width), first)
    places = Counter(min(max(floor(value / width), first), last) for value in counts.elements())
    return tuple(Bin(_edge(place, width), _edge(place + 1, width), places[place]) for place in range(first, last + 1))


def _round_width(least: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is at least `least`; 0.0 where there is none."""
    if not isfinite(least) or least <= 0:
        return 0.0
    try:
        power = float(10.0 ** floor(log10(least)))
    except OverflowError:
        return 0.0
    return next((step * power for step in _STEPS if step * power >= least), 10.0 * power) if power else 0.0


def _edge(place: int, width: float) -> float:
    return float(f"{place * width:.12g}")
