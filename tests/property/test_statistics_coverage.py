"""Coverage by simulation: 95 % intervals hold the truth in 93 % to 97 % of 10,000 runs, on the grid of `docs/statistics.md`.

Each cell simulates 10,000 whole runs with a fixed seed and asks the product for the interval of each. Runs with the same
histogram have the same interval, so each distinct one is asked for once.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

from osmosis.pure.bootstrap import bootstrap_curves
from osmosis.pure.intervals import pass_rate_estimate, within
from osmosis.pure.metrics import summarize
from osmosis.pure.pass_at_k import RowOutcomes, row_pass_at_k, row_pass_hat_k
from osmosis.pure.statistics import clustered_mean_estimate, mean_estimate, paired_difference
from osmosis.pure.stored_run import samples_frame
from tests.strategies.comparisons import stored_run

pytestmark = pytest.mark.slow

RUNS = 10_000
LEAST, MOST = 0.93, 0.97


def histogram_of(passes, n):
    """The histogram of rows of `n` runs with these passes."""
    counts = np.bincount(passes, minlength=n + 1)
    return tuple(RowOutcomes(n, passed, int(rows)) for passed, rows in enumerate(counts) if rows)


def share_covered(histograms, truth, interval):
    """In which share of the runs `interval` of the histogram holds the truth; no interval holds nothing."""
    covered = 0
    for histogram, runs in Counter(histograms).items():
        low, high = interval(histogram)
        covered += runs * (low is not None and high is not None and low <= truth <= high)
    return covered / RUNS


def pass_rate_interval(histogram):
    """The product's interval of the pass rate."""
    estimate = pass_rate_estimate(histogram)
    return estimate.low, estimate.high


@pytest.mark.parametrize("rows", [100, 200, 500])
@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
def test_wilson_where_each_row_ran_once(rows, rate):
    """N rows, one run each, N p and N (1 - p) at least 10."""
    passes = np.random.default_rng(1).binomial(rows, rate, RUNS)
    parts = [tuple(RowOutcomes(1, c, r) for c, r in ((0, rows - int(x)), (1, int(x))) if r) for x in passes]
    assert LEAST <= share_covered(parts, rate, pass_rate_interval) <= MOST


@pytest.mark.parametrize("rows", [50, 100, 200])
@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (4, 1), (0.5, 0.5)])
def test_clustered_by_row(rows, n, shape):
    """N rows of n runs; the chance of each row is drawn from a beta distribution, even, skewed either way, or two-peaked."""
    a, b = shape
    rng = np.random.default_rng(2)
    passes = rng.binomial(n, rng.beta(a, b, (RUNS, rows)))
    parts = [histogram_of(run, n) for run in passes]
    assert LEAST <= share_covered(parts, a / (a + b), pass_rate_interval) <= MOST


def test_bootstrap_of_curves():
    """64 rows of two runs, chances skewed towards failure: pass@2 and pass^2 by the row bootstrap."""
    rows, (a, b) = 64, (1, 2)
    rng = np.random.default_rng(3)
    passes = rng.binomial(2, rng.beta(a, b, (RUNS, rows)))
    parts = [histogram_of(run, 2) for run in passes]
    second = a * (a + 1) / ((a + b) * (a + b + 1))
    one_in_two, both = 2 * a / (a + b) - second, second
    curves = cache(lambda histogram: bootstrap_curves(histogram, (2,), "coverage"))

    def interval(which):
        return lambda histogram: (curves(histogram)[which][0].low, curves(histogram)[which][0].high)

    assert LEAST <= share_covered(parts, one_in_two, interval(0)) <= MOST
    assert LEAST <= share_covered(parts, both, interval(1)) <= MOST


def holds(estimate, truth):
    """Whether the interval is there and holds the truth."""
    return estimate.low is not None and estimate.high is not None and estimate.low <= truth <= estimate.high


