"""Properties of the numbers of a run (E29, rulings 6 and 7)."""

from __future__ import annotations

import statistics
from fractions import Fraction
from itertools import combinations
from math import fsum, isclose

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.journal import Status
from osmosis.pure.metrics import (
    RowOutcomes,
    index_frame,
    outcome_histogram,
    pass_at_k,
    pass_hat_k,
    passed_expression,
    row_pass_at_k,
    row_pass_hat_k,
    summarize,
)
from osmosis.pure.metrics_file import PassPoint, RewardStatistics, summary_object
from osmosis.pure.tally import passed
from tests.strategies.numbers import index_rows, rewards, thresholds


def frame_of_rewards(values):
    """One successful row for each reward."""
    size = len(values)
    return pl.DataFrame(
        {"row_index": range(size), "run_index": [0] * size, "status": ["success"] * size, "reward": values},
        schema_overrides={"row_index": pl.Int64, "reward": pl.Float64},
    )


@given(index_rows, thresholds)
def test_counts_follow_the_contract(rows, threshold):
    """Each count is what its definition says, worked out row by row."""
    summary = summarize(index_frame(rows), threshold)
    graded = [row.reward for row in rows if row.status is Status.SUCCESS and row.reward is not None]
    skipped = sum(row.status is Status.SKIPPED for row in rows)
    assert summary.total_samples == len(rows)
    assert summary.completed_samples == len(rows) - skipped
    assert summary.skipped == skipped
    assert summary.failed == sum(row.status is Status.FAILED for row in rows)
    assert summary.graded == len(graded)
    assert summary.passed == sum(reward >= threshold for reward in graded)
    assert summary.pass_rate == (summary.passed / summary.completed_samples if summary.completed_samples else 0)
    assert summary.tokens_used == sum(row.tokens or 0 for row in rows)
    runs = max((row.run_index for row in rows), default=0) + 1
    assert summary.n_runs == (runs if runs >= 2 else None)


@given(index_rows, thresholds, st.randoms(use_true_random=False))
def test_row_order_frame_kind_and_chunks_do_not_matter(rows, threshold, random):
    """Shuffled, cut into pieces or lazy: the same bytes."""
    expected = repr(summarize(index_frame(rows), threshold))
    shuffled = random.sample(rows, len(rows))
    cut = random.randint(0, len(rows))
    pieces = pl.concat([index_frame(shuffled[:cut]), index_frame(shuffled[cut:])], rechunk=False)
    assert repr(summarize(pieces, threshold)) == repr(summarize(pieces.lazy(), threshold)) == expected


@given(index_rows, thresholds)
def test_missing_optional_columns_are_nulls(rows, threshold):
    """A frame without rewards or tokens is a run that reported none."""
    frame = index_frame(rows)
    optional = ["reward", "tokens", "max_context_tokens"]
    nulls = frame.with_columns(pl.lit(None).alias(name) for name in optional)
    assert summarize(frame.drop(optional), threshold) == summarize(nulls, threshold)


@given(st.none() | rewards | st.sampled_from([float("nan"), float("inf"), float("-inf")]), thresholds)
def test_pass_rule_is_one_for_scalars_and_columns(reward, threshold):
    """`passed` and `passed_expression` never disagree, not even on the threshold, on null, NaN or infinity."""
    frame = pl.DataFrame({"reward": [reward]}, schema={"reward": pl.Float64})
    for level in (threshold, threshold if reward is None else reward):
        assert frame.select(passed_expression(level)).item() is passed(reward, level)


@given(st.lists(rewards, min_size=1, max_size=20))
def test_reward_statistics_against_the_standard_library(values):
    """Mean, median and population deviation agree with exact arithmetic; extremes are exact."""
    stats = summarize(frame_of_rewards(values), 1.0).reward_stats
    assert stats is not None
    assert (stats.min, stats.max) == (min(values), max(values))
    assert stats.min <= stats.mean <= stats.max
    spread = Fraction(max(map(abs, values)))
    assert abs(Fraction(stats.mean) - statistics.mean(map(Fraction, values))) <= spread / 2**50
    exact_median = statistics.median(map(Fraction, values))
    assert isclose(stats.median, exact_median, rel_tol=1e-15, abs_tol=5e-324)
    assert isclose(stats.std, statistics.pstdev(map(Fraction, values)), rel_tol=1e-9, abs_tol=float(spread) * 1e-15)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_mean_is_the_exact_sum_divided(values):
    """The mean is `math.fsum` of the rewards over their number, kept between the extremes."""
    stats = summarize(frame_of_rewards(values), 1.0).reward_stats
    assert stats is not None
    assert stats.mean == min(max(fsum(values) / len(values), min(values)), max(values))


