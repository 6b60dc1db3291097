"""A run for GitHub Actions: a step summary in Markdown, and workflow commands that annotate the job (issue 8).

What a model wrote can end neither a table cell nor a command. In Markdown every ASCII punctuation character of foreign text is
a character reference, which CommonMark never takes for structure (section 2.5), inside a `<code>` element, where mentions and
links stay text. In a workflow command percent, line ends and, in properties, colon and comma are percent-encoded, as the
runner's own toolkit does.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence

from osmosis.pure.estimate import CurvePoint, Estimate
from osmosis.pure.index import IndexRow
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.metrics_file import Summary
from osmosis.pure.presentation import UNDEFINED, decimal, one_line, percent, thousands
from osmosis.pure.sample_details import MetricMean, mean_samples, mean_value, most_common
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.tally import is_graded, passed

ANNOTATION_LIMIT = 10
"""GitHub shows ten annotations of a level for a step and drops the rest."""
_LISTED = 50
_METRICS_LISTED = 20
_TEXT_LENGTH = 300
_REFERENCES = {ord(character): f"&#{ord(character)};" for character in string.punctuation}


def step_summary(run: StoredRun, summary: Summary, means: Sequence[MetricMean] = ()) -> bytes:
    """The Markdown of the run: its numbers with their intervals, the means of its samples' metrics, and the first samples that
    did not pass."""
    lines = [
        f"## Evaluation {_code(run.name)}",
        "",
        f"Model {_code(run.model)}, dataset {_code(str(run.manifest.provenance.get('dataset_name', '')))}.",
        "",
        "| | value | 95 % interval |",
        "| --- | --- | --- |",
        *(f"| {name} | {value} | {interval} |" for name, value, interval in _numbers(run, summary)),
    ]
    if means:
        lines += ["", "| metric | mean | samples |", "| --- | --- | --- |"]
        shown = most_common(means, _METRICS_LISTED)
        lines += [f"| {_code(mean.name)} | {mean_value(mean)} | {mean_samples(mean)} |" for mean in shown]
        lines += ["", f"... and {thousands(len(means) - len(shown))} more metrics."] if len(means) > len(shown) else []
    unpassed = list(_unpassed(run))
    if unpassed:
        lines += ["", "| sample | reason | prompt |", "| --- | --- | --- |"]
        lines += [f"| {_name(run, row)} | {_code(reason)} | {_code(_prompt(run, row))} |" for row, reason in unpassed[:_LISTED]]
    if len(unpassed) > _LISTED:
        lines += ["", f"... and {thousands(len(unpassed) - _LISTED)} more."]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _numbers(run: StoredRun, summary: Summary) -> Iterator[tuple[str, str, str]]:
    done = f"{thousands(summary.total_samples)} of {thousands(run.planned)}"
    yield "samples", done, ""
    rate = f"{percent(summary.passed, summary.completed_samples)} ({summary.passed}/{summary.completed_samples})"
    uncertainty = summary.uncertainty
    yield "pass rate", rate, _interval(uncertainty.pass_rate if uncertainty else None)
    if summary.reward_stats:
        yield "mean reward", decimal(summary.reward_stats.mean), _interval(uncertainty.mean_reward if uncertainty else None)
    if uncertainty and summary.n_runs:
        yield from ((f"pass@{point.k}", decimal(point.value), _interval(point)) for point in uncertainty.pass_at_k)
        yield from ((f"pass^{point.k}", decimal(point.value), _interval(point)) for point in uncertainty.pass_hat_k)
    if summary.errors:
        errors = summary.errors
        parts = (errors.model, "model"), (errors.infrastructure, "infrastructure"), (errors.unclassified, "unclassified")
        yield "errors", ", ".join(f"{count} {name}" for count, name in parts if count) or "none", ""
    yield "tokens", thousands(summary.tokens_used), ""


def _interval(estimate: Estimate | CurvePoint | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return UNDEFINED
    return f"{decimal(estimate.low)} to {decimal(estimate.high)}"


def workflow_annotations(run: StoredRun) -> tuple[str, ...]:
    """Workflow commands: an error for each failed sample, a warning for each that did not pass, each level up to the limit."""
    levels: dict[str, list[str]] = {"error": [], "warning": []}
    for row, reason in _unpassed(run):
        level = "error" if row.status is Status.FAILED else "warning"
        title = f"{run.name}: {_name(run, row)}"
        levels[level].append(workflow_command(level, title, _cut(f"{reason} | prompt: {_prompt(run, row)}")))
    shown = [line for lines in levels.values() for line in lines[:ANNOTATION_LIMIT]]
    hidden = sum(max(len(lines) - ANNOTATION_LIMIT, 0) for lines in levels.values())
    if hidden:
        shown.append(workflow_command("notice", run.name, f"{hidden} more samples did not pass; the step summary lists them"))
    return tuple(shown)


def workflow_command(level: str, title: str, message: str) -> str:
    """`::level title=...::message`, safe for any title and message. One line of printable text."""
    data = one_line(message).replace("%", "%25")
    words = one_line(title).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={words}::{data}"


def _unpassed(run: StoredRun) -> Iterator[tuple[IndexRow, str]]:
    for row in run.index:
        result = run.results.get(WorkItem(row.row_index, row.run_index))
        if row.status is Status.FAILED:
            message = result.error_message if result else None
            yield row, f"{row.error_type or 'failed'}{f': {message}' if message else ''}"
        elif row.status is Status.SUCCESS and not is_graded(row.status, row.reward):
            yield row, "not graded"
        elif row.status is Status.SUCCESS and not passed(row.reward, run.pass_threshold):
            yield row, f"reward {row.reward!r} below the threshold {run.pass_threshold!r}"


def _name(run: StoredRun, row: IndexRow) -> str:
    return f"row {run.source_rows[row.row_index]} run {row.run_index}"


def _prompt(run: StoredRun, row: IndexRow) -> str:
    return _cut(run.dataset_rows[row.row_index].prompt) if run.dataset_rows else ""


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _TEXT_LENGTH else line[: _TEXT_LENGTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _code(text: str) -> str:
    line = _cut(text)
    return f"<code>{line.translate(_REFERENCES)}</code>" if line else ""