@pytest.mark.parametrize(("rows", "kind"), [(20, "uniform"), (50, "two-peaked"), (200, "normal")])
def test_mean_reward_by_t(rows, kind):
    """Row means of rewards: even, bell-shaped, or mostly at the ends."""
    rng = np.random.default_rng(4)
    draw = {
        "uniform": lambda: rng.uniform(0, 1, (RUNS, rows)),
        "normal": lambda: rng.normal(0.5, 0.2, (RUNS, rows)),
        "two-peaked": lambda: rng.beta(0.5, 0.5, (RUNS, rows)),
    }[kind]()
    covered = sum(holds(mean_estimate(pl.Series(run)), 0.5) for run in draw)
    assert LEAST <= covered / RUNS <= MOST


@pytest.mark.parametrize(("rows", "rate"), [(100, 0.1), (100, 0.9), (200, 0.5)])
def test_mean_reward_of_zeros_and_ones(rows, rate):
    """Rewards of 0 or 1, each row graded once, through all that makes a run's metrics; never outside [0, 1]."""
    runs = Counter(np.random.default_rng(8).binomial(rows, rate, RUNS).tolist())
    covered = 0
    for ones, times in runs.items():
        estimate = mean_reward_of([[1.0]] * ones + [[0.0]] * (rows - ones))
        assert 0.0 <= estimate.low <= estimate.high <= 1.0
        covered += times * holds(estimate, rate)
    assert LEAST <= covered / RUNS <= MOST


@pytest.mark.parametrize("shape", [(8, 1), (1, 3)])
def test_cutting_to_the_scale_costs_no_coverage(shape):
    """50 rows near an end of the scale: what is cut off the t interval is where no mean can be."""
    a, b = shape
    draw = np.random.default_rng(9).beta(a, b, (RUNS, 50))
    plain = [mean_estimate(pl.Series(run)) for run in draw]
    cut = [within(estimate, 0.0, 1.0) for estimate in plain]
    covered = sum(holds(estimate, a / (a + b)) for estimate in cut)
    assert covered == sum(holds(estimate, a / (a + b)) for estimate in plain)
    assert LEAST <= covered / RUNS <= MOST


def mean_reward_of(cells):
    """The mean reward of a run with these samples, as its metrics have it."""
    summary = summarize(samples_frame(stored_run("run", cells)), 1.0, seed="xxh3-128:v1:" + "0" * 32)
    assert summary.uncertainty is not None
    return summary.uncertainty.mean_reward


def test_clusters_of_rows():
    """20 clusters of four rows that share half of their variance: CR1 with t of 19 degrees."""
    groups = 20
    rng = np.random.default_rng(5)
    draw = rng.normal(0, 1, (RUNS, groups, 1)) + rng.normal(0, 1, (RUNS, groups, 4))
    names = pl.Series(np.repeat(np.arange(groups), 4))
    covered = sum(holds(clustered_mean_estimate(pl.Series(run.reshape(-1)), names), 0.0) for run in draw)
    assert LEAST <= covered / RUNS <= MOST


def test_paired_differences():
    """Two runs on the same 50 rows, four runs a row, chances that differ by 0.05 and share the rows' difficulty."""
    rows = 50
    rng = np.random.default_rng(6)
    chances = rng.beta(2, 2, (RUNS, rows)) * 0.9
    baseline = rng.binomial(4, chances) / 4
    candidate = rng.binomial(4, chances + 0.05) / 4
    covered = sum(holds(paired_difference(pl.Series(b), pl.Series(a)), 0.05) for a, b in zip(baseline, candidate, strict=True))
    assert LEAST <= covered / RUNS <= MOST


def test_pass_at_k_is_unbiased():
    """Over 10,000 runs of 20 rows the mean of the estimators is the truth, within four standard errors of the simulation."""
    rng = np.random.default_rng(7)
    for n, k in ((4, 2), (8, 4), (5, 3)):
        passes = rng.binomial(n, 0.3, (RUNS, 20))
        for rule, truth in ((row_pass_at_k, 1 - 0.7**k), (row_pass_hat_k, 0.3**k)):
            table = np.array([float(rule(n, c, k) or Fraction(0)) for c in range(n + 1)])
            means = table[passes].mean(axis=1)
            assert abs(means.mean() - truth) < 4 * means.std() / np.sqrt(RUNS)
