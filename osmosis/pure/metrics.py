"""The numbers of a run, from a frame of its `index.jsonl` rows (E29, D3, rulings 6 and 7; `eval_local.md` section 5).

For the runner and for notebooks alike. `osmosis.pure.index_frame` says what a frame of index rows is. Every number is computed
so that its bytes depend neither on the order of the rows nor on the number of threads: counts are integers, float sums are
exact before their one rounding (`math.fsum`), and pass@k is a ratio of integers until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import frexp, isfinite, ldexp, sqrt

import polars as pl

from osmosis.pure.exact_sums import float_sum, integer_sum
from osmosis.pure.index_frame import (
    INDEX_SCHEMA,
    SUMMARY_COLUMNS,
    graded_expression,
    index_frame,
    normalised,
    passed_expression,
)
from osmosis.pure.journal import Status
from osmosis.pure.metrics_file import (
    ContextStatistics,
    EvalRunInfo,
    EvalRunStatus,
    Metrics,
    PassPoint,
    RewardStatistics,
    Summary,
    decode_metrics,
    encode_metrics,
    summary_object,
)
from osmosis.pure.pass_at_k import (
    RowOutcomes,
    pass_at_k,
    pass_hat_k,
    powers_of_two,
    row_pass_at_k,
    row_pass_hat_k,
)
from osmosis.pure.row_table import outcome_histogram, row_table
from osmosis.pure.tally import pass_rate, passed
from osmosis.pure.uncertainty import errors_by_type, measure_uncertainty, sample_counts

__all__ = [
    "INDEX_SCHEMA",
    "ContextStatistics",
    "EvalRunInfo",
    "EvalRunStatus",
    "Metrics",
    "PassPoint",
    "RewardStatistics",
    "RowOutcomes",
    "Summary",
    "decode_metrics",
    "encode_metrics",
    "graded_expression",
    "index_frame",
    "outcome_histogram",
    "pass_at_k",
    "pass_hat_k",
    "passed",
    "passed_expression",
    "row_pass_at_k",
    "row_pass_hat_k",
    "summarize",
    "summary_object",
]

_EXPONENT_LIMIT = 400
_PERCENT = 100


def summarize(
    frame: pl.DataFrame | pl.LazyFrame,
    pass_threshold: float,
    *,
    seed: str | None = None,
    planned: int | None = None,
    cluster: str | None = None,
) -> Summary:
    """All numbers of `metrics.json` for one run. A LazyFrame is collected once.

    With a `seed` (`osmosis.pure.uncertainty.bootstrap_seed`) also the counts, the errors and every interval; without one there
    is no chance and no interval. `planned` samples were planned. `cluster` names a column of dependent rows: standard errors of
    the pass rate and the mean reward are then clustered by it. Raises OsmosisError if the frame does not hold index rows.
    """
    further = () if seed is None else ("error_type",)
    samples = normalised(frame, pass_threshold, optional=(*SUMMARY_COLUMNS, *further), cluster=cluster)
    scored, passes = int(samples["scored"].sum()), int(samples["passed"].sum())
    runs = int(samples["run_index"].max()) + 1 if len(samples) else 0  # type: ignore[arg-type]
    table = row_table(samples)
    histogram = table.histogram()
    points = powers_of_two(runs) if runs > 1 else ()
    return Summary(
        total_samples=len(samples),
        completed_samples=scored,
        graded=int(samples["graded"].sum()),
        passed=passes,
        failed=int((samples["status"] == Status.FAILED.value).sum()),
        skipped=len(samples) - scored,
        pass_rate=pass_rate(passes, scored),
        pass_threshold=float(pass_threshold),
        tokens_used=integer_sum(samples["tokens"].drop_nulls()),
        reward_stats=_reward_statistics(samples.lazy().filter("graded").select("reward").collect()["reward"]),
        n_runs=runs if runs > 1 else None,
        pass_at_k=_curve(pass_at_k, histogram, points),
        pass_hat_k=_curve(pass_hat_k, histogram, points),
        context_stats=_context_statistics(samples["max_context_tokens"].drop_nulls()),
        cost_usd=_total_cost(samples),
        counts=None if seed is None else sample_counts(samples, planned),
        errors=None if seed is None else errors_by_type(samples),
        uncertainty=None if seed is None else measure_uncertainty(samples, table, seed),
    )


def _total_cost(samples: pl.DataFrame) -> float | None:
    """US dollars of the run; None when nothing has a price, or something that used tokens has none."""
    unknown = (samples["tokens"].is_not_null() & samples["cost_usd"].is_null()).any()
    known = samples["cost_usd"].drop_nulls()
    return None if known.is_empty() or unknown else round(float_sum(known), 9)


def _reward_statistics(rewards: pl.Series) -> RewardStatistics | None:
    if rewards.is_empty():
        return None
    ordered = rewards.sort()
    least, greatest = float(ordered[0]), float(ordered[-1])
    # Far from 1, sums or squares would leave the range of a double; scaling by a power of two is exact.
    exponent = frexp(max(abs(least), abs(greatest)))[1]
    shift = 0 if abs(exponent) <= _EXPONENT_LIMIT else max(exponent, -1000)
    scaled = ordered * ldexp(1.0, -shift) if shift else ordered
    # Rounding may carry the mean of equal numbers past them; a mean lies between its extremes.
    mean = min(max(float_sum(scaled) / len(scaled), scaled[0]), scaled[-1])
    deviations = scaled - mean
    variance = float_sum(deviations * deviations) / len(scaled)
    return RewardStatistics(
        mean=ldexp(mean, shift),
        median=_midpoint(float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])),
        std=ldexp(sqrt(variance), shift),
        min=least,
        max=greatest,
    )


def _midpoint(low: float, high: float) -> float:
    total = low + high
    return total / 2 if isfinite(total) else low / 2 + high / 2


def _context_statistics(contexts: pl.Series) -> ContextStatistics | None:
    if contexts.is_empty():
        return None
    ordered = contexts.sort()
    return ContextStatistics(
        max=int(ordered[-1]),
        mean=integer_sum(ordered) / len(ordered),
        p50=_percentile(ordered, 50),
        p95=_percentile(ordered, 95),
    )


def _percentile(ordered: pl.Series, percent: int) -> float:
    """Linear interpolation between ranks (Hyndman and Fan 1996, definition 7), in integers up to the one division."""
    rank, part = divmod((len(ordered) - 1) * percent, _PERCENT)
    low, high = int(ordered[rank]), int(ordered[min(rank + 1, len(ordered) - 1)])
    return (low * (_PERCENT - part) + high * part) / _PERCENT


def _curve(
    mean_at: Callable[[Iterable[RowOutcomes], int], float | None], histogram: tuple[RowOutcomes, ...], ks: tuple[int, ...]
) -> tuple[PassPoint, ...] | None:
    """The defined points at `ks`; None with fewer than two, since one point is no curve."""
    points = tuple(PassPoint(k, value) for k in ks if (value := mean_at(histogram, k)) is not None)
    return points if len(points) > 1 else None
