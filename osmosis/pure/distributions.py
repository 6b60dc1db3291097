"""Tail probabilities and quantiles of the normal, Student's t and binomial distributions, without SciPy.

Everything rests on the regularised incomplete beta function: its continued fraction (DLMF 8.17.22, by the modified Lentz
method) times a prefactor that is written with Stirling corrections, so that nothing cancels when a parameter is in the millions
(Loader 2000, "Fast and accurate computation of binomial probabilities"). Quantiles are found by bisection on the distribution
function itself, so the two can never disagree. Relative errors are below 1e-12 where tests compare with SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, expm1, inf, lgamma, log, log1p, pi
from statistics import NormalDist

_STANDARD_NORMAL = NormalDist()
_TINY = 1e-300
_ACCURACY = 1e-16
_MANY_STEPS = 100_000
_STIRLING_FROM = 16.0


def normal_quantile(probability: float) -> float:
    """The z with P(Z <= z) = `probability`, for 0 < probability < 1 (Wichura 1988, AS 241, from the standard library)."""
    return _STANDARD_NORMAL.inv_cdf(probability)


def incomplete_beta(a: float, b: float, x: float, y: float | None = None) -> float:
    """The regularised I_x(a, b) for a, b > 0 and 0 <= x <= 1. `y` is 1 - x, where the caller knows it more exactly."""
    y = 1.0 - x if y is None else y
    if x <= 0.0 or y <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):  # the continued fraction converges quickly on the other side
        return 1.0 - _lower_beta(b, a, y, x)
    return _lower_beta(a, b, x, y)


def _lower_beta(a: float, b: float, x: float, y: float) -> float:
    return exp(_log_power(a, b, x, y)) * _continued_fraction(a, b, x) / a


def _log_power(a: float, b: float, x: float, y: float) -> float:
    """ln(x^a y^b / B(a, b))."""
    total = a + b
    if min(a, b) < _STIRLING_FROM:
        small, large = sorted((a, b))
        return a * _log_share(x, y) + b * _log_share(y, x) - lgamma(small) + _log_gamma_step(large, small)
    # With both large, x^a y^b is compared with its value at the mode, where the powers cancel.
    correction = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    powers = _power_ratio(a, x * total, a) + _power_ratio(b, y * total, b)
    return correction + powers + 0.5 * (log(a) + log(b) - log(total) - log(2.0 * pi))


def _log_share(x: float, y: float) -> float:
    """ln(x) where x + y = 1, from whichever of the two is known more exactly."""
    return log(x) if x < y else log1p(-y)


def _power_ratio(exponent: float, numerator: float, denominator: float) -> float:
    """exponent * ln(numerator / denominator), accurate near 1."""
    near = 0.5 * denominator < numerator < 2.0 * denominator
    ratio = log1p((numerator - denominator) / denominator) if near else log(numerator) - log(denominator)
    return exponent * ratio


def _log_gamma_step(large: float, small: float) -> float:
    """ln(Gamma(large + small) / Gamma(large)), without the cancellation of two large logarithms."""
    if large < _STIRLING_FROM:
        return lgamma(large + small) - lgamma(large)
    total = large + small
    correction = _stirling_error(total) - _stirling_error(large)
    return correction + (large - 0.5) * log1p(small / large) + small * log(total) - small


def _stirling_error(z: float) -> float:
    """lgamma(z) minus Stirling's formula (DLMF 5.11.1), for z >= 16."""
    square = 1.0 / (z * z)
    series = 1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square * (1 / 1188))))
    return series / z


def _continued_fraction(a: float, b: float, x: float) -> float:
    """DLMF 8.17.22 by the modified Lentz method; converges in about sqrt(max(a, b)) steps."""
    total = a + b
    c = 1.0
    d = 1.0 / _away_from_zero(1.0 - total * x / (a + 1.0))
    value = d
    for m in range(1, _MANY_STEPS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (total + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 / _away_from_zero(1.0 + factor * d)
            c = _away_from_zero(1.0 + factor / c)
            value *= c * d
        if abs(c * d - 1.0) < _ACCURACY:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def student_t_tail(t: float, degrees: float) -> float:
    """P(T > t) for Student's t with `degrees` > 0 degrees of freedom."""
    if t < 0:
        return 1.0 - student_t_tail(-t, degrees)
    square = t * t
    if square == inf:
        return 0.0
    return 0.5 * incomplete_beta(0.5 * degrees, 0.5, degrees / (degrees + square), square / (degrees + square))


@lru_cache(maxsize=1024)
def student_t_quantile(probability: float, degrees: float) -> float:
    """The t with P(T <= t) = `probability`, for 0 < probability < 1 and `degrees` > 0."""
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -_t_with_tail(probability, degrees)
    return _t_with_tail(1.0 - probability, degrees)


def _t_with_tail(tail: float, degrees: float) -> float:
    high = 1.0
    while student_t_tail(high, degrees) > tail:
        high *= 2.0
    return _bisect(lambda t: student_t_tail(t, degrees) > tail, 0.0, high)


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """The point where `is_below` turns from true to false, to the last bit or 200 halvings."""
    for _ in range(200):
        middle = low + (high - low) / 2.0
        if middle in (low, high):
            break
        if is_below(middle):
            low = middle
        else:
            high = middle
    return high


def binomial_lower_tail(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) for X binomial with `trials` trials of `probability`."""
    if successes >= trials:
        return 1.0
    if successes < 0:
        return 0.0
    return incomplete_beta(trials - successes, successes + 1.0, 1.0 - probability, probability)


def binomial_upper_bound(successes: int, trials: int, confidence: float) -> float:
    """The one-sided upper confidence bound of a share (Clopper and Pearson 1934): exact, so never too low."""
    if successes >= trials:
        return 1.0
    if successes == 0:
        return -expm1(log1p(-confidence) / trials)
    alpha = 1.0 - confidence
    return _bisect(lambda share: binomial_lower_tail(successes, trials, share) > alpha, 0.0, 1.0)


def binomial_lower_bound(successes: int, trials: int, confidence: float) -> float:
    """The one-sided lower confidence bound of a share (Clopper and Pearson 1934)."""
    return 1.0 - binomial_upper_bound(trials - successes, trials, confidence)


def fair_coin_p_value(heads: int, tails: int) -> float:
    """Two-sided exact P of a split at least as uneven under a fair coin: McNemar's and the sign test. 1.0 without a toss."""
    tosses, fewer = heads + tails, min(heads, tails)
    if not tosses or heads == tails:
        return 1.0
    return min(2.0 * binomial_lower_tail(fewer, tosses, 0.5), 1.0)
