"""The bootstrap's chance is an argument, its draws have the right distribution, its curves the right values (issue 8)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from osmosis.pure.bootstrap import CounterStream, bootstrap_curves, resample_count
from osmosis.pure.pass_at_k import RowOutcomes, row_pass_at_k

HISTOGRAM = (RowOutcomes(4, 0, 20), RowOutcomes(4, 1, 12), RowOutcomes(4, 3, 8), RowOutcomes(4, 4, 24))
seeds = st.text(max_size=20)


def test_the_stream_is_pinned():
    """The numbers are these on every machine and in every version: they decide bytes of `metrics.json`."""
    stream = CounterStream("xxh3-128:v1:0")
    assert [stream.uniform() for _ in range(3)] == PINNED


PINNED = [0.7184167119720055, 0.016713907279891915, 0.3618573629132275]


@given(seeds)
def test_uniform_numbers_lie_inside(seed):
    """Neither 0 nor 1 ever comes, so no logarithm fails."""
    stream = CounterStream(seed)
    assert all(0.0 < stream.uniform() < 1.0 for _ in range(50))


@pytest.mark.parametrize(("trials", "probability"), [(7, 0.3), (40, 0.1), (40, 0.5), (40, 0.9), (1000, 0.02), (1000, 0.4)])
def test_binomial_draws_have_their_distribution(trials, probability):
    """Chi-squared over 20,000 draws, by inversion and by rejection alike. The seed is fixed, so the test is no gamble."""
    stream = CounterStream("binomial")
    counts = Counter(stream.binomial(trials, probability) for _ in range(20_000))
    observed, expected = [], []
    rest_observed, rest_expected = 0, 0.0
    for successes in range(trials + 1):
        due = float(stats.binom.pmf(successes, trials, probability)) * 20_000
        if due >= 5:
            observed.append(counts[successes])
            expected.append(due)
        else:
            rest_observed += counts[successes]
            rest_expected += due
    observed.append(rest_observed)
    expected.append(rest_expected)
    scale = sum(observed) / sum(expected)
    assert stats.chisquare(observed, [due * scale for due in expected]).pvalue > 0.001


def test_binomial_of_ten_million():
    """The mean and the spread are right where no table could be walked."""
    stream = CounterStream("many")
    draws = [stream.binomial(10_000_000, 0.3) for _ in range(4000)]
    mean = sum(draws) / len(draws)
    spread = sqrt(sum((draw - mean) ** 2 for draw in draws) / len(draws))
    expected = sqrt(10_000_000 * 0.21)
    assert abs(mean - 3_000_000) < 5 * expected / sqrt(len(draws))
    assert spread == pytest.approx(expected, rel=0.05)


@given(seeds, st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_multinomial_counts_add_up(seed, weights):
    """Every draw falls into one category."""
    counts = CounterStream(seed).multinomial(sum(weights), weights)
    assert len(counts) == len(weights)
    assert sum(counts) == sum(weights)
    assert min(counts) >= 0


@given(seeds)
def test_equal_seeds_give_equal_curves(seed):
    """The seed decides, and nothing else."""
    assert bootstrap_curves(HISTOGRAM, (1, 2, 4), seed) == bootstrap_curves(HISTOGRAM, (1, 2, 4), seed)


def test_curves_are_right_and_ordered():
    """Values are exact means over rows; intervals hold them; more chances never hurt pass@k nor help pass^k."""
    at_k, hat_k = bootstrap_curves(HISTOGRAM, (1, 2, 4, 8), "seed")
    assert [point.k for point in at_k] == [point.k for point in hat_k] == [1, 2, 4]
    rows = sum(outcomes.rows for outcomes in HISTOGRAM)
    for point in at_k:
        exact = sum((row_pass_at_k(o.scored, o.passed, point.k) or Fraction(0)) * o.rows for o in HISTOGRAM) / rows
        assert point.value == float(exact)
        assert point.low is not None
        assert point.high is not None
        assert point.low < point.value < point.high
    assert [point.value for point in at_k] == sorted(point.value for point in at_k)
    assert [point.value for point in hat_k] == sorted((point.value for point in hat_k), reverse=True)
    assert at_k[0] == hat_k[0]


def test_the_interval_is_that_of_resampled_rows():
    """For k = 1 the percentile interval is close to the normal one with the spread of row values, for 6,400 rows."""
    many = tuple(RowOutcomes(o.scored, o.passed, o.rows * 100) for o in HISTOGRAM)
    (point,), _ = bootstrap_curves(many, (1,), "seed")
    shares = [o.passed / o.scored for o in many for _ in range(o.rows)]
    mean = sum(shares) / len(shares)
    error = sqrt(sum((share - mean) ** 2 for share in shares)) / len(shares)
    assert point.low == pytest.approx(mean - 1.96 * error, abs=error / 6)
    assert point.high == pytest.approx(mean + 1.96 * error, abs=error / 6)


@pytest.mark.parametrize("histogram", [(RowOutcomes(4, 2, 1),), (RowOutcomes(4, 4, 30),), (RowOutcomes(2, 0, 3),)])
def test_no_spread_no_interval(histogram):
    """One row, or rows of one kind: the value stands, the interval is null and says why."""
    at_k, hat_k = bootstrap_curves(histogram, (1, 2), "seed")
    for point in (*at_k, *hat_k):
        assert (point.low, point.high) == (None, None)
        assert point.reason


def test_nothing_is_resampled_from_nothing():
    """No rows, or a k that some row does not reach: no point."""
    assert bootstrap_curves((), (1, 2), "seed") == ((), ())
    assert bootstrap_curves((RowOutcomes(1, 1, 3), RowOutcomes(4, 1, 3)), (2, 4), "seed") == ((), ())


def test_the_work_is_bounded():
    """Very many different pairs get fewer resamples, never fewer than 400."""
    histogram = tuple(RowOutcomes(n, c, 1) for n in range(1, 65) for c in range(n + 1))
    assert resample_count(HISTOGRAM) == 2000
    assert resample_count(histogram) == 400
