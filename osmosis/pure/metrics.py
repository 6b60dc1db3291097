"""The numbers of a run, from a frame of its `index.jsonl` rows (E29, D3, rulings 6 and 7; `eval_local.md` section 5).

For the runner and for notebooks alike. A frame has one row for each terminal result, in any order:

    row_index, run_index   integers: which work item
    status                 "success", "failed" or "skipped"
    reward                 float, optional: counts only on success, and only if it is finite
    tokens                 integer, optional
    max_context_tokens     integer, optional

Optional columns may be null, or missing altogether; further columns are ignored. Every number is computed so that its bytes
depend neither on the order of the rows nor on the number of threads: counts are integers, float sums are exact before their
one rounding (`math.fsum`), and pass@k is a ratio of integers until the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain
from math import comb, frexp, fsum, isfinite, ldexp, sqrt
from typing import Any

import msgspec
import polars as pl

from osmosis.pure.errors import OsmosisError, Problem
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
from osmosis.pure.tally import pass_rate, passed

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

INDEX_SCHEMA: dict[str, pl.DataType] = {
    "row_index": pl.Int64(),
    "run_index": pl.Int64(),
    "rollout_id": pl.String(),
    "trajectory_filename": pl.String(),
    "status": pl.String(),
    "reward": pl.Float64(),
    "tokens": pl.Int64(),
    "max_context_tokens": pl.Int64(),
    "duration_ms": pl.Float64(),
    "error_type": pl.String(),
    "resumed": pl.Boolean(),
}
"""Columns of an index frame, in the order of the keys of an `index.jsonl` line."""

_SUM_CHUNK = 1 << 20
_EXPONENT_LIMIT = 400
_PERCENT = 100


class RowOutcomes(msgspec.Struct, frozen=True, order=True):
    """How many dataset rows (`rows`) had `scored` scored runs, `passed` of which passed. A histogram is a sorted tuple."""

    scored: int
    passed: int
    rows: int


# ------------------------------------------------------------------------------------------------------------ frames


def index_frame(records: Iterable[Any]) -> pl.DataFrame:
    """A frame with the columns of `INDEX_SCHEMA` from index records: structs, or decoded `index.jsonl` lines.

    Keys that a record lacks become null; keys outside the schema are dropped.
    """
    rows = [msgspec.to_builtins(record) for record in records]
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in INDEX_SCHEMA}, schema=INDEX_SCHEMA, strict=True)


def graded_expression(status: str = "status", reward: str = "reward") -> pl.Expr:
    """Column form of `osmosis.pure.tally.is_graded`: never null."""
    return (pl.col(status) == Status.SUCCESS.value).fill_null(False) & pl.col(reward).is_finite().fill_null(False)


def passed_expression(pass_threshold: float, reward: str = "reward") -> pl.Expr:
    """Column form of `osmosis.pure.tally.passed`: never null. To be used on graded rows."""
    return (pl.col(reward).is_finite() & (pl.col(reward) >= pass_threshold)).fill_null(False)


def _is_reward(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Null


def _is_count(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype == pl.Null


def _is_index(dtype: pl.DataType) -> bool:
    return dtype.is_integer()


def _is_status(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


_REQUIRED: dict[str, tuple[Callable[[pl.DataType], bool], pl.DataType, str]] = {
    "row_index": (_is_index, pl.Int64(), "integers"),
    "run_index": (_is_index, pl.Int64(), "integers"),
    "status": (_is_status, pl.String(), "text"),
}
_OPTIONAL: dict[str, tuple[Callable[[pl.DataType], bool], pl.DataType, str]] = {
    "reward": (_is_reward, pl.Float64(), "numbers"),
    "tokens": (_is_count, pl.Int64(), "integers"),
    "max_context_tokens": (_is_count, pl.Int64(), "integers"),
}


def _normalise(frame: pl.DataFrame | pl.LazyFrame, pass_threshold: float) -> pl.DataFrame:
    """The columns that count, checked, with `scored`, `graded` and `passed` beside them.

    Raises OsmosisError with every missing or wrongly typed column, or with the statuses that are none of the three.
    """
    lazy = frame.lazy()
    schema = lazy.collect_schema()
    problems = [Problem(f"column {name}", "missing") for name in _REQUIRED if name not in schema]
    columns = []
    for name, (accepts, dtype, words) in (_REQUIRED | _OPTIONAL).items():
        if name not in schema:
            columns.append(pl.lit(None, dtype=dtype).alias(name))
        elif accepts(schema[name]):
            columns.append(pl.col(name).cast(dtype))
        else:
            problems.append(Problem(f"column {name}", f"holds {schema[name]}, not {words}"))
    if problems:
        raise _not_index_rows(problems)
    rows = (
        lazy.select(columns)
        .with_columns(
            # -0.0 and 0.0 are equal, so the order of rows would decide which of the two spellings is the smallest reward.
            reward=pl.when(pl.col("reward") == 0.0).then(pl.lit(0.0)).otherwise(pl.col("reward")),
            graded=graded_expression(),
            scored=pl.col("status") != Status.SKIPPED.value,
        )
        .with_columns(passed=pl.col("graded") & passed_expression(pass_threshold))
        .collect()
    )
    _check_values(rows)
    return rows


def _check_values(rows: pl.DataFrame) -> None:
    problems = [Problem(f"column {name}", "holds a null") for name in _REQUIRED if rows[name].null_count()]
    negative = [name for name in ("row_index", "run_index") if (rows[name] < 0).any()]
    problems += [Problem(f"column {name}", "holds a negative number") for name in negative]
    unknown = rows["status"].unique().drop_nulls().sort().to_list()
    problems += [Problem("column status", f"unknown status {name!r}") for name in unknown if name not in set(Status)]
    if problems:
        raise _not_index_rows(problems)


def _not_index_rows(problems: list[Problem]) -> OsmosisError:
    return OsmosisError(
        "The frame does not hold index rows.",
        problems=problems,
        hint="Pass the rows of an index.jsonl, one for each terminal result.",
    )


# ----------------------------------------------------------------------------------------------------------- summary


def summarize(frame: pl.DataFrame | pl.LazyFrame, pass_threshold: float) -> Summary:
    """All numbers of `metrics.json` for one run. A LazyFrame is collected once.

    Raises OsmosisError if the frame does not hold index rows.
    """
    rows = _normalise(frame, pass_threshold)
    scored, passes = int(rows["scored"].sum()), int(rows["passed"].sum())
    runs = int(rows["run_index"].max()) + 1 if len(rows) else 0  # type: ignore[arg-type]
    histogram = _histogram(rows)
    points = _powers_of_two(runs) if runs > 1 else ()
    return Summary(
        total_samples=len(rows),
        completed_samples=scored,
        graded=int(rows["graded"].sum()),
        passed=passes,
        failed=int((rows["status"] == Status.FAILED.value).sum()),
        skipped=len(rows) - scored,
        pass_rate=pass_rate(passes, scored),
        pass_threshold=float(pass_threshold),
        tokens_used=_exact_sum(rows["tokens"].drop_nulls()),
        reward_stats=_reward_statistics(rows.lazy().filter("graded").select("reward").collect()["reward"]),
        n_runs=runs if runs > 1 else None,
        pass_at_k=_curve(pass_at_k, histogram, points),
        pass_hat_k=_curve(pass_hat_k, histogram, points),
        context_stats=_context_statistics(rows["max_context_tokens"].drop_nulls()),
    )


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
    mean = min(max(fsum(_floats(scaled)) / len(scaled), scaled[0]), scaled[-1])
    deviations = scaled - mean
    variance = fsum(_floats(deviations * deviations)) / len(scaled)
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
        mean=_exact_sum(ordered) / len(ordered),
        p50=_percentile(ordered, 50),
        p95=_percentile(ordered, 95),
    )


def _percentile(ordered: pl.Series, percent: int) -> float:
    """Linear interpolation between ranks (Hyndman and Fan 1996, definition 7), in integers up to the one division."""
    rank, part = divmod((len(ordered) - 1) * percent, _PERCENT)
    low, high = int(ordered[rank]), int(ordered[min(rank + 1, len(ordered) - 1)])
    return (low * (_PERCENT - part) + high * part) / _PERCENT


def _floats(series: pl.Series) -> Iterator[float]:
    """The values as Python floats, a bounded number of them in memory at a time."""
    return chain.from_iterable(series.slice(start, _SUM_CHUNK).to_list() for start in range(0, len(series), _SUM_CHUNK))


def _exact_sum(integers: pl.Series) -> int:
    """The sum of a 64-bit integer column, which may itself need more than 64 bits."""
    if integers.is_empty():
        return 0
    high, low = integers // (1 << 32), integers % (1 << 32)
    return (int(high.sum()) << 32) + int(low.sum())


# ----------------------------------------------------------------------------------------------------- pass@k, pass^k


def outcome_histogram(frame: pl.DataFrame | pl.LazyFrame, pass_threshold: float) -> tuple[RowOutcomes, ...]:
    """The histogram of (scored runs, passes) over dataset rows. Rows with no scored run take no part (ruling 6)."""
    return _histogram(_normalise(frame, pass_threshold))


def _histogram(rows: pl.DataFrame) -> tuple[RowOutcomes, ...]:
    counts = (
        rows.lazy()
        .filter("scored")
        .group_by("row_index")
        .agg(scored=pl.len(), passed=pl.col("passed").sum())
        .group_by("scored", "passed")
        .agg(rows=pl.len())
        .sort("scored", "passed")
        .collect()
    )
    return tuple(RowOutcomes(*counts_of_pair) for counts_of_pair in counts.iter_rows())


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


def _powers_of_two(limit: int) -> tuple[int, ...]:
    return tuple(1 << power for power in range(limit.bit_length()))


def _curve(
    mean_at: Callable[[Iterable[RowOutcomes], int], float | None], histogram: tuple[RowOutcomes, ...], ks: tuple[int, ...]
) -> tuple[PassPoint, ...] | None:
    """The defined points at `ks`; None with fewer than two, since one point is no curve."""
    points = tuple(PassPoint(k, value) for k in ks if (value := mean_at(histogram, k)) is not None)
    return points if len(points) > 1 else None
