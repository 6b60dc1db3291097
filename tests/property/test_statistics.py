"""Intervals and standard errors against reference values, exact arithmetic and SciPy (issue 8, must-show 1 and 2)."""

from __future__ import annotations

import statistics
from fractions import Fraction
from math import inf, isclose, isfinite, nan, sqrt

import msgspec
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from osmosis.pure.estimate import TOO_FEW, Estimate, Method
from osmosis.pure.intervals import pass_rate_estimate, wilson_bounds, within
from osmosis.pure.pass_at_k import RowOutcomes, pass_at_k, pass_hat_k
from osmosis.pure.statistics import (
    clustered_mean_estimate,
    clustered_standard_error,
    detectable_effect,
    exact_sign_test,
    holm,
    mean_estimate,
    paired_difference,
    pass_rate_variance,
    t_test_p_value,
    variance_split,
)

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)
histograms = st.lists(
    st.integers(1, 8).flatmap(lambda n: st.builds(RowOutcomes, st.just(n), st.integers(0, n), st.integers(1, 20))),
    min_size=1,
    max_size=8,
    unique_by=lambda outcomes: (outcomes.scored, outcomes.passed),
).map(lambda found: tuple(sorted(found)))


def series(numbers):
    """A float column."""
    return pl.Series(numbers, dtype=pl.Float64)


def test_reference_pass_at_k():
    """(200, 1, 100) is a half exactly, (8, 3, 4) is 13/14, (3, 1, 4) undefined; pass^k (4, 3, 2) is a half."""
    assert pass_at_k([RowOutcomes(200, 1, 1)], 100) == 0.5
    assert pass_at_k([RowOutcomes(8, 3, 1)], 4) == 13 / 14
    assert pass_at_k([RowOutcomes(3, 1, 1)], 4) is None
    assert pass_hat_k([RowOutcomes(4, 3, 1)], 2) == 0.5


def test_reference_wilson():
    """154 of 198 is [0.7149, 0.8301]."""
    low, high = wilson_bounds(154, 198)
    assert (round(low, 4), round(high, 4)) == (0.7149, 0.8301)


def test_reference_clusters():
    """aabbcc on 1,1,0,0,1,0: 0.2236 as if independent, CR0 0.2357, CR1 0.2887."""
    numbers, clusters = series([1, 1, 0, 0, 1, 0]), pl.Series(list("aabbcc"))
    independent = mean_estimate(numbers).standard_error
    assert independent is not None
    assert round(independent, 4) == 0.2236
    assert round(clustered_standard_error(numbers, clusters, corrected=False), 4) == 0.2357
    assert round(clustered_standard_error(numbers, clusters), 4) == 0.2887
    estimate = clustered_mean_estimate(numbers, clusters)
    assert (estimate.units, estimate.method) == (3, Method.CLUSTERED_T)
    half = float(stats.t.ppf(0.975, 2)) / sqrt(12)
    assert estimate.high is not None
    assert isclose(estimate.high, 0.5 + half, rel_tol=1e-10)


def test_reference_pairs():
    """1,1,0,1,0,1,1,0 against 1,0,0,1,0,0,1,0: difference 0.25, paired error 0.1637."""
    estimate = paired_difference(series([1, 1, 0, 1, 0, 1, 1, 0]), series([1, 0, 0, 1, 0, 0, 1, 0]))
    assert estimate.value == 0.25
    assert estimate.standard_error is not None
    assert round(estimate.standard_error, 4) == 0.1637


@given(st.integers(1, 5000), st.data())
def test_wilson_against_scipy(trials, data):
    """The score interval of SciPy, and never outside [0, 1]."""
    passes = data.draw(st.integers(0, trials))
    low, high = wilson_bounds(passes, trials)
    expected = stats.binomtest(passes, trials).proportion_ci(0.95, method="wilson")
    assert isclose(low, expected.low, rel_tol=1e-9, abs_tol=1e-12)
    assert isclose(high, expected.high, rel_tol=1e-9)
    assert 0.0 <= low <= passes / trials <= high <= 1.0


