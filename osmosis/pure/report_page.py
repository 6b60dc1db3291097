"""The HTML report of a run, put together from records: summary, charts, failures, comparison, samples (issue 9).

Its numbers are those of `metrics.json`, spelled as everywhere else. The style sheet and the script come in as arguments; they
and the pictures are ours, and every other text is escaped. Without a script the page still shows everything but the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from osmosis.pure.charts import Chart
from osmosis.pure.comparison import Comparison
from osmosis.pure.comparison_page import comparison_section
from osmosis.pure.estimate import ErrorSummary, Estimate
from osmosis.pure.html_page import document, table, text
from osmosis.pure.metrics_file import EvalRunInfo, Summary
from osmosis.pure.presentation import UNDEFINED, decimal, duration, moment, percent, thousands
from osmosis.pure.report_samples import SampleList, list_block
from osmosis.pure.sample_details import MetricMean, mean_samples, mean_value, most_common
from osmosis.pure.stored_run import StoredRun

_METRICS_SHOWN = 50


class Figure(msgspec.Struct, frozen=True):
    """A chart and its picture: an `<svg>` element."""

    chart: Chart
    picture: str


class ReportParts(msgspec.Struct, frozen=True):
    """What the page shows before the samples. `info` is None where the run has no metrics file."""

    run: StoredRun
    summary: Summary
    info: EvalRunInfo | None
    figures: tuple[Figure, ...]
    comparisons: tuple[Comparison, ...] = ()
    means: tuple[MetricMean, ...] = ()


def report_page(parts: ReportParts, samples: SampleList, packs: Iterable[str], *, style: str, script: str) -> Iterator[bytes]:
    """The page in pieces. `packs` are the blocks of the samples' texts (`pack_blocks`), in the order of `samples`."""
    return document(f"{parts.run.name} - evaluation report", style, _body(parts, samples, packs), script)


def _body(parts: ReportParts, samples: SampleList, packs: Iterable[str]) -> Iterator[str]:
    yield '<a class="skip" href="#samples">Skip to the samples</a>\n'
    yield from _header(parts)
    yield "<main>\n"
    yield from _tiles(parts)
    yield '<section class="figures" aria-label="Charts">\n'
    for figure in parts.figures:
        yield from _figure(figure)
    yield "</section>\n"
    yield from _metrics(parts.means)
    yield from _failures(parts.summary)
    if parts.comparisons:
        yield comparison_section(parts.comparisons)
    yield _SAMPLES
    yield "</main>\n"
    yield from _footer(parts)
    yield list_block(samples)
    yield from packs


