r"""A run as one flat table, a line a sample, for whoever analyses it elsewhere; and its CSV and JSON lines (issue 8).

A sample's metrics and its row's metadata are objects in JSON lines. CSV and Parquet have them as JSON text, and a column of
numbers for each metric, of those that most samples have; where a sample has no number, that is empty, never zero.

Hostile text stays text, wherever it is shown, and every value can be had back:

- JSON lines escape what could steer a terminal (DEL and the C1 controls) or end a line for some reader (U+2028, U+2029); JSON
  readers see no difference. Parquet holds every value as it is.
- CSV has no escapes, so we have two. A control character other than tab and a line's end (`\n`, `\r\n`) is written `\x1b`, with
  two lowercase hexadecimal digits; a backslash that would begin such an escape by itself is written `\x5c`. Then, text that a
  spreadsheet would take for a formula gets an apostrophe before it (OWASP, "CSV injection"), and so does text that begins with
  apostrophes before such a beginning. Numbers are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from osmosis.pure.canonical import spaced_json, well_formed
from osmosis.pure.error_origin import error_origin
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.sample_details import NO_DETAILS, SampleDetails, as_number, json_text, metric_means, most_common
from osmosis.pure.stored_run import StoredRun, samples_frame

COLUMNS = (
    "row_index",
    "source_row_index",
    "run_index",
    "rollout_id",
    "status",
    "graded",
    "passed",
    "reward",
    "tokens",
    "prompt_tokens",
    "completion_tokens",
    "max_context_tokens",
    "cost_usd",
    "duration_ms",
    "error_type",
    "error_origin",
    "error_message",
    "resumed",
    "prompt",
    "label",
)
"""The columns of a sample, in order."""
DETAIL_COLUMNS = ("metrics", "metadata")
"""The columns behind them: JSON text, null where nothing was stored."""
METRIC_COLUMN = "metric."
"""Begins the name of a metric's own column. Those come last, sorted by name."""
MOST_METRIC_COLUMNS = 100

_NEEDS_QUOTES = re.compile('[",\r\n]|^ | $')
_FORMULA = re.compile("'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_STEERS_IN_CSV = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)|\\(?=x[0-9a-f]{2})")
_STEERS_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029]")


def sample_table(run: StoredRun) -> pl.DataFrame:
    """The samples of `run` that have a terminal result, sorted by row and run, with the columns `COLUMNS`.

    `prompt` and `label` are those of `dataset_rows.jsonl`, cut as there; null where the run has no such file.
    """
    texts = run.dataset_rows or ()
    schema = {"row_index": pl.Int64, "prompt": pl.String, "label": pl.String}
    # A polars string is UTF-8, which has no lone surrogates.
    lines = [(row.row_index, well_formed(row.prompt), well_formed(row.label) if row.label else row.label) for row in texts]
    rows = pl.DataFrame(lines, schema=schema, orient="row")
    samples = samples_frame(run)
    origins = [
        error_origin(error_type).value if status == Status.FAILED else None
        for status, error_type in samples.select("status", "error_type").iter_rows()
    ]
    with_origins = samples.with_columns(pl.Series("error_origin", origins, dtype=pl.String))
    return with_origins.join(rows, on="row_index", how="left", maintain_order="left").select(COLUMNS)


def detailed_table(run: StoredRun, details: Mapping[WorkItem, SampleDetails]) -> pl.DataFrame:
    """`sample_table` with the columns of `with_details`."""
    return with_details(sample_table(run), details)


def with_details(table: pl.DataFrame, details: Mapping[WorkItem, SampleDetails]) -> pl.DataFrame:
    """`table`, a line a sample, with `DETAIL_COLUMNS` and a column `metric.NAME` of floats for each metric that is a number
    somewhere, at most `MOST_METRIC_COLUMNS` of them. What a sample has not is null."""
    ours = _in_order(table, details)
    further = [
        pl.Series("metrics", [json_text(one.metrics) if one.metrics else None for one in ours], dtype=pl.String),
        pl.Series("metadata", [json_text(one.metadata) if one.metadata else None for one in ours], dtype=pl.String),
    ]
    for mean in most_common(metric_means(ours), MOST_METRIC_COLUMNS):
        numbers = [as_number((one.metrics or {}).get(mean.name)) for one in ours]
        further.append(pl.Series(METRIC_COLUMN + mean.name, numbers, dtype=pl.Float64))
    return table.with_columns(further)


def _in_order(table: pl.DataFrame, details: Mapping[WorkItem, SampleDetails]) -> list[SampleDetails]:
    items = table.select("row_index", "run_index").iter_rows()
    return [details.get(WorkItem(*item), NO_DETAILS) for item in items]


def encode_csv(table: pl.DataFrame) -> bytes:
    r"""`table` as CSV (RFC 4180, but with `\n`): a header, booleans as `true` and `false`, null as an empty cell."""
    lines = [list(map(_csv_text, table.columns)), *([_csv_cell(value) for value in row] for row in table.iter_rows())]
    return well_formed("".join(",".join(line) + "\n" for line in lines)).encode()


def _csv_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return _csv_text(value)
        case _:
            return repr(value)


def _csv_text(text: str) -> str:
    plain = _STEERS_IN_CSV.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    if _FORMULA.match(plain):
        plain = f"'{plain}"
    # The csv module leaves a lone carriage return unquoted, and its own reader then sees two lines.
    return f'"{plain.replace(chr(34), chr(34) * 2)}"' if _NEEDS_QUOTES.search(plain) else plain


def encode_jsonl(table: pl.DataFrame, details: Mapping[WorkItem, SampleDetails]) -> Iterator[bytes]:
    """A `sample_table` as JSON lines: every key in every line, null for what is missing. Metrics and metadata as objects."""
    for row, one in zip(table.iter_rows(named=True), _in_order(table, details), strict=True):
        line = spaced_json({**row, "metrics": one.metrics, "metadata": one.metadata}).decode()
        # In JSON these characters can only stand inside of strings, where an escape means the same.
        yield _STEERS_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", line).encode() + b"\n"