@given(rewards, st.integers(1, 30))
def test_equal_rewards_have_no_spread(value, size):
    """Equal rewards: that mean, and a deviation of exactly 0.0."""
    stats = summarize(frame_of_rewards([value] * size), 1.0).reward_stats
    assert stats == RewardStatistics(value, value, 0.0, value, value)


@pytest.mark.parametrize("values", [[1.7e308, 1.7e308], [1.7e308, -1.7e308], [5e-324, 1e-323], [1e-200, 3e-200]])
def test_extreme_rewards_stay_finite(values):
    """Sums and squares outside the range of a double do not spoil the result."""
    stats = summarize(frame_of_rewards(values), 1.0).reward_stats
    assert stats is not None
    half = (Fraction(values[0]) + Fraction(values[1])) / 2
    assert stats.mean == stats.median == float(half)
    assert isclose(stats.std, abs(Fraction(values[0]) - half), rel_tol=1e-12)


@pytest.mark.parametrize("values", [[-0.0], [-0.0, 0.0], [0.0, -0.0, None], [-0.0, 0.0] * 40, [0.0, -0.0] * 40])
def test_signed_zeros_are_one_value(values):
    """-0.0 and 0.0, in whatever order and number, give the same bytes."""
    assert "-0.0" not in repr(summarize(frame_of_rewards(values), 1.0))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_rewards_that_are_not_finite_are_no_grade(value):
    """NaN and infinities in a notebook's frame neither pass nor enter the statistics."""
    summary = summarize(frame_of_rewards([value, 0.5]), 0.5)
    assert (summary.graded, summary.passed, summary.reward_stats) == (1, 1, RewardStatistics(0.5, 0.5, 0.0, 0.5, 0.5))


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=30))
def test_context_statistics(values):
    """The percentiles are linear interpolations between ranks; p50 is the median; sums do not overflow."""
    frame = frame_of_rewards([0.0] * len(values)).with_columns(
        max_context_tokens=pl.Series(values, dtype=pl.Int64), tokens=pl.Series(values, dtype=pl.Int64)
    )
    summary = summarize(frame, 1.0)
    stats = summary.context_stats
    assert stats is not None
    assert summary.tokens_used == sum(values)
    assert stats.max == max(values)
    assert stats.mean == sum(values) / len(values)
    assert stats.p50 == float(statistics.median(map(Fraction, values)))
    below = sorted(values)[int((len(values) - 1) * 0.95)]
    assert below <= Fraction(stats.p95) * (1 + Fraction(1, 2**52))
    assert stats.p50 <= stats.p95 <= float(stats.max)


@given(st.integers(1, 7), st.data())
def test_row_pass_at_k_is_what_it_claims(scored, data):
    """pass@k and pass^k of a row are shares of all draws of k runs, counted by brute force; fewer than k runs is undefined."""
    passes = data.draw(st.integers(0, scored))
    runs = [index < passes for index in range(scored)]
    for k in range(1, scored + 1):
        draws = list(combinations(runs, k))
        assert row_pass_at_k(scored, passes, k) == Fraction(sum(map(any, draws)), len(draws))
        assert row_pass_hat_k(scored, passes, k) == Fraction(sum(map(all, draws)), len(draws))
    for k in (0, -1, scored + 1):
        assert row_pass_at_k(scored, passes, k) is row_pass_hat_k(scored, passes, k) is None


