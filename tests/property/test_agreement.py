"""Promises of agreement and calibration (issue 7)."""

from __future__ import annotations

import itertools
import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.agreement import agreement, calibration, krippendorff_alpha, pearson, ranks, spread

values = st.floats(-100, 100).map(lambda value: round(value, 3))
units = st.lists(st.lists(values, max_size=5), max_size=8)

# K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four observers, twelve units, gaps.
PUBLISHED = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)


def test_the_published_example():
    """The interval alpha of the paper's own data is the paper's 0.849."""
    columns = zip(*(line.split() for line in PUBLISHED), strict=True)
    alpha = krippendorff_alpha([[float(value) for value in column if value != "."] for column in columns])
    assert alpha == pytest.approx(0.849, abs=0.0005)


def alpha_by_pairs(given_units):
    """Alpha straight from its definition, over all ordered pairs, in exact arithmetic."""
    exact = [[Fraction(value) for value in unit] for unit in given_units if len(unit) > 1]
    every = [value for unit in exact for value in unit]
    if len(exact) < 2 or len(set(every)) == 1:
        return None
    total = len(every)
    observed = sum(
        sum((one - other) ** 2 for one, other in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in exact
    ) / Fraction(total)
    expected = sum((one - other) ** 2 for one, other in itertools.permutations(every, 2)) / Fraction(total * (total - 1))
    return 1 - observed / expected


@given(units)
def test_alpha_is_its_definition(given_units):
    """The short formula and the definition agree."""
    expected = alpha_by_pairs(given_units)
    alpha = krippendorff_alpha(given_units)
    assert (alpha is None) == (expected is None)
    if expected is not None:
        assert alpha == pytest.approx(float(expected), abs=1e-9)


@given(units, st.floats(0.1, 10), st.floats(-10, 10), st.randoms(use_true_random=False))
def test_alpha_does_not_depend_on_order_scale_or_origin(given_units, scale, shift, random):
    """Interval data: a linear change of all values, or another order of units and values, changes nothing."""
    alpha = krippendorff_alpha(given_units)
    moved = [[value * scale + shift for value in unit] for unit in given_units]
    for unit in moved:
        random.shuffle(unit)
    random.shuffle(moved)
    other = krippendorff_alpha(moved)
    if alpha is not None and other is not None:
        assert other == pytest.approx(alpha, abs=1e-6)
        assert alpha <= 1


def test_the_ends_of_alpha():
    """1 when units agree in themselves and differ from each other; undefined when nothing varies or compares."""
    assert krippendorff_alpha([[1, 1], [2, 2, 2]]) == 1
    assert krippendorff_alpha([[1, 1], [1, 1]]) is None
    assert krippendorff_alpha([[1, 2]]) is None
    assert krippendorff_alpha([[1], [2]]) is None
    assert krippendorff_alpha([]) is None
    assert krippendorff_alpha([[0, 1], [1, 0]]) == pytest.approx(-0.5)


@given(st.lists(values, min_size=1, max_size=30))
def test_spread_is_population_statistics(scores):
    """Mean, variance and extremes are those of the standard library, and the mean lies between the extremes."""
    found = spread(scores)
    assert found.average == pytest.approx(statistics.fmean(scores), abs=1e-9)
    assert found.variance == pytest.approx(statistics.pvariance(scores), abs=1e-6)
    assert found.stdev == math.sqrt(found.variance)
    assert found.min <= found.average <= found.max


def test_nothing_has_zeros_and_no_agreement():
    """The contract's zeros without scores; what is undefined is None."""
    assert spread([]) == spread(())
    assert spread([]).average == 0.0
    found = agreement([[0.5], []])
    assert (found.compared, found.krippendorff_alpha, found.mean_stdev, found.max_stdev, found.max_range) == (0,) + (None,) * 4


@given(st.lists(st.tuples(values, values), min_size=1, max_size=20))
def test_calibration_against_people(pairs):
    """Bias and errors are the plain means; correlations lie within their bounds or are undefined."""
    found = calibration(pairs)
    assert found is not None
    assert found.labelled == len(pairs)
    assert found.bias == pytest.approx(statistics.fmean(judge - human for judge, human in pairs), abs=1e-9)
    assert abs(found.bias) <= found.mean_absolute_error + 1e-9
    assert found.mean_absolute_error <= found.root_mean_square_error + 1e-9
    for correlation in (found.pearson, found.spearman):
        assert correlation is None or -1 <= correlation <= 1


def test_a_perfect_judge_and_a_lenient_one():
    """Equal scores are perfectly calibrated; a constant surplus is bias, and correlates perfectly."""
    people = [0.1, 0.4, 0.9]
    perfect = calibration([(score, score) for score in people])
    assert perfect is not None
    assert (perfect.bias, perfect.root_mean_square_error, perfect.krippendorff_alpha) == (0, 0, 1)
    lenient = calibration([(score + 0.25, score) for score in people])
    assert lenient is not None
    assert lenient.bias == pytest.approx(0.25)
    assert lenient.pearson == pytest.approx(1)
    assert lenient.spearman == pytest.approx(1)
    assert calibration([]) is None


@given(st.lists(st.integers(0, 5).map(float), max_size=12))
def test_ranks_share_their_mean_and_keep_the_sum(scores):
    """Equal values have equal ranks, greater values greater ones, and the ranks add up."""
    found = ranks(scores)
    assert sum(found) == len(scores) * (len(scores) + 1) / 2
    for (one, first), (other, second) in itertools.combinations(zip(scores, found, strict=True), 2):
        assert (one < other) == (first < second)
        assert (one == other) == (first == second)


def test_a_constant_side_has_no_correlation():
    """It is undefined, not zero."""
    assert pearson([1, 1], [1, 2]) is None
