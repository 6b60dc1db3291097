"""Intervals of shares and of means whose standard error is known: what needs no polars (issue 8; rulings 6 and 32).

Split from `osmosis.pure.statistics`, so that the live view of a run shows its interval without importing polars, which also
makes signals wait for blocking reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import sqrt

import msgspec

from osmosis.pure.distributions import normal_quantile, student_t_quantile
from osmosis.pure.estimate import CONFIDENCE, Estimate, Method, settled
from osmosis.pure.pass_at_k import RowOutcomes

NO_SAMPLE = "no sample counts"
ONE_ROW = "one row says nothing about the spread between rows"
ONE_CLUSTER = "one cluster says nothing about the spread between clusters"
NO_SPREAD = "all {units} {what} have the same value, so their spread cannot be estimated"


def undefined(reason: str, *, value: float | None = None, units: int = 0, method: Method | None = None) -> Estimate:
    """An estimate without an interval, and why."""
    return Estimate(value, None, None, None, method, units, reason)


def wilson_bounds(passes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The score interval of a share of independent trials (Wilson 1927). `trials` > 0. Never leaves [0, 1]."""
    z = normal_quantile(0.5 + confidence / 2)
    share, z2 = passes / trials, z * z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = z / (1 + z2 / trials) * sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return (0.0 if passes == 0 else centre - half), (1.0 if passes == trials else centre + half)


def pass_rate_estimate(histogram: Sequence[RowOutcomes], confidence: float = CONFIDENCE) -> Estimate:
    """passed / scored over all samples of a histogram, with rows as the independent units (ruling 32).

    Each row ran once: Wilson. Several runs: t with G - 1 degrees on the CR1 error of G rows, cut to [0, 1]. If then every
    sample agrees, the rows count once each (Wilson over rows): the spread cannot be estimated, and the rows might be all of a
    kind.
    """
    rows = sum(outcomes.rows for outcomes in histogram)
    scored = sum(outcomes.scored * outcomes.rows for outcomes in histogram)
    passed = sum(outcomes.passed * outcomes.rows for outcomes in histogram)
    if not scored:
        return undefined(NO_SAMPLE)
    error = _share_error(histogram, passed, scored, rows)
    if scored == rows:
        low, high = wilson_bounds(passed, scored, confidence)
        reason = None if error else _no_error(rows, "rows")
        return Estimate(passed / scored, error, settled(low), settled(high), Method.WILSON, rows, reason)
    if rows < 2:
        return undefined(ONE_ROW, value=passed / scored, units=rows)
    if passed in (0, scored):
        low, high = wilson_bounds(rows if passed else 0, rows, confidence)
        reason = _no_error(rows, "rows")
        return Estimate(passed / scored, None, settled(low), settled(high), Method.WILSON_ROWS, rows, reason)
    return within(t_interval(passed / scored, error, rows, confidence, "rows", method=Method.CLUSTERED_T), 0.0, 1.0)


def _share_error(histogram: Iterable[RowOutcomes], passed: int, scored: int, rows: int) -> float | None:
    """The CR1 standard error of a share, exact until the square root. None if there is nothing to estimate it from."""
    if rows < 2:
        return None
    # Residual sums of rows, times `scored` to stay integers.
    squares = sum((outcomes.passed * scored - passed * outcomes.scored) ** 2 * outcomes.rows for outcomes in histogram)
    error = sqrt(Fraction(squares * rows, scored**4 * (rows - 1)))
    return error or None


def _no_error(units: int, what: str) -> str:
    return ONE_ROW if units < 2 else NO_SPREAD.format(units=units, what=what)


def within(estimate: Estimate, floor: float, ceiling: float) -> Estimate:
    """`estimate` with its bounds cut to where the true value is known to lie, which costs no coverage: what is cut off cannot
    be true."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return msgspec.structs.replace(estimate, low=max(estimate.low, floor), high=min(estimate.high, ceiling))


def t_interval(
    value: float,
    error: float | None,
    units: int,
    confidence: float,
    what: str,
    *,
    method: Method = Method.T,
) -> Estimate:
    """`value` plus and minus a t quantile (`units` - 1 degrees) of `error`."""
    if units < 2:
        return undefined(ONE_CLUSTER if what == "clusters" else ONE_ROW, value=value, units=units)
    if not error:
        return undefined(NO_SPREAD.format(units=units, what=what), value=value, units=units)
    half = student_t_quantile(0.5 + confidence / 2, units - 1) * error
    return Estimate(value, settled(error), settled(value - half), settled(value + half), method, units)