@given(index_rows, thresholds, st.integers(1, 5))
def test_pass_at_k_over_rows(rows, threshold, k):
    """The correctly rounded mean over rows with a scored run, and nothing at all if one of them has fewer than k."""
    scored: dict[int, list[bool]] = {}
    for row in rows:
        if row.status is not Status.SKIPPED:
            outcome = row.status is Status.SUCCESS and passed(row.reward, threshold)
            scored.setdefault(row.row_index, []).append(outcome)
    histogram = outcome_histogram(index_frame(rows), threshold)
    assert sum(outcomes.rows for outcomes in histogram) == len(scored)
    if scored and all(len(runs) >= k for runs in scored.values()):
        for mean, value in ((pass_at_k, row_pass_at_k), (pass_hat_k, row_pass_hat_k)):
            values = [value(len(runs), sum(runs), k) or Fraction(0) for runs in scored.values()]
            assert mean(histogram, k) == float(sum(values) / len(values))
    else:
        assert pass_at_k(histogram, k) is pass_hat_k(histogram, k) is None


def test_reference_values():
    """Published values: (200, 1, 100) = 1/2, (8, 3, 4) = 13/14, (3, 1, 4) undefined; pass^k (4, 3, 2) = 1/2."""
    assert pass_at_k([RowOutcomes(200, 1, 1)], 100) == 0.5
    assert pass_at_k([RowOutcomes(8, 3, 1)], 4) == 13 / 14
    assert pass_at_k([RowOutcomes(3, 1, 1)], 4) is None
    assert pass_hat_k([RowOutcomes(4, 3, 1)], 2) == 0.5


def test_golden_check_of_the_contract():
    """The worked example of the contract: 9 rows of two runs, 10 graded, 6 failed, 2 skipped, threshold 0.5."""
    graded = [1, 1, 0.25, 0.25, 1, 0.25, 0.75, 0.75, 1, 1]
    frame = pl.DataFrame(
        {
            "row_index": [index // 2 for index in range(18)],
            "run_index": [index % 2 for index in range(18)],
            "status": ["success"] * 10 + ["failed"] * 6 + ["skipped"] * 2,
            "reward": graded + [None] * 8,
        },
        strict=False,
        schema_overrides={"reward": pl.Float64},
    )
    summary = summarize(frame, 0.5)
    assert summary.pass_rate == 7 / 16 == 0.4375
    assert summary.reward_stats == RewardStatistics(mean=0.725, median=0.875, std=0.325, min=0.25, max=1.0)
    assert summary.pass_at_k == (PassPoint(1, 0.4375), PassPoint(2, 0.5))
    assert summary.pass_hat_k == (PassPoint(1, 0.4375), PassPoint(2, 0.375))


def test_one_point_is_no_curve():
    """If one row has a single scored run, only k = 1 is defined, and a curve of one point is left out."""
    frame = pl.DataFrame({"row_index": [0, 0, 1, 1], "run_index": [0, 1, 0, 1], "status": ["failed"] * 3 + ["skipped"]})
    summary = summarize(frame, 1.0)
    assert summary.n_runs == 2
    assert summary.pass_at_k is summary.pass_hat_k is None


def test_empty_frame():
    """Before the first result every count is 0 and everything else is absent."""
    assert summary_object(summarize(index_frame([]), 1.0)) == {
        "total_samples": 0,
        "completed_samples": 0,
        "graded": 0,
        "passed": 0,
        "failed": 0,
        "skipped": 0,
        "pass_rate": 0,
        "pass_threshold": 1.0,
        "tokens_used": 0,
    }


def test_a_frame_of_something_else_is_refused_with_all_reasons():
    """Every missing or mistyped column is named at once."""
    frame = pl.DataFrame({"row_index": ["0"], "status": [1], "reward": [True], "tokens": [1.5]})
    with pytest.raises(OsmosisError) as caught:
        summarize(frame, 1.0)
    assert {problem.where.removeprefix("column ") for problem in caught.value.problems} == {
        "row_index",
        "run_index",
        "status",
        "reward",
        "tokens",
    }


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("status", "passed", "unknown status 'passed'"),
        ("status", None, "holds a null"),
        ("row_index", None, "holds a null"),
        ("run_index", -1, "holds a negative number"),
    ],
)
def test_values_that_no_index_holds_are_refused(column, value, reason):
    """An unknown status, a null or a negative index is an error, not a guess."""
    frame = index_frame([{"row_index": 0, "run_index": 0, "status": "success", column: value}])
    with pytest.raises(OsmosisError, match=reason):
        summarize(frame, 1.0)
