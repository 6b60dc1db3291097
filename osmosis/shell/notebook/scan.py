"""Many runs as one frame (issue 8)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.index_frame import INDEX_SCHEMA, graded_expression, index_frame, passed_expression
from osmosis.pure.metrics_file import EvalRunStatus
from osmosis.pure.plan import Manifest
from osmosis.shell.evaluation.own_files import kind_of
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_location import run_directories
from osmosis.shell.evaluation.run_reader import manifest_of, read_run
from osmosis.shell.evaluation.stored_files import read_metrics

RUN_COLUMNS: dict[str, pl.DataType] = {
    "run_name": pl.String(),
    "run_id": pl.String(),
    "created_at": pl.String(),
    "model": pl.String(),
    "rollout": pl.String(),
    "dataset": pl.String(),
    "pass_threshold": pl.Float64(),
}
"""What each sample says of its run, before the columns of the index."""


def scan_runs(folder: str | Path) -> pl.LazyFrame:
    """Every sample of every run below `folder`: `RUN_COLUMNS`, the columns of `index.jsonl`, `graded` and `passed`.

    Runs come by name. The index files of finished runs are read only when the frame is collected; a run that is not finished is
    read now, from its journal. Raises OsmosisError for a folder or a run that cannot be read.
    """
    runs = sorted(run_directories(Path(folder).expanduser().resolve()), key=lambda directory: directory.name)
    schema = {**RUN_COLUMNS, **INDEX_SCHEMA, "graded": pl.Boolean(), "passed": pl.Boolean()}
    return pl.concat([pl.LazyFrame(schema=schema), *map(_scan, runs)], how="vertical")


def _scan(directory: RunDirectory) -> pl.LazyFrame:
    manifest = manifest_of(directory)
    metrics = read_metrics(directory)
    finished = metrics is not None and metrics.eval_run.status is EvalRunStatus.FINISHED
    if finished and kind_of(directory.index) is EntryKind.FILE and directory.index.stat().st_size:
        samples = pl.scan_ndjson(directory.index, schema=INDEX_SCHEMA)
    else:
        samples = index_frame(read_run(directory).index).lazy()
    threshold = float(manifest.inputs.get("pass_threshold", 1.0))
    of_run = [
        pl.lit(value, dtype=RUN_COLUMNS[name]).alias(name)
        for name, value in _run_values(directory.name, manifest, threshold).items()
    ]
    graded = graded_expression()
    return samples.select(*of_run, *INDEX_SCHEMA, graded=graded, passed=graded & passed_expression(threshold))


def _run_values(name: str, manifest: Manifest, threshold: float) -> dict[str, str | float]:
    rollout = manifest.inputs.get("rollout")
    return {
        "run_name": name,
        "run_id": manifest.local_run_id,
        "created_at": manifest.created_at,
        "model": str(manifest.inputs.get("model_path", "")),
        "rollout": str(rollout.get("name", "")) if isinstance(rollout, dict) else "",
        "dataset": str(manifest.provenance.get("dataset_name", "")),
        "pass_threshold": threshold,
    }
