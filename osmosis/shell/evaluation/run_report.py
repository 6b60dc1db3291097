"""`osmosis eval report`: reads a run and writes its page (issue 9). The run's own records are only read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import msgspec
import polars as pl

from osmosis.pure.charts import Chart, context_chart, pass_curve_chart, reward_chart, time_chart, token_chart
from osmosis.pure.comparison import Comparison, compare_runs, pair
from osmosis.pure.conversation import limits_for
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.journal import WorkItem
from osmosis.pure.metrics_file import Summary
from osmosis.pure.report_page import Figure, ReportParts, report_page
from osmosis.pure.report_samples import SampleTexts, pack_blocks, sample_list, sample_texts
from osmosis.pure.sample_details import SampleDetails, metric_means, sample_details
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.shell.evaluation.chart_image import draw
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_reader import locate_run, read_run
from osmosis.shell.evaluation.stored_files import read_metrics, summary_of
from osmosis.shell.evaluation.trial_files import read_trajectory

REPORT = "report.html"
_TEMPLATE = "report_template"


class ReportRequest(msgspec.Struct, frozen=True):
    """`target` is None for `report.html` in the run directory. `baseline` adds a comparison with that run."""

    working_directory: Path
    run: str
    target: Path | None = None
    baseline: str | None = None
    output: Path | None = None
    force: bool = False
    overwrite: bool = False


class Reported(msgspec.Struct, frozen=True):
    """What was written where."""

    run_name: str
    path: str
    bytes: int
    samples: int
    compared_with: str | None = None


def report(request: ReportRequest) -> Reported:
    """Write the page and say what it is. Raises OsmosisError for a run or a target that will not do."""
    directory = locate_run(request.run, request.working_directory, request.output)
    path = _target(request, directory)
    run = read_run(directory)
    comparisons = _compared(request, run)
    page = b"".join(_page(directory, run, comparisons))
    try:
        FileLayer().replace(path, page, step="report")
    except OSError as error:
        raise OsmosisError(
            f"{path} cannot be written: {error.strerror or error}.",
            problems=[Problem(str(path), error.strerror or str(error))],
            hint="Check the directory, its permissions and the space on the disk, or name another file with --to.",
        ) from None
    return Reported(run.name, str(path), len(page), len(run.index), comparisons[0].baseline if comparisons else None)


def _target(request: ReportRequest, directory: RunDirectory) -> Path:
    """Where the page goes. The report of a run directory is ours to replace; any other file is not."""
    if request.target is None:
        return directory.path / REPORT
    path = (request.working_directory / request.target.expanduser()).resolve()
    if path.exists() and not (request.overwrite and path.is_file()):
        raise OsmosisError(
            f"{path} exists.",
            code=ErrorCode.CONFLICT,
            hint="Name another file with --to." if path.is_dir() else "Name another file with --to, or add --overwrite.",
        )
    return path


def _compared(request: ReportRequest, run: StoredRun) -> tuple[Comparison, ...]:
    if request.baseline is None:
        return ()
    baseline = read_run(locate_run(request.baseline, request.working_directory, request.output))
    return (compare_runs(baseline, run, pair(baseline, run, force=request.force)),)


def _page(directory: RunDirectory, run: StoredRun, comparisons: tuple[Comparison, ...]) -> Iterator[bytes]:
    samples = samples_frame(run)
    metrics = read_metrics(directory)
    summary = summary_of(run, samples, metrics)
    details: list[SampleDetails] = []
    packs = list(pack_blocks(_texts(directory, run, samples, details)))  # first: the metrics stand before the texts
    parts = ReportParts(
        run=run,
        summary=summary,
        info=metrics.eval_run if metrics else None,
        figures=tuple(Figure(chart, draw(chart)) for chart in _charts(summary, samples)),
        comparisons=comparisons,
        means=metric_means(details),
    )
    return report_page(
        parts,
        sample_list(run, samples, metered=any(one.metrics for one in details)),
        packs,
        style=template_text("report.css"),
        script=template_text("report.js"),
    )


def _charts(summary: Summary, samples: pl.DataFrame) -> Iterator[Chart]:
    """The charts for which the run has numbers."""
    uncertainty = summary.uncertainty
    if summary.graded:
        yield reward_chart(samples)
    if uncertainty and len(uncertainty.pass_at_k) > 1:
        yield pass_curve_chart(uncertainty.pass_at_k, uncertainty.pass_hat_k, uncertainty.confidence)
    for column, chart in (("max_context_tokens", context_chart), ("tokens", token_chart), ("duration_ms", time_chart)):
        if samples[column].count():
            yield chart(samples)


def _texts(
    directory: RunDirectory, run: StoredRun, samples: pl.DataFrame, details: list[SampleDetails]
) -> Iterator[SampleTexts]:
    """The texts of every sample. Trajectories are read one by one, each once: what a sample carries joins `details`."""
    limits = limits_for(len(samples))
    for sample in samples.iter_rows(named=True):
        item = WorkItem(sample["row_index"], sample["run_index"])
        trajectory = read_trajectory(directory, item, sample["rollout_id"])
        details.append(sample_details(trajectory, sample["rollout_id"]))
        yield sample_texts(run, sample, trajectory, details[-1], limits)


def template_text(name: str) -> str:
    """A file of the page's template, which is part of the package."""
    return (resources.files("osmosis.shell") / _TEMPLATE / name).read_text(encoding="utf-8")
