"""How far repeated judgements agree with each other, and with people (E41, issue 7).

Krippendorff's alpha for interval data: 1 - D_o / D_e, where D_o is the mean squared difference of values within a unit and D_e
that of all values, whoever gave them to whichever unit (K. Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011).
1 is perfect agreement, 0 what chance gives, below 0 is systematic disagreement. Missing values are allowed: a unit with m
values weighs m, and a unit with fewer than two says nothing.

Every number that is not defined is None: alpha where fewer than two units can be compared or all values are equal, a
correlation where one side does not vary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """Population statistics of some scores; all 0.0 without any (contract `cli.md` section 8)."""

    average: float = 0.0
    variance: float = 0.0
    stdev: float = 0.0
    min: float = 0.0
    max: float = 0.0


class Agreement(msgspec.Struct, frozen=True):
    """Agreement of repeated judgements. `compared` records have two scores or more.

    `mean_stdev` and `max_stdev` are over the compared records' own standard deviations, `max_range` is the largest distance of
    two scores of one record.
    """

    compared: int
    krippendorff_alpha: float | None
    mean_stdev: float | None
    max_stdev: float | None
    max_range: float | None


class Calibration(msgspec.Struct, frozen=True):
    """A judge against human labels. `bias` is judge minus human; a positive one is a lenient judge.

    `alpha` treats the judge's mean and the human label as two observers of the record.
    """

    labelled: int
    bias: float
    mean_absolute_error: float
    root_mean_square_error: float
    pearson: float | None
    spearman: float | None
    krippendorff_alpha: float | None


def spread(scores: Sequence[float]) -> Spread:
    """Mean, population variance and its root, extremes."""
    if not scores:
        return Spread()
    variance = _squares(scores) / len(scores)
    return Spread(_mean(scores), variance, math.sqrt(variance), min(scores), max(scores))


def agreement(records: Iterable[Sequence[float]]) -> Agreement:
    """Agreement over the scores of each record, in any order."""
    compared = [scores for scores in records if len(scores) > 1]
    deviations = [spread(scores).stdev for scores in compared]
    return Agreement(
        compared=len(compared),
        krippendorff_alpha=krippendorff_alpha(compared),
        mean_stdev=_mean(deviations) if compared else None,
        max_stdev=max(deviations, default=None),
        max_range=max((max(scores) - min(scores) for scores in compared), default=None),
    )


def calibration(pairs: Iterable[tuple[float, float]]) -> Calibration | None:
    """The judge against people, over (judge's mean, human label) of each labelled record. None without any."""
    both = list(pairs)
    if not both:
        return None
    judge = [pair[0] for pair in both]
    human = [pair[1] for pair in both]
    errors = [one - other for one, other in both]
    return Calibration(
        labelled=len(both),
        bias=_mean(errors),
        mean_absolute_error=_mean([abs(error) for error in errors]),
        root_mean_square_error=math.sqrt(_mean([error * error for error in errors])),
        pearson=pearson(judge, human),
        spearman=pearson(ranks(judge), ranks(human)),
        krippendorff_alpha=krippendorff_alpha(both),
    )


def krippendorff_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Alpha for interval data. Each unit is the values that it got; units with fewer than two are left out."""
    pairable = [values for values in units if len(values) > 1]
    values = [value for unit in pairable for value in unit]
    if len(pairable) < 2 or min(values) == max(values):
        return None
    # The sum of squared differences over all ordered pairs of m values is 2 m times the squared distance from their mean.
    observed = math.fsum(2 * len(unit) * _squares(unit) / (len(unit) - 1) for unit in pairable) / len(values)
    expected = 2 * _squares(values) / (len(values) - 1)
    return 1 - observed / expected if expected > 0 else None


def pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The correlation of two equally long sequences, None where one of them does not vary."""
    one, other = _centred(first), _centred(second)
    scale = math.sqrt(math.fsum(value * value for value in one)) * math.sqrt(math.fsum(value * value for value in other))
    if scale == 0:
        return None
    return max(-1.0, min(1.0, math.fsum(left * right for left, right in zip(one, other, strict=True)) / scale))


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for position in order[begin : end + 1]:
            result[position] = (begin + end) / 2 + 1
        begin = end + 1
    return result


def _mean(values: Sequence[float]) -> float:
    # A mean lies between the extremes; rounding must not carry it out of them.
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def _centred(values: Sequence[float]) -> list[float]:
    mean = _mean(values)
    return [value - mean for value in values]


def _squares(values: Sequence[float]) -> float:
    return math.fsum(value * value for value in _centred(values))
