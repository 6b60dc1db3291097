"""Distribution functions against SciPy and published tables (issue 8, must-show 1)."""

from __future__ import annotations

from math import comb, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from osmosis.pure.distributions import (
    binomial_lower_bound,
    binomial_lower_tail,
    binomial_upper_bound,
    fair_coin_p_value,
    incomplete_beta,
    normal_quantile,
    student_t_quantile,
    student_t_tail,
)

# Fisher and Yates, "Statistical Tables", table III: two-sided 5 % and 1 % points of t.
PUBLISHED_T = [
    (1, 0.975, 12.706),
    (2, 0.975, 4.303),
    (5, 0.975, 2.571),
    (10, 0.975, 2.228),
    (30, 0.975, 2.042),
    (120, 0.975, 1.980),
    (1, 0.995, 63.657),
    (10, 0.995, 3.169),
    (60, 0.995, 2.660),
]


@pytest.mark.parametrize(("degrees", "probability", "value"), PUBLISHED_T)
def test_published_table_of_t(degrees, probability, value):
    """The quantiles are those of the printed table."""
    assert round(student_t_quantile(probability, degrees), 3) == value


@given(st.integers(1, 100_000) | st.floats(0.5, 1e5), st.floats(0.51, 0.999_999))
def test_quantiles_of_t_against_scipy(degrees, probability):
    """Eight significant digits where the quantile is steep, more elsewhere."""
    expected = float(stats.t.ppf(probability, degrees))
    assert isclose(student_t_quantile(probability, degrees), expected, rel_tol=1e-8)
    assert isclose(student_t_quantile(1 - probability, degrees), -expected, rel_tol=1e-8)


@given(st.integers(1, 100_000), st.floats(0, 40))
def test_tails_of_t_against_scipy(degrees, t):
    """Ten significant digits, also far out."""
    expected = float(stats.t.sf(t, degrees))
    assert isclose(student_t_tail(t, degrees), expected, rel_tol=1e-10, abs_tol=1e-290)
    assert isclose(student_t_tail(-t, degrees), 1 - expected, rel_tol=1e-12)


@given(st.integers(1, 100_000), st.floats(0.001, 0.999))
def test_quantile_and_tail_are_inverse(degrees, probability):
    """The tail beyond a quantile is what was asked for."""
    assert isclose(student_t_tail(student_t_quantile(probability, degrees), degrees), 1 - probability, rel_tol=1e-9)


@given(st.floats(0.1, 500), st.floats(0.1, 500), st.floats(0, 1))
def test_incomplete_beta_against_scipy(a, b, x):
    """The function under everything else."""
    assert isclose(incomplete_beta(a, b, x), float(stats.beta.cdf(x, a, b)), rel_tol=1e-9, abs_tol=1e-13)


@given(st.integers(1, 60), st.data())
def test_fair_coin_is_exact(tosses, data):
    """For small numbers the P value is a ratio of integers, counted out."""
    heads = data.draw(st.integers(0, tosses))
    fewer = min(heads, tosses - heads)
    exact = min(2 * sum(comb(tosses, k) for k in range(fewer + 1)) / 2**tosses, 1.0)
    assert isclose(fair_coin_p_value(heads, tosses - heads), exact, rel_tol=1e-12)
    assert isclose(exact, float(stats.binomtest(heads, tosses, 0.5).pvalue), rel_tol=1e-9)


def test_fair_coin_without_a_toss_and_with_millions():
    """No toss says nothing; ten million tosses take no longer and agree with SciPy."""
    assert fair_coin_p_value(0, 0) == 1.0
    heads, tails = 4_997_000, 5_003_000
    assert isclose(fair_coin_p_value(heads, tails), 2 * float(stats.binom.cdf(heads, heads + tails, 0.5)), rel_tol=1e-8)


@given(st.integers(1, 5000), st.data(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_exact_bounds_are_clopper_and_pearson(trials, data, confidence):
    """Both bounds are the quantiles of the beta distribution that SciPy gives."""
    successes = data.draw(st.integers(0, trials))
    upper = 1.0 if successes == trials else float(stats.beta.ppf(confidence, successes + 1, trials - successes))
    lower = 0.0 if successes == 0 else float(stats.beta.ppf(1 - confidence, successes, trials - successes + 1))
    assert isclose(binomial_upper_bound(successes, trials, confidence), upper, rel_tol=1e-9)
    assert isclose(binomial_lower_bound(successes, trials, confidence), lower, rel_tol=1e-9, abs_tol=1e-12)


@given(st.integers(1, 3000), st.floats(0.01, 0.99), st.data())
def test_binomial_tail_against_scipy(trials, probability, data):
    """The lower tail, ends included."""
    successes = data.draw(st.integers(-1, trials))
    expected = float(stats.binom.cdf(successes, trials, probability))
    assert isclose(binomial_lower_tail(successes, trials, probability), expected, rel_tol=1e-8, abs_tol=1e-200)


def test_normal_quantile():
    """1.959964, as everywhere."""
    assert round(normal_quantile(0.975), 6) == 1.959964