@given(values)
def test_mean_interval_against_scipy(numbers):
    """The t interval of SciPy's one-sample test, and its P value."""
    # SciPy squares without scaling, and loses very small numbers.
    assume(statistics.pstdev(numbers) > 1e-3 * max(map(abs, numbers)) > 1e-100)
    estimate = mean_estimate(series(numbers))
    test = stats.ttest_1samp(numbers, 0.0)
    expected = test.confidence_interval(0.95)
    spread = max(map(abs, numbers))
    assert estimate.low is not None
    assert estimate.high is not None
    assert isclose(estimate.low, expected.low, rel_tol=1e-8, abs_tol=1e-9 * spread)
    assert isclose(estimate.high, expected.high, rel_tol=1e-8, abs_tol=1e-9 * spread)
    p_value = t_test_p_value(estimate)
    assert p_value is not None
    assert isclose(p_value, float(test.pvalue), rel_tol=1e-6)


@given(st.lists(st.tuples(st.fractions(-4, 4, max_denominator=64), st.integers(0, 4)), min_size=2, max_size=30))
def test_cluster_errors_against_exact_arithmetic(pairs):
    """CR0 and CR1 are the sandwich formulas, worked out in fractions."""
    numbers, names = zip(*pairs, strict=True)
    floats = [float(number) for number in numbers]
    exact = list(map(Fraction, floats))
    mean = sum(exact, Fraction(0)) / len(exact)
    residuals: dict[int, Fraction] = {}
    for number, name in zip(exact, names, strict=True):
        residuals[name] = residuals.get(name, Fraction(0)) + number - mean
    groups = len(residuals)
    cr0 = sum((residual**2 for residual in residuals.values()), Fraction(0)) / len(exact) ** 2
    column = pl.Series(names)
    assert isclose(clustered_standard_error(series(floats), column, corrected=False), sqrt(cr0), rel_tol=1e-9, abs_tol=1e-12)
    if groups > 1:
        cr1 = sqrt(cr0 * Fraction(groups, groups - 1))
        assert isclose(clustered_standard_error(series(floats), column), cr1, rel_tol=1e-9, abs_tol=1e-12)


@given(values)
def test_clusters_of_one_are_no_clusters(numbers):
    """With every value in a cluster of its own, CR1 is the ordinary standard error."""
    plain, clustered = mean_estimate(series(numbers)), clustered_mean_estimate(series(numbers), pl.Series(range(len(numbers))))
    assert (plain.value, plain.units) == pytest.approx((clustered.value, clustered.units))
    if plain.standard_error and plain.standard_error > 1e-9 * max(map(abs, numbers)):
        assert clustered.standard_error == pytest.approx(plain.standard_error, rel=1e-6)


@given(histograms)
def test_pass_rate_error_is_the_clustered_one(histogram):
    """With rows as clusters of samples, the pass rate's error is the CR1 of the samples themselves."""
    rows = [(outcomes.scored, outcomes.passed) for outcomes in histogram for _ in range(outcomes.rows)]
    samples = [float(run < passed) for scored, passed in rows for run in range(scored)]
    clusters = [row for row, (scored, _) in enumerate(rows) for _ in range(scored)]
    estimate = pass_rate_estimate(histogram)
    assert estimate.value == sum(samples) / len(samples)
    if len(rows) > 1:
        expected = clustered_standard_error(series(samples), pl.Series(clusters))
        assert (estimate.standard_error or 0.0) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if estimate.low is not None and estimate.high is not None:
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0


@pytest.mark.parametrize(
    ("histogram", "method"),
    [
        ((RowOutcomes(1, 0, 44), RowOutcomes(1, 1, 154)), Method.WILSON),
        ((RowOutcomes(4, 1, 10), RowOutcomes(4, 3, 10)), Method.CLUSTERED_T),
        ((RowOutcomes(4, 4, 20),), Method.WILSON_ROWS),
        ((RowOutcomes(4, 0, 20),), Method.WILSON_ROWS),
        ((RowOutcomes(2, 1, 20),), None),
        ((RowOutcomes(4, 2, 1),), None),
        ((), None),
    ],
)
def test_which_interval_a_pass_rate_gets(histogram, method):
    """Wilson for single runs, rows as clusters for several, rows alone when all agree, and otherwise nothing with a reason."""
    estimate = pass_rate_estimate(histogram)
    assert estimate.method == method
    assert (estimate.low is None) == (method is None)
    assert (estimate.reason is None) == (estimate.standard_error is not None)


