"""One run in a notebook: its frames, its numbers, its trajectories, its pictures (issue 8). The run is only read."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from osmosis.pure.charts import comparison_chart, context_chart, pass_curve_chart, reward_chart, time_chart, token_chart
from osmosis.pure.comparison import Comparison, adjust, compare_runs, pair
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.html_page import text
from osmosis.pure.journal import WorkItem
from osmosis.pure.metrics_file import Summary
from osmosis.pure.presentation import percent, thousands
from osmosis.pure.sample_details import MetricMean, SampleDetails, metric_means
from osmosis.pure.sample_table import with_details
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.pure.trajectory import Trajectory, decode_trajectory
from osmosis.shell.evaluation.run_reader import locate_run, read_run
from osmosis.shell.evaluation.stored_files import read_metrics, summary_of
from osmosis.shell.evaluation.trial_files import details_of, read_trajectory
from osmosis.shell.notebook.altair_chart import altair_chart

if TYPE_CHECKING:
    import altair as alt

    from osmosis.shell.evaluation.run_directory import RunDirectory


def open_run(path: str | Path) -> OpenedRun:
    """The run at `path`, a run directory, or of that name in the workspace around the current directory.

    A run that is going on is read as it stands. Raises OsmosisError when there is none or it cannot be read.
    """
    directory = locate_run(str(path), Path.cwd())
    return OpenedRun(directory, read_run(directory))


class OpenedRun:
    """A run as it was when it was opened."""

    def __init__(self, directory: RunDirectory, stored: StoredRun) -> None:
        self._directory = directory
        self._stored = stored

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self._stored.name

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._directory.path

    @cached_property
    def index(self) -> pl.DataFrame:
        """A line a sample, sorted by row and run: the columns of `index.jsonl`, then `source_row_index`, `error_message`,
        `prompt_tokens`, `completion_tokens`, `graded`, `passed` and `cost`, then as in an export `metrics` and `metadata` (JSON
        text) and a column `metric.NAME` of floats for each metric that is a number in some sample, of those that most samples
        have at most 100. Null is what a sample has not. The first look reads every trajectory."""
        return with_details(self._samples, self._details)

    @cached_property
    def sample_metrics(self) -> tuple[MetricMean, ...]:
        """The mean of each metric as `eval info` has it, with how many samples have it, miss it, or have no number there."""
        return metric_means(tuple(self._details.values()))

    @cached_property
    def _samples(self) -> pl.DataFrame:
        """What stands in the run's own records, without a look at its trajectories."""
        return samples_frame(self._stored)

    @cached_property
    def _details(self) -> dict[WorkItem, SampleDetails]:
        return details_of(self._directory, self._stored.index)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """A line a dataset row: `row_index`, `source_row_index`, `prompt`, `label` (texts cut as in `dataset_rows.jsonl`)."""
        texts = self._stored.dataset_rows or ()
        lines = [(row.row_index, self._stored.source_rows[row.row_index], row.prompt, row.label) for row in texts]
        schema = {"row_index": pl.Int64, "source_row_index": pl.Int64, "prompt": pl.String, "label": pl.String}
        return pl.DataFrame(lines, schema=schema, orient="row")

    @cached_property
    def metrics(self) -> Summary:
        """The `summary` of `metrics.json`, uncertainty included."""
        return summary_of(self._stored, self._samples, read_metrics(self._directory))

    def trajectory(self, row: int, run: int = 0) -> Trajectory:
        """The stored trajectory of a sample. Raises OsmosisError when there is no such sample, or it kept none."""
        found = self._samples.filter((pl.col("row_index") == row) & (pl.col("run_index") == run))
        data = None if found.is_empty() else read_trajectory(self._directory, WorkItem(row, run), found["rollout_id"].item())
        if data is None:
            missing = "that sample has no result" if found.is_empty() else "that sample has no stored trajectory"
            raise OsmosisError(
                f"Row {row} run {run} of {self.name} cannot be shown.",
                code=ErrorCode.NOT_FOUND,
                problems=[Problem(str(self.path), missing)],
                hint="`index` lists the samples that there are.",
            )
        return decode_trajectory(data, f"row {row} run {run} of {self.name}")

    def compare(self, *candidates: OpenedRun, confidence: float = 0.95, force: bool = False) -> tuple[Comparison, ...]:
        """Each candidate against this run as the baseline, adjusted for how many they are. Raises OsmosisError for other
        datasets, unless forced."""
        ours = self._stored
        pairs = [(run._stored, pair(ours, run._stored, force=force)) for run in candidates]
        return adjust([compare_runs(ours, stored, paired, confidence=confidence) for stored, paired in pairs])

    # ---- pictures -----------------------------------------------------------------------------------------------------

    def reward_histogram(self) -> alt.TopLevelMixin:
        """How many graded samples have which reward."""
        return altair_chart(reward_chart(self._samples))

    def pass_curve(self) -> alt.TopLevelMixin:
        """pass@k and pass^k with their intervals. Raises OsmosisError for a run in which nothing is scored."""
        uncertainty = self.metrics.uncertainty
        if uncertainty is None or not uncertainty.pass_at_k:
            raise OsmosisError(
                f"Run {self.name} has no pass@k yet: no sample is scored.",
                hint="Resume the run, or look at its failures in `index`.",
            )
        return altair_chart(pass_curve_chart(uncertainty.pass_at_k, uncertainty.pass_hat_k, uncertainty.confidence))

    def context_lengths(self) -> alt.TopLevelMixin:
        """Samples by the tokens of their largest model call."""
        return altair_chart(context_chart(self._samples))

    def token_histogram(self) -> alt.TopLevelMixin:
        """Samples by all their tokens."""
        return altair_chart(token_chart(self._samples))

    def time_histogram(self) -> alt.TopLevelMixin:
        """Samples by how long they took."""
        return altair_chart(time_chart(self._samples))

    def comparison_forest(self, *candidates: OpenedRun, force: bool = False) -> alt.TopLevelMixin:
        """The differences of the pass rates of `candidates` to this run's, with their intervals."""
        return altair_chart(comparison_chart(self.compare(*candidates, force=force)))

    def __repr__(self) -> str:
        return f"<run {self.name}: {len(self._stored.index)} of {self._stored.planned} samples>"

    def _repr_html_(self) -> str:
        summary = self.metrics
        rate = percent(summary.passed, summary.completed_samples)
        counts = f"{thousands(len(self._stored.index))} of {thousands(self._stored.planned)} samples"
        return f"<p><strong>{text(self.name)}</strong> ({text(self._stored.model)}): {counts}, pass rate {rate}</p>"
