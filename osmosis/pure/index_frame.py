"""Index rows as a polars frame: its columns, its checks, and the rules that decide for whole columns (E29, D3, ruling 7).

A frame has one row for each terminal result, in any order:

    row_index, run_index   integers: which work item
    status                 "success", "failed" or "skipped"
    reward                 float, optional: counts only on success, and only if it is finite
    tokens                 integer, optional
    max_context_tokens     integer, optional
    cost_usd               number, US dollars, optional
    duration_ms            float, optional
    error_type             text, optional: on failures

Optional columns may be null, or missing altogether; further columns are ignored unless they are asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.index import IndexRow
from osmosis.pure.journal import Status

_ROWS_TOGETHER = 1 << 12

INDEX_SCHEMA: dict[str, pl.DataType] = {
    "row_index": pl.Int64(),
    "run_index": pl.Int64(),
    "rollout_id": pl.String(),
    "trajectory_filename": pl.String(),
    "status": pl.String(),
    "reward": pl.Float64(),
    "tokens": pl.Int64(),
    "max_context_tokens": pl.Int64(),
    "cost_usd": pl.Float64(),
    "duration_ms": pl.Float64(),
    "error_type": pl.String(),
    "resumed": pl.Boolean(),
}
"""Columns of an index frame, in the order of the keys of an `index.jsonl` line."""


def index_frame(records: Iterable[Any], names: Iterable[str] = INDEX_SCHEMA) -> pl.DataFrame:
    """A frame from index records: structs, or decoded `index.jsonl` lines. `names` are the columns of `INDEX_SCHEMA` to take.

    Keys that a record lacks become null; keys outside the schema are dropped. Of an iterator only some records are in memory
    at a time.
    """
    schema = {name: INDEX_SCHEMA[name] for name in names}
    left = iter(records)
    parts = [pl.DataFrame(schema=schema)]
    while rows := list(islice(left, _ROWS_TOGETHER)):
        parts.append(pl.DataFrame(_columns(rows, schema), schema=schema, strict=True))
    return pl.concat(parts)


def _columns(rows: list[Any], names: Iterable[str]) -> dict[str, list[Any]]:
    if any(type(row) is not IndexRow for row in rows):
        objects = [msgspec.to_builtins(row) for row in rows]
        return {name: [row.get(name) for row in objects] for name in names}
    columns = {name: list(map(attrgetter(name), rows)) for name in names}
    if "status" in columns:
        columns["status"] = [status.value for status in columns["status"]]
    return columns


def graded_expression(status: str = "status", reward: str = "reward") -> pl.Expr:
    """Column form of `osmosis.pure.tally.is_graded`: never null."""
    return (pl.col(status) == Status.SUCCESS.value).fill_null(False) & pl.col(reward).is_finite().fill_null(False)


def passed_expression(pass_threshold: float, reward: str = "reward") -> pl.Expr:
    """Column form of `osmosis.pure.tally.passed`: never null. To be used on graded rows."""
    return (pl.col(reward).is_finite() & (pl.col(reward) >= pass_threshold)).fill_null(False)


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Null


def _is_count(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or dtype == pl.Null


def _is_index(dtype: pl.DataType) -> bool:
    return dtype.is_integer()


def _is_status(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _is_text(dtype: pl.DataType) -> bool:
    return _is_status(dtype) or dtype == pl.Null


_REQUIRED: dict[str, tuple[Callable[[pl.DataType], bool], pl.DataType, str]] = {
    "row_index": (_is_index, pl.Int64(), "integers"),
    "run_index": (_is_index, pl.Int64(), "integers"),
    "status": (_is_status, pl.String(), "text"),
}
_OPTIONAL: dict[str, tuple[Callable[[pl.DataType], bool], pl.DataType, str]] = {
    "reward": (_is_number, pl.Float64(), "numbers"),
    "tokens": (_is_count, pl.Int64(), "integers"),
    "max_context_tokens": (_is_count, pl.Int64(), "integers"),
    "duration_ms": (_is_number, pl.Float64(), "numbers"),
    "cost_usd": (_is_number, pl.Float64(), "numbers"),
    "cost": (_is_number, pl.Float64(), "numbers"),
    "error_type": (_is_text, pl.String(), "text"),
}
SUMMARY_COLUMNS = ("reward", "tokens", "max_context_tokens", "cost_usd")
"""Optional columns that the contract's numbers need."""
SUMMARIZED = (*_REQUIRED, *SUMMARY_COLUMNS, "error_type")
"""The columns of a frame from which all numbers of `metrics.json` follow."""


def normalised(
    frame: pl.DataFrame | pl.LazyFrame,
    pass_threshold: float,
    *,
    optional: Iterable[str] = SUMMARY_COLUMNS,
    cluster: str | None = None,
) -> pl.DataFrame:
    """The required columns and the named optional ones, checked, with `scored`, `graded` and `passed` beside them.

    `cluster` names a further column, which comes out as `cluster`. Raises OsmosisError with every missing or wrongly typed
    column, or with the values that no index holds.
    """
    lazy = frame.lazy()
    schema = lazy.collect_schema()
    wanted = _REQUIRED | {name: _OPTIONAL[name] for name in dict.fromkeys(("reward", *optional))}
    required = [*_REQUIRED, *([] if cluster is None else [cluster])]
    problems = [Problem(f"column {name}", "missing") for name in required if name not in schema]
    columns = [] if cluster is None else [pl.col(cluster).alias("cluster")]
    for name, (accepts, dtype, words) in wanted.items():
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
    if "cluster" in rows.columns and (unnamed := rows["cluster"].null_count()):
        problems.append(Problem("the cluster column", f"is null in {unnamed} rows"))
    problems += [Problem("column status", f"unknown status {name!r}") for name in unknown if name not in set(Status)]
    if problems:
        raise _not_index_rows(problems)


def _not_index_rows(problems: list[Problem]) -> OsmosisError:
    return OsmosisError(
        "The frame does not hold index rows.",
        problems=problems,
        hint="Pass the rows of an index.jsonl, one for each terminal result.",
    )
