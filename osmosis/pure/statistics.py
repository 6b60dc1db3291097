"""Intervals and standard errors: shares, means, clusters of dependent rows, paired differences (issue 8; rulings 6 and 32).

Units are independent by assumption: dataset rows, or clusters of rows where a cluster is named. Repeated runs of a row never
count as independent. What the data does not give is None with a reason (`osmosis.pure.estimate`). `docs/statistics.md` says
where each method is valid and where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isfinite, sqrt

import polars as pl

from osmosis.pure.distributions import fair_coin_p_value, student_t_quantile, student_t_tail
from osmosis.pure.estimate import CONFIDENCE, POWER, TOO_FEW, DetectableEffect, Estimate, Method, VarianceSplit, settled
from osmosis.pure.exact_sums import binary_exponent, fixed_point, float_sum, integer_sum, scaled_down, scaled_up
from osmosis.pure.intervals import NO_SAMPLE, ONE_ROW, t_interval, undefined
from osmosis.pure.pass_at_k import RowOutcomes

TOO_LARGE = "the numbers leave the range of a double"
RAN_ONCE = "each row ran once, so the spread within a row is unknown"


# -------------------------------------------------------------------------------------------------------------- means


def mean_estimate(values: pl.Series, confidence: float = CONFIDENCE, what: str = "rows") -> Estimate:
    """The mean of independent finite values with a t interval (n - 1 degrees). `what` names the values in reasons."""
    units = len(values)
    if not units:
        return undefined(NO_SAMPLE)
    exponent = _exponent(values)
    if exponent is None:
        return undefined(TOO_LARGE, units=units)
    mean, variance = mean_and_variance(scaled_down(values, exponent))
    return rescaled(estimate_from_moments(mean, variance, units, confidence, what), exponent)


def mean_and_variance(values: pl.Series) -> tuple[float, float | None]:
    """The mean of at least one finite value of moderate size, and the sample variance (n - 1), None for a single value.

    Equal values have a variance of exactly 0.
    """
    units = len(values)
    mean = float_sum(values) / units
    if units < 2 or values.min() == values.max():
        return mean, None if units < 2 else 0.0
    deviations = values - mean
    return mean, float_sum(deviations * deviations) / (units - 1)


def estimate_from_moments(
    mean: float, variance: float | None, units: int, confidence: float = CONFIDENCE, what: str = "rows"
) -> Estimate:
    """The t interval of a mean whose `units` >= 1 values have this sample variance."""
    error = sqrt(variance / units) if variance is not None else None
    return t_interval(mean, error, units, confidence, what)


def clustered_mean_estimate(values: pl.Series, clusters: pl.Series, confidence: float = CONFIDENCE) -> Estimate:
    """The mean of finite values that are independent only between `clusters`: CR1 error, t with G - 1 degrees.

    CR1 is the sandwich estimator with the correction G / (G - 1) (Liang and Zeger 1986; Cameron and Miller 2015).
    """
    if not len(values):
        return undefined(NO_SAMPLE)
    exponent = _exponent(values)
    if exponent is None:
        return undefined(TOO_LARGE, units=clusters.n_unique())
    totals = _cluster_totals(scaled_down(values, exponent), clusters)
    mean, error = _clustered(totals, corrected=True)
    estimate = t_interval(mean, error or None, len(totals), confidence, "clusters", method=Method.CLUSTERED_T)
    return rescaled(estimate, exponent)


def clustered_standard_error(values: pl.Series, clusters: pl.Series, *, corrected: bool = True) -> float:
    """The standard error of the mean of `values`: CR1, or CR0 if not `corrected`. At least two clusters for CR1."""
    exponent = binary_exponent(float(values.abs().max() or 0.0))  # type: ignore[arg-type]
    return _clustered(_cluster_totals(scaled_down(values, exponent), clusters), corrected=corrected)[1] * 2.0**exponent


def _cluster_totals(values: pl.Series, clusters: pl.Series) -> pl.DataFrame:
    """Exact sums and counts of values below 1 by cluster; columns units, count, sum."""
    counts = clusters.value_counts(name="count")
    unit = fixed_point(0.5, int(counts["count"].max() or 1))  # type: ignore[arg-type]
    frame = pl.DataFrame({"value": values, "cluster": clusters}).select("cluster", units=unit.encode("value"))
    totals = frame.group_by("cluster").agg(pl.col("units").sum(), count=pl.len().cast(pl.Int64))
    return totals.with_columns(sum=unit.shares(totals["units"]))


def _clustered(totals: pl.DataFrame, *, corrected: bool) -> tuple[float, float]:
    """(mean, its CR0 or CR1 standard error; 0.0 where one cluster leaves no CR1)."""
    size, groups = integer_sum(totals["count"]), len(totals)
    mean = float_sum(totals["sum"]) / size
    residuals = totals["sum"] - mean * totals["count"]
    squares = float_sum(residuals * residuals)
    if corrected:
        squares = squares * groups / (groups - 1) if groups > 1 else 0.0
    return mean, sqrt(squares) / size


def _exponent(values: pl.Series) -> int | None:
    """A power of two that no value reaches; None if a value is not finite."""
    greatest = float(values.abs().max() or 0.0)  # type: ignore[arg-type]
    return binary_exponent(greatest) if isfinite(greatest) and bool(values.is_finite().all()) else None


def rescaled(estimate: Estimate, exponent: int) -> Estimate:
    """`estimate` of values that were divided by 2^`exponent`."""
    value, error, low, high = (
        None if number is None else scaled_up(number, exponent)
        for number in (estimate.value, estimate.standard_error, estimate.low, estimate.high)
    )
    if (value, low, high).count(None) > (estimate.value, estimate.low, estimate.high).count(None):
        return undefined(TOO_LARGE, value=value, units=estimate.units)
    return Estimate(
        value,
        None if error is None else settled(error),
        None if low is None else settled(low),
        None if high is None else settled(high),
        estimate.method,
        estimate.units,
        estimate.reason,
    )


def paired_difference(
    candidate: pl.Series, baseline: pl.Series, clusters: pl.Series | None = None, confidence: float = CONFIDENCE
) -> Estimate:
    """The mean of candidate - baseline over pairs in the same order, with the paired (or clustered) error and t interval."""
    differences = candidate - baseline
    if clusters is None:
        return mean_estimate(differences, confidence, what="row differences")
    return clustered_mean_estimate(differences, clusters, confidence)


# -------------------------------------------------------------------------------------------------------------- tests


def t_test_p_value(estimate: Estimate) -> float | None:
    """Two-sided P that a t test gives for a true value of 0; None where there is no standard error."""
    if estimate.value is None or estimate.standard_error is None:
        return None
    return settled(min(2.0 * student_t_tail(abs(estimate.value) / estimate.standard_error, estimate.units - 1), 1.0))


def exact_sign_test(better: int, worse: int) -> float:
    """Two-sided exact P of a sign test; with one run a row, of McNemar's test on the discordant pairs (McNemar 1947)."""
    return settled(fair_coin_p_value(better, worse))


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """P values adjusted so that the chance of any false alarm stays below the level (Holm 1979). None takes no part."""
    order = sorted((p_value, position) for position, p_value in enumerate(p_values) if p_value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p_value, position) in enumerate(order):
        running = max(running, min(p_value * (len(order) - rank), 1.0))
        adjusted[position] = running
    return tuple(adjusted)


