"""The row bootstrap of pass@k and pass^k: which values other rows of the same kind would have given (issue 8).

Rows are resampled with replacement, all runs of a row together (Efron 1979; Owen 2007 for why rows and not samples). A curve
only depends on the histogram of (scored, passed) pairs, so what is drawn is the histogram: one multinomial, made of binomials,
a resample. The cost depends on the number of different pairs, not on the number of rows.

Chance is an argument: a seed text, from which a counter and xxh3 make the same numbers on every machine (Salmon et al. 2011,
"Parallel random numbers: as easy as 1, 2, 3", for counter-based generators).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor, fsum, lgamma, log, sqrt

import xxhash

from osmosis.pure.estimate import CONFIDENCE, CurvePoint, settled
from osmosis.pure.pass_at_k import RowOutcomes, row_pass_at_k, row_pass_hat_k

RESAMPLES = 2000
_LEAST_RESAMPLES = 400
_DRAWS = 400_000
_INVERSION_BELOW = 10.0
_FEW_ROWS = "one row says nothing about the spread between rows"
_SAME = "all {rows} rows have the same value, so resampling them shows no spread"


class CounterStream:
    """Uniform numbers below 1 from `seed`: the n-th is the xxh3 digest of the seed and n, its upper 53 bits."""

    def __init__(self, seed: str) -> None:
        self._seed = xxhash.xxh3_64_intdigest(seed.encode())
        self._count = 0

    def uniform(self) -> float:
        """The next number in (0, 1)."""
        self._count += 1
        bits = xxhash.xxh3_64_intdigest(self._count.to_bytes(8, "little"), self._seed) >> 11
        return (bits + 0.5) * 2.0**-53

    def binomial(self, trials: int, probability: float) -> int:
        """How many of `trials` independent trials succeed."""
        if probability > 0.5:
            return trials - self.binomial(trials, 1.0 - probability)
        if trials * probability < _INVERSION_BELOW:
            return self._by_inversion(trials, probability)
        return self._by_rejection(trials, probability)

    def _by_inversion(self, trials: int, probability: float) -> int:
        """Walk the distribution function up from 0 (Kachitvichyanukul and Schmeiser 1988, BINV)."""
        left, odds = self.uniform(), probability / (1.0 - probability)
        mass, successes = (1.0 - probability) ** trials, 0
        while left > mass and successes < trials:
            left -= mass
            successes += 1
            mass *= odds * (trials - successes + 1) / successes
        return successes

    def _by_rejection(self, trials: int, probability: float) -> int:
        """Transformed rejection with squeeze (Hormann 1993, BTRS); for trials * probability >= 10 and probability <= 1/2."""
        spread = sqrt(trials * probability * (1.0 - probability))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * probability
        centre = trials * probability + 0.5
        squeeze = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        log_odds = log(probability / (1.0 - probability))
        mode = floor((trials + 1) * probability)
        height = lgamma(mode + 1) + lgamma(trials - mode + 1)
        while True:
            u, v = self.uniform() - 0.5, self.uniform()
            room = 0.5 - abs(u)
            successes = floor((2.0 * a / room + b) * u + centre)
            if room >= 0.07 and v <= squeeze:
                return successes
            if not 0 <= successes <= trials:
                continue
            ratio = height - lgamma(successes + 1) - lgamma(trials - successes + 1) + (successes - mode) * log_odds
            if log(v * alpha / (a / (room * room) + b)) <= ratio:
                return successes

    def multinomial(self, trials: int, weights: Sequence[int]) -> list[int]:
        """`trials` draws over categories with whole `weights`, as counts."""
        counts, left, weight_left = [], trials, sum(weights)
        for weight in weights:
            count = left if weight == weight_left else self.binomial(left, weight / weight_left) if left else 0
            counts.append(count)
            left -= count
            weight_left -= weight
        return counts


def resample_count(histogram: Sequence[RowOutcomes]) -> int:
    """How many resamples a histogram gets: `RESAMPLES`, fewer if it holds very many different pairs."""
    return min(RESAMPLES, max(_LEAST_RESAMPLES, _DRAWS // max(len(histogram), 1)))


def bootstrap_curves(
    histogram: Sequence[RowOutcomes], ks: Sequence[int], seed: str, confidence: float = CONFIDENCE
) -> tuple[tuple[CurvePoint, ...], tuple[CurvePoint, ...]]:
    """(pass@k, pass^k) at those `ks` where every row has k scored runs, each with its percentile interval.

    Both curves come from the same resamples, so they are consistent with each other. The bytes depend on `histogram`, `ks`,
    `seed` and `confidence` alone.
    """
    defined = [k for k in ks if histogram and all(outcomes.scored >= k for outcomes in histogram)]
    columns = [_values(histogram, rule, k) for rule in (row_pass_at_k, row_pass_hat_k) for k in defined]
    replicates = _replicates(histogram, [[float(value) for value in column] for column in columns], seed)
    points = [
        _point(k, column, histogram, sorted(replicate), confidence)
        for k, column, replicate in zip(defined * 2, columns, replicates, strict=True)
    ]
    return tuple(points[: len(defined)]), tuple(points[len(defined) :])


def _values(histogram: Sequence[RowOutcomes], rule: Callable[[int, int, int], Fraction | None], k: int) -> list[Fraction]:
    return [value for outcomes in histogram if (value := rule(outcomes.scored, outcomes.passed, k)) is not None]


def _replicates(histogram: Sequence[RowOutcomes], columns: list[list[float]], seed: str) -> list[list[float]]:
    """For each column of row values the means that the resamples give."""
    weights = [outcomes.rows for outcomes in histogram]
    rows = sum(weights)
    replicates: list[list[float]] = [[] for _ in columns]
    if rows < 2 or not columns:
        return replicates
    stream = CounterStream(seed)
    for _ in range(resample_count(histogram)):
        counts = stream.multinomial(rows, weights)
        for column, means in zip(columns, replicates, strict=True):
            means.append(fsum(map(float.__mul__, column, map(float, counts))) / rows)
    return replicates


def _point(
    k: int, column: list[Fraction], histogram: Sequence[RowOutcomes], replicates: list[float], confidence: float
) -> CurvePoint:
    rows = sum(outcomes.rows for outcomes in histogram)
    total = sum((value * outcomes.rows for value, outcomes in zip(column, histogram, strict=True)), Fraction(0))
    value = float(total / rows)
    if rows < 2:
        return CurvePoint(k, value, None, None, _FEW_ROWS)
    if len(set(column)) == 1:
        return CurvePoint(k, value, None, None, _SAME.format(rows=rows))
    tail = (1.0 - confidence) / 2.0
    return CurvePoint(k, value, settled(_quantile(replicates, tail)), settled(_quantile(replicates, 1.0 - tail)))


def _quantile(ordered: list[float], probability: float) -> float:
    """Linear interpolation between ranks (Hyndman and Fan 1996, definition 7)."""
    position = (len(ordered) - 1) * probability
    rank = floor(position)
    above = ordered[min(rank + 1, len(ordered) - 1)]
    return ordered[rank] + (above - ordered[rank]) * (position - rank)
