"""The numbers of a run, for whoever reads it after it was made (issues 8 and 9)."""

from __future__ import annotations

import polars as pl

from osmosis.pure.errors import OsmosisError
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunStatus, Metrics, Summary, decode_metrics
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.shell.evaluation.own_files import SMALL, kind_of, read_own
from osmosis.shell.evaluation.run_directory import RunDirectory


def read_metrics(directory: RunDirectory) -> Metrics | None:
    """The run's `metrics.json`, None when there is none. Raises OsmosisError when it is not what it should be."""
    if not kind_of(directory.metrics):
        return None
    try:
        data = read_own(directory.metrics, SMALL)
    except OSError as error:
        raise OsmosisError(
            f"{directory.metrics} cannot be read: {error.strerror or error}.",
            hint="`osmosis eval verify RUN --repair` rebuilds it from the journal.",
        ) from None
    return decode_metrics(data, str(directory.metrics))


def summary_of(run: StoredRun, samples: pl.DataFrame, metrics: Metrics | None) -> Summary:
    """The numbers of the metrics file where it tells of these very samples; else computed as they would be for it."""
    told = metrics is not None and metrics.eval_run.status is not EvalRunStatus.RUNNING and metrics.summary.uncertainty
    if metrics is not None and told and metrics.summary.total_samples == len(run.index):
        return metrics.summary
    return summarize(samples, run.pass_threshold, seed=bootstrap_seed(run.manifest), planned=run.planned)