# ----------------------------------------------------------------------------------------------------------- planning


def pass_rate_variance(histogram: Sequence[RowOutcomes]) -> VarianceSplit:
    """The split of pass or fail over and within rows, exact until the last step. Rows count equally."""
    rows = sum(outcomes.rows for outcomes in histogram)
    if rows < 2:
        return VarianceSplit(None, None, None, None, None, ONE_ROW if rows else NO_SAMPLE)
    shares = [(Fraction(outcomes.passed, outcomes.scored), outcomes) for outcomes in histogram]
    mean = sum((share * outcomes.rows for share, outcomes in shares), Fraction(0)) / rows
    between_means = sum(((share - mean) ** 2 * outcomes.rows for share, outcomes in shares), Fraction(0)) / (rows - 1)
    freedom = sum((outcomes.scored - 1) * outcomes.rows for outcomes in histogram)
    squares = sum((share * (1 - share) * outcomes.scored * outcomes.rows for share, outcomes in shares), Fraction(0))
    runs = sum((Fraction(outcomes.rows, outcomes.scored) for outcomes in histogram), Fraction(0)) / rows
    within = float(squares / freedom) if freedom else None
    return variance_split(float(between_means), within, float(runs), rows)


def variance_split(variance_of_means: float, within: float | None, inverse_runs: float, rows: int) -> VarianceSplit:
    """The split for `rows` >= 2 row means of that sample variance; `inverse_runs` is the mean of 1 / runs over rows.

    One-way random effects by the method of moments (Searle, Casella and McCulloch 1992); a negative part is 0.
    """
    twice_the_rows = settled(sqrt(variance_of_means / (2 * rows)))
    if within is None:
        return VarianceSplit(None, None, None, twice_the_rows, None, RAN_ONCE)
    between = max(variance_of_means - within * inverse_runs, 0.0)
    return VarianceSplit(
        between_rows=settled(between),
        within_row=settled(within),
        twice_the_runs=settled(sqrt((between + within * inverse_runs / 2) / rows)),
        twice_the_rows=twice_the_rows,
        unlimited_runs=settled(sqrt(between / rows)),
    )


def detectable_effect(
    estimate: Estimate,
    run_noise: float | None,
    confidence: float = CONFIDENCE,
    power: float = POWER,
    *,
    largest: float = inf,
) -> DetectableEffect:
    """The smallest true difference to a second run like this one that a two-sided test at `confidence` finds with `power`.

    (t of 1 - alpha/2 plus t of the power) times the standard error of the difference (Bloom 1995; Miller 2024). `run_noise` is
    the part of the mean's variance that another run of the same rows would draw anew; None where it is not known. No run can
    differ from this one by more than `largest`: what would have to be larger cannot be detected.
    """
    error, units = estimate.standard_error, estimate.units
    if error is None:
        return DetectableEffect(None, None, power, estimate.reason)
    unpaired = _reach(sqrt(2.0) * error, 2 * (units - 1), confidence, power)
    paired = None
    if run_noise is not None:
        paired = min(_reach(sqrt(2.0 * run_noise), units - 1, confidence, power), unpaired)
    if unpaired > largest:
        return DetectableEffect(None, None if paired is None or paired > largest else paired, power, TOO_FEW)
    return DetectableEffect(unpaired, paired, power, RAN_ONCE if paired is None else None)


def _reach(error: float, degrees: int, confidence: float, power: float) -> float:
    quantiles = student_t_quantile(0.5 + confidence / 2, degrees) + student_t_quantile(power, degrees)
    return settled(quantiles * error)
