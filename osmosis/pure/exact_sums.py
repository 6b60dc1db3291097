"""Sums whose bytes depend on neither the order of the rows, nor the cuts of a frame, nor the number of threads (issue 8).

A column of floats is summed exactly and rounded once (`math.fsum`). Sums per group are made of integers: the column is first
written in fixed point, in units of a power of two that leaves room for the largest group in 63 bits. For a few runs a row that
is finer than a double's own resolution; nothing is lost but what lies 2^-50 or more below the largest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import frexp, fsum, ldexp

import msgspec
import polars as pl

_CHUNK = 1 << 20
_INTEGER_BITS = 62
_HALF_RANGE = 500


def float_sum(series: pl.Series) -> float:
    """The correctly rounded sum of a float column without nulls; 0.0 if it is empty."""
    return fsum(floats(series))


def floats(series: pl.Series) -> Iterator[float]:
    """The values as Python floats, a bounded number of them in memory at a time."""
    return chain.from_iterable(series.slice(start, _CHUNK).to_list() for start in range(0, len(series), _CHUNK))


def integer_sum(integers: pl.Series) -> int:
    """The sum of a 64-bit integer column without nulls, which may itself need more than 64 bits."""
    if integers.is_empty():
        return 0
    high, low = integers // (1 << 32), integers % (1 << 32)
    return (int(high.sum()) << 32) + int(low.sum())


class FixedPoint(msgspec.Struct, frozen=True):
    """Writes floats of at most 2^`exponent` in size as whole units of 2^(`exponent` - `bits`)."""

    bits: int
    exponent: int

    def encode(self, column: str) -> pl.Expr:
        """The finite float column in whole units, as Int64."""
        scaled = _times_power_of_two(pl.col(column), -self.exponent) * ldexp(1.0, self.bits)
        return scaled.round().cast(pl.Int64)

    def shares(self, units: pl.Series) -> pl.Series:
        """A column of units as multiples of 2^`exponent`: numbers near 1, whose squares neither overflow nor vanish."""
        return units.cast(pl.Float64) * ldexp(1.0, -self.bits)


def fixed_point(greatest: float, group_size: int, bits: int = _INTEGER_BITS) -> FixedPoint:
    """The finest unit in which `group_size` values of at most `greatest` in size can be summed in `bits` bits."""
    return FixedPoint(bits - max(group_size, 1).bit_length(), binary_exponent(greatest))


def binary_exponent(greatest: float) -> int:
    """The smallest e with `greatest` < 2^e; 0 for 0."""
    return frexp(greatest)[1] if greatest else 0


def _times_power_of_two(values: pl.Expr, power: int) -> pl.Expr:
    """`values` * 2^`power`, in two exact steps: 2^1074 is no double."""
    half = power // 2
    return values * ldexp(1.0, half) * ldexp(1.0, power - half)


def scaled_down(series: pl.Series, exponent: int) -> pl.Series:
    """`series` / 2^`exponent`."""
    half = exponent // 2
    return series * ldexp(1.0, -half) * ldexp(1.0, half - exponent)


def scaled_up(value: float, exponent: int) -> float | None:
    """`value` * 2^`exponent`; None where no double is that large."""
    try:
        return ldexp(value, exponent)
    except OverflowError:
        return None