def _header(parts: ReportParts) -> Iterator[str]:
    run = parts.run
    state = parts.info.status.value if parts.info else "unknown"
    rollout = run.manifest.inputs.get("rollout")
    facts = (
        ("Model", run.model),
        ("Rollout", str(rollout.get("name", "")) if isinstance(rollout, dict) else ""),
        ("Dataset", str(run.manifest.provenance.get("dataset_name", ""))),
        ("Created", moment(run.manifest.created_at)),
        ("State", f"{state}, model calls replayed" if run.replayed else state),
    )
    yield f"<header>\n<h1>{text(run.name)}</h1>\n<dl>\n"
    yield from (f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>\n" for name, value in facts if value)
    yield "</dl>\n</header>\n"


def _tiles(parts: ReportParts) -> Iterator[str]:
    yield '<section class="tiles" aria-label="Summary">\n'
    for name, value, note in _tile_texts(parts):
        key = name.lower().replace(" ", "-")
        yield f'<div class="tile" id="tile-{key}"><h2>{text(name)}</h2>'
        yield f'<p class="value">{text(value)}</p><p class="note">{text(note)}</p></div>\n'
    yield "</section>\n"


def _tile_texts(parts: ReportParts) -> Iterator[tuple[str, str, str]]:
    summary, run = parts.summary, parts.run
    uncertainty, statistics = summary.uncertainty, summary.reward_stats
    rate = percent(summary.passed, summary.completed_samples)
    counted = f"{thousands(summary.passed)} of {thousands(summary.completed_samples)}, threshold {run.pass_threshold:g}"
    yield "Pass rate", rate, _joined(counted, _bounds(uncertainty.pass_rate, scale=100) if uncertainty else "")
    mean = decimal(statistics.mean) if statistics else UNDEFINED
    yield "Mean reward", mean, _bounds(uncertainty.mean_reward) if uncertainty else ""
    done = f"{thousands(len(run.index))} of {thousands(run.planned)}"
    failed = f"{thousands(summary.failed)} failed, {thousands(summary.skipped)} skipped"
    yield "Samples", done, _joined(failed, f"{thousands(run.pending)} to do" if run.pending else "")
    cost = "" if summary.cost_usd is None else f"${decimal(summary.cost_usd, 4)}"
    yield "Tokens", thousands(summary.tokens_used), cost
    if parts.info:
        yield "Duration", duration(parts.info.duration_ms), "time at work"


def _bounds(estimate: Estimate, scale: int = 1) -> str:
    if estimate.low is None or estimate.high is None:
        return estimate.reason or ""
    places, unit = (1, "%") if scale == 100 else (3, "")
    low, high = (f"{decimal(end * scale, places)}{unit}" for end in (estimate.low, estimate.high))
    return f"95% interval {low} to {high}"


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _figure(figure: Figure) -> Iterator[str]:
    chart = figure.chart
    yield f'<figure id="figure-{text(chart.key)}">\n<figcaption><h2>{text(chart.title)}</h2>'
    yield f'<p class="note">{text(chart.note)}</p></figcaption>\n{figure.picture}\n'
    yield "<details><summary>As a table</summary>\n"
    yield from table(chart.header, chart.rows)
    yield "</details>\n</figure>\n"


def _metrics(means: Sequence[MetricMean]) -> Iterator[str]:
    if not means:
        return
    shown = most_common(means, _METRICS_SHOWN)
    yield '<section class="metrics">\n<h2>Metrics of the samples</h2>\n'
    yield '<p class="note">Each mean is over the samples that have the number.</p>\n'
    yield from table(("Metric", "Mean", "Over"), [(mean.name, mean_value(mean), mean_samples(mean)) for mean in shown])
    if len(means) > len(shown):
        yield f'<p class="note">{thousands(len(means) - len(shown))} metrics that fewer samples have are left out.</p>\n'
    yield "</section>\n"


def _failures(summary: Summary) -> Iterator[str]:
    errors = summary.errors
    if errors is None or not errors.types:
        return
    yield '<section class="failures">\n<h2>Failures</h2>\n'
    yield (
        f'<p class="note">{thousands(errors.model)} by the model, {thousands(errors.infrastructure)} by the infrastructure, '
        f"{thousands(errors.unclassified)} unclassified.</p>\n"
    )
    yield from table(("Error", "Whose", "Samples"), _failure_rows(errors))
    yield "</section>\n"


def _failure_rows(errors: ErrorSummary) -> Sequence[tuple[str, str, str]]:
    rows = [(error.error_type, error.origin.value, thousands(error.count)) for error in errors.types]
    return [*rows, ("other errors", "", thousands(errors.others))] if errors.others else rows


def _footer(parts: ReportParts) -> Iterator[str]:
    version = str(parts.run.manifest.provenance.get("sdk_version", ""))
    seed = parts.summary.uncertainty.seed if parts.summary.uncertainty else ""
    facts = (("Run", parts.run.manifest.local_run_id), ("Osmosis", version), ("Bootstrap seed", seed))
    yield "<footer>\n<p>"
    yield " · ".join(f"{text(name)} {text(value)}" for name, value in facts if value)
    yield "</p>\n<p>Intervals have dataset rows as their units. Texts are as the model wrote them.</p>\n</footer>\n"


_SAMPLES = """\
<section id="samples" tabindex="-1">
<h2>Samples</h2>
<noscript><p>The table of samples needs JavaScript; everything above does not.</p></noscript>
<form id="filters" class="needs-script" role="search" aria-label="Filter samples">
<label>Search <input type="search" id="filter-text" placeholder="prompt, label or error" autocomplete="off"></label>
<label>Outcome <select id="filter-outcome"><option value="-1">all</option></select></label>
<label>Error <select id="filter-error"><option value="-1">all</option></select></label>
<output id="shown" aria-live="polite"></output>
</form>
<div id="grid" class="needs-script" role="grid" tabindex="0" aria-label="Samples" aria-describedby="grid-keys">
<div id="grid-header" role="rowgroup"></div>
<div id="grid-body" role="rowgroup"><div id="grid-space"></div></div>
</div>
<p id="grid-keys" class="note needs-script">Arrow keys, Page Up, Page Down, Home and End move through the table; Enter opens a \
sample. In an open sample, the left and right arrow keys go to the one before and after; Escape closes it.</p>
</section>
<dialog id="sample" aria-labelledby="sample-title">
<div class="bar"><h2 id="sample-title"></h2>
<button type="button" id="sample-previous">Previous</button><button type="button" id="sample-next">Next</button>
<button type="button" id="sample-close">Close</button></div>
<div id="sample-body"></div>
</dialog>
"""
