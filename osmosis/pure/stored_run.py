"""A run as it lies on disk, finished or not, turned into samples that can be compared and exported (issue 8).

A sample is an index row plus what the index leaves out: the row of the dataset file it came from, its error message, and how
its tokens split into prompt and completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

from osmosis.pure.canonical import well_formed
from osmosis.pure.dataset import Row
from osmosis.pure.dataset_rows import DatasetRow
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.index import IndexRow
from osmosis.pure.index_frame import index_frame, passed_expression
from osmosis.pure.journal import Result, WorkItem
from osmosis.pure.plan import Manifest
from osmosis.pure.price import Price
from osmosis.pure.usage import believed

_TOKENS_PER_UNIT = 1_000_000


class StoredRun(msgspec.Struct, frozen=True):
    """One run. `source_rows[row_index]` is the row of the dataset file; `results` is empty where there is no journal.

    `name` is that of its directory, by which it is found; the manifest has the one under which it was made (decision 0054).
    `location` is the path that people are shown. `planned` is the number of work items of the whole run.
    """

    name: str
    location: str
    manifest: Manifest
    planned: int
    source_rows: tuple[int, ...]
    index: tuple[IndexRow, ...]
    results: Mapping[WorkItem, Result]
    dataset_rows: tuple[DatasetRow, ...] | None

    @property
    def model(self) -> str:
        """The model that it evaluated."""
        return str(self.manifest.inputs.get("model_path", ""))

    @property
    def pass_threshold(self) -> float:
        """From which reward on a sample passes."""
        return float(self.manifest.inputs.get("pass_threshold", 1.0))

    @property
    def pending(self) -> int:
        """Work items without a terminal result."""
        return self.planned - len(self.index)

    @property
    def replayed(self) -> bool:
        """Whether its model calls were answered from a cassette, so that nothing in it was left to chance."""
        return self.manifest.inputs.get("cassette") is not None

    @property
    def regraded(self) -> bool:
        """Whether its samples are another run's, graded anew: its times are then those of its grader alone."""
        return self.manifest.inputs.get("regraded_from") is not None

    @property
    def samples_of(self) -> str:
        """The id of the run that made its samples: its own, or that of the run that it grades anew."""
        return str(self.manifest.inputs.get("regraded_from") or self.manifest.local_run_id)


_FURTHER: dict[str, pl.DataType] = {
    "source_row_index": pl.Int64(),
    "error_message": pl.String(),
    "prompt_tokens": pl.Int64(),
    "completion_tokens": pl.Int64(),
}


def samples_frame(run: StoredRun, price: Price | None = None) -> pl.DataFrame:
    """One line a sample, sorted by row and run: the columns of an index frame, `source_row_index`, `error_message`,
    `prompt_tokens`, `completion_tokens` (both null where the bridge saw no usage), `graded`, `passed`, and `cost` in US
    dollars: by `price`, else as the run recorded it; null where neither says."""
    frame = index_frame(run.index)
    further = [_further(run, row) for row in run.index]
    columns = {name: [line[name] for line in further] for name in _FURTHER}
    frame = frame.with_columns(pl.DataFrame(columns, schema=_FURTHER, strict=True))
    graded = (pl.col("status") == "success") & pl.col("reward").is_not_null()
    cost = pl.col("cost_usd")
    if price is not None:
        cost = (pl.col("prompt_tokens") * price.prompt + pl.col("completion_tokens") * price.completion) / _TOKENS_PER_UNIT
    return frame.with_columns(graded=graded, passed=graded & passed_expression(run.pass_threshold), cost=cost).sort(
        "row_index", "run_index"
    )


def _further(run: StoredRun, row: IndexRow) -> dict[str, Any]:
    result = run.results.get(WorkItem(row.row_index, row.run_index))
    if result is not None and result.rollout_id != row.rollout_id:
        result = None
    calls = result.calls if result else None
    message = result.error_message if result else None
    return {
        "source_row_index": run.source_rows[row.row_index] if row.row_index < len(run.source_rows) else None,
        "error_message": None if message is None else well_formed(message),
        "prompt_tokens": None if calls is None else believed(call.prompt_tokens for call in calls),
        "completion_tokens": None if calls is None else believed(call.completion_tokens for call in calls),
    }


def same_dataset(one: StoredRun, other: StoredRun) -> bool:
    """Whether both evaluated the same bytes: by fingerprint where both have one, else by SHA-256 (ruling 4)."""
    ours, theirs = _dataset(one), _dataset(other)
    for digest in ("fingerprint", "sha256"):
        if ours.get(digest) and theirs.get(digest):
            return bool(ours[digest] == theirs[digest])
    return False


def dataset_digest(run: StoredRun) -> str:
    """What names the dataset's bytes for a person."""
    dataset = _dataset(run)
    return str(dataset.get("fingerprint") or dataset.get("sha256") or "unknown")


def _dataset(run: StoredRun) -> Mapping[str, Any]:
    dataset = run.manifest.inputs.get("dataset")
    return dataset if isinstance(dataset, dict) else {}


def row_attribute(run: StoredRun, name: str, dataset: Mapping[int, Row] | None) -> dict[int, str | None]:
    """source_row_index -> the value of `name` for each row of the run: `label`, `prompt`, or a key of the row's metadata.

    Metadata needs the `dataset`, by source row. Values that are not text are spelled as Python spells them. Raises OsmosisError
    if no row has the attribute.
    """
    values = {source: _attribute(run, position, source, name, dataset) for position, source in enumerate(run.source_rows)}
    if all(value is None for value in values.values()):
        raise OsmosisError(
            f"No row of run {run.name} has {name!r}.",
            problems=[Problem(run.location, f"neither `label` nor `prompt`, and no metadata key {name!r} was found")],
            hint="Name `label`, `prompt` or a metadata key; metadata is read from --dataset-file.",
        )
    return values


def _attribute(run: StoredRun, position: int, source: int, name: str, dataset: Mapping[int, Row] | None) -> str | None:
    row = dataset.get(source) if dataset else None
    if row and row.metadata and name in row.metadata:
        value = row.metadata[name]
        return value if isinstance(value, str) else str(value)
    if name in ("label", "prompt") and run.dataset_rows is not None:
        return getattr(run.dataset_rows[position], name) or None
    return None


PAIRED_BY_ROW = "the same row of the dataset file"
PAIRED_BY_CONTENT = "equal prompt and label"


def row_keys(run: StoredRun, *, by_content: bool) -> dict[int, str]:
    """row_index -> what identifies the row in another run: its source row, or its content and the how-manieth of that
    content."""
    if not by_content:
        return {position: str(source) for position, source in enumerate(run.source_rows)}
    seen: dict[tuple[str, str | None], int] = {}
    keys: dict[int, str] = {}
    for row in run.dataset_rows or ():
        content = (row.prompt, row.label)
        seen[content] = seen.get(content, 0) + 1
        keys[row.row_index] = repr((*content, seen[content]))
    return keys
