"""What a run keeps of its samples, and its numbers, for whoever reads a run after it was made (issues 8 and 9)."""

from __future__ import annotations

import polars as pl

from osmosis.pure.errors import OsmosisError
from osmosis.pure.journal import WorkItem
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunStatus, Metrics, Summary, decode_metrics
from osmosis.pure.protocol import is_path_segment
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.shell.evaluation.hostile_files import Unreadable, read_file
from osmosis.shell.evaluation.own_files import SMALL, kind_of, read_own
from osmosis.shell.evaluation.run_directory import RunDirectory

SAMPLE_FILE = "sample.json"
_MAX_BYTES = 256 << 20


def read_trajectory(directory: RunDirectory, item: WorkItem, rollout_id: str) -> bytes | None:
    """The stored trajectory of an item: the collected copy, else that of its trial. None when there is none."""
    try:
        return read_file(directory.path, f"trajectories/row_{item.row_index}_run_{item.run_index}.json", _MAX_BYTES)
    except Unreadable:
        return read_trial_file(directory, rollout_id, "trajectory.json")


def read_trial_file(directory: RunDirectory, rollout_id: str, name: str) -> bytes | None:
    """A file that a trial left; None when there is none, or when something else lies in its place."""
    if not is_path_segment(rollout_id):
        return None
    try:
        return read_file(directory.trials, f"{rollout_id}/{name}", _MAX_BYTES)
    except Unreadable:
        return None


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