def test_agreement_is_not_certainty():
    """Twenty rows that pass in all of four runs are not known better than twenty rows that pass once."""
    several, once = pass_rate_estimate([RowOutcomes(4, 4, 20)]), pass_rate_estimate([RowOutcomes(1, 1, 20)])
    assert (several.low, several.high) == (once.low, once.high)
    assert several.low is not None
    assert several.low < 0.9


UNDEFINED = [
    mean_estimate(series([])),
    mean_estimate(series([1.0])),
    mean_estimate(series([2.0, 2.0])),
    mean_estimate(series([inf, 1.0])),
    mean_estimate(series([nan, 1.0])),
    clustered_mean_estimate(series([]), pl.Series([], dtype=pl.String)),
    clustered_mean_estimate(series([1.0, 2.0]), pl.Series(["a", "a"])),
    clustered_mean_estimate(series([1.0, 1.0]), pl.Series(["a", "b"])),
    pass_rate_estimate([]),
]


@pytest.mark.parametrize("estimate", UNDEFINED)
def test_what_is_undefined_says_why(estimate):
    """No interval, no error, and a reason; never 0, never NaN."""
    assert (estimate.standard_error, estimate.low, estimate.high) == (None, None, None)
    assert estimate.reason
    assert estimate.value is None or isfinite(estimate.value)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_no_number_is_ever_nan_or_infinite(numbers):
    """Whatever finite rewards there are, a number is finite or null."""
    for estimate in (mean_estimate(series(numbers)), clustered_mean_estimate(series(numbers), pl.Series(range(len(numbers))))):
        found = [estimate.value, estimate.standard_error, estimate.low, estimate.high]
        assert all(number is None or isfinite(number) for number in found)
        assert (None in found) <= (estimate.reason is not None)


@given(values, st.randoms(use_true_random=False))
def test_order_does_not_matter(numbers, random):
    """Values in any order, in any number of chunks: the same bytes."""
    order = random.sample(range(len(numbers)), len(numbers))
    cut = random.randint(0, len(numbers))
    shuffled = series([numbers[position] for position in order[:cut]]).append(
        series([numbers[position] for position in order[cut:]])
    )
    clusters = pl.Series([position % 3 for position in range(len(numbers))])
    assert repr(mean_estimate(shuffled)) == repr(mean_estimate(series(numbers)))
    assert repr(clustered_mean_estimate(shuffled, clusters.gather(order))) == repr(
        clustered_mean_estimate(series(numbers), clusters)
    )


def test_mcnemar_exact_published():
    """10 against 3 discordant pairs: P = 0.09229, which is 2 * P(X <= 3) for 13 fair tosses."""
    assert round(exact_sign_test(3, 10), 5) == 0.09229
    assert exact_sign_test(0, 0) == 1.0


