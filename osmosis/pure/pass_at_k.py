"""pass@k and pass^k: the chance that of k runs of a row at least one passes, or all do (E29, ruling 6).

Both come from the histogram of (scored runs, passes) over dataset rows, as exact ratios of integers that are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import comb

import msgspec


class RowOutcomes(msgspec.Struct, frozen=True, order=True):
    """How many dataset rows (`rows`) had `scored` scored runs, `passed` of which passed. A histogram is a sorted tuple."""

    scored: int
    passed: int
    rows: int


def row_pass_at_k(scored: int, passes: int, k: int) -> Fraction | None:
    """The chance that k of a row's `scored` runs, drawn without replacement, hold a pass: 1 - C(n-c, k) / C(n, k).

    Unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"). None for fewer than k runs.
    """
    return 1 - Fraction(comb(scored - passes, k), comb(scored, k)) if 0 < k <= scored else None


def row_pass_hat_k(scored: int, passes: int, k: int) -> Fraction | None:
    """The chance that k of a row's `scored` runs, drawn without replacement, all pass: C(c, k) / C(n, k).

    Unbiased (Yao et al. 2024, "tau-bench"). None for fewer than k runs.
    """
    return Fraction(comb(passes, k), comb(scored, k)) if 0 < k <= scored else None


def pass_at_k(histogram: Iterable[RowOutcomes], k: int) -> float | None:
    """The mean of `row_pass_at_k` over all rows, correctly rounded. None if any row is undefined at k, or there is none."""
    return _mean_over_rows(row_pass_at_k, histogram, k)


def pass_hat_k(histogram: Iterable[RowOutcomes], k: int) -> float | None:
    """The mean of `row_pass_hat_k` over all rows, correctly rounded. None if any row is undefined at k, or there is none."""
    return _mean_over_rows(row_pass_hat_k, histogram, k)


def _mean_over_rows(
    value_of_row: Callable[[int, int, int], Fraction | None], histogram: Iterable[RowOutcomes], k: int
) -> float | None:
    total, rows = Fraction(0), 0
    for outcomes in histogram:
        value = value_of_row(outcomes.scored, outcomes.passed, k)
        if value is None:
            return None
        total += value * outcomes.rows
        rows += outcomes.rows
    return float(total / rows) if rows else None


def powers_of_two(limit: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to `limit`: the k at which the curves are given."""
    return tuple(1 << power for power in range(limit.bit_length()))