def test_holm_published():
    """Holm's own procedure on 0.01, 0.04, 0.03, 0.005: 0.03, 0.06, 0.06, 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


@given(st.lists(st.none() | st.floats(0, 1), max_size=12))
def test_holm_properties(p_values):
    """Adjusted values are never smaller, at most 1, keep the order, and None stays None."""
    adjusted = holm(p_values)
    pairs = [(before, after) for before, after in zip(p_values, adjusted, strict=True) if before is not None]
    assert [after is None for after in adjusted] == [before is None for before in p_values]
    assert all(after is not None and before <= after <= 1.0 for before, after in pairs)
    ordered = [after or 0.0 for _, after in sorted(pairs)]
    assert ordered == sorted(ordered)


@given(histograms)
def test_variance_split_against_anova(histogram):
    """Within rows: the pooled variance. Between rows: what is left of the variance of row means. Neither is negative."""
    rows = [[1.0] * outcomes.passed + [0.0] * (outcomes.scored - outcomes.passed) for outcomes in histogram]
    rows = [row for row, outcomes in zip(rows, histogram, strict=True) for _ in range(outcomes.rows)]
    split = pass_rate_variance(histogram)
    freedom = sum(len(row) - 1 for row in rows)
    if len(rows) < 2 or not freedom:
        assert split.within_row is None
        assert split.reason
        return
    pooled = sum(statistics.pvariance(row) * len(row) for row in rows) / freedom
    means = [statistics.mean(row) for row in rows]
    between = statistics.variance(means) - pooled * statistics.mean(1 / len(row) for row in rows)
    assert split.within_row == pytest.approx(pooled, abs=1e-9)
    assert split.between_rows == pytest.approx(max(between, 0.0), abs=1e-9)
    assert split.unlimited_runs is not None
    assert split.twice_the_runs is not None
    assert split.unlimited_runs <= split.twice_the_runs + 1e-12


def test_what_more_data_buys():
    """Without noise within rows more runs buy nothing; without spread between rows they buy as much as more rows."""
    only_between = variance_split(0.25, 0.0, 0.25, 100)
    assert only_between.twice_the_runs == only_between.unlimited_runs == 0.05
    only_within = variance_split(0.0625, 0.25, 0.25, 100)
    assert only_within.twice_the_runs == only_within.twice_the_rows
    assert only_within.unlimited_runs == 0.0


def test_detectable_effect_for_large_runs():
    """(1.960 + 0.842) * sqrt(2) standard errors, the textbook formula; nothing from nothing."""
    large = Estimate(0.5, 0.01, 0.48, 0.52, Method.T, 100_000)
    effect = detectable_effect(large, None)
    assert effect.unpaired == pytest.approx((1.959964 + 0.841621) * sqrt(2) * 0.01, rel=1e-4)
    assert effect.paired_at_best is None
    nothing = detectable_effect(mean_estimate(series([])), None)
    assert nothing.unpaired is None
    assert nothing.reason


def test_an_effect_beyond_all_that_can_be_is_not_detectable():
    """Shares differ by 1 at most, and from 0.7 by 0.7 at most: what would have to be larger is null with a reason."""
    small = Estimate(0.7, 0.2, 0.2, 1.0, Method.T, 5)
    free = detectable_effect(small, 0.005)
    assert free.unpaired is not None
    assert free.unpaired > 0.9
    assert free.paired_at_best is not None
    assert free.paired_at_best < 0.7
    bound = detectable_effect(small, 0.005, largest=0.7)
    assert (bound.unpaired, bound.paired_at_best, bound.reason) == (None, free.paired_at_best, TOO_FEW)
    nothing = detectable_effect(small, 0.04, largest=0.7)
    assert (nothing.unpaired, nothing.paired_at_best, nothing.reason) == (None, None, TOO_FEW)
    assert detectable_effect(small, None, largest=0.7).reason == TOO_FEW


def test_bounds_are_cut_to_where_the_truth_can_lie():
    """Nothing else changes, and an interval that lies inside stays."""
    wide = Estimate(0.9, 0.1, 0.6, 1.2, Method.T, 9)
    assert within(wide, 0.0, 1.0) == Estimate(0.9, 0.1, 0.6, 1.0, Method.T, 9)
    inside = Estimate(0.5, 0.1, 0.3, 0.7, Method.T, 9)
    assert within(inside, 0.0, 1.0) == inside
    missing = mean_estimate(series([1.0]))
    assert within(missing, 0.0, 1.0) == missing


def test_records_are_plain_json():
    """Every undefined number is an explicit null beside its reason."""
    written = msgspec.to_builtins(mean_estimate(series([1.0])))
    assert written == {
        "value": 1.0,
        "standard_error": None,
        "low": None,
        "high": None,
        "method": None,
        "units": 1,
        "reason": "one row says nothing about the spread between rows",
    }
