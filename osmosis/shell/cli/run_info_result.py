"""One run as a command's result (contract `cli.md` section 2, `eval info`; issue 9).

The keys of `data` are the public command's, then ours: `origin`, `git_dirty`, `failures`, `slowest`, `in_flight`,
`sample_metrics`. What only a platform knows is null for a local run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from osmosis.pure.journal import Result, RunHistory, Status
from osmosis.pure.metrics_file import summary_object
from osmosis.pure.presentation import counted, decimal, duration, joined, moment, percent, relative_path, thousands
from osmosis.pure.report import NextStep
from osmosis.pure.run_overview import RunOverview, RunState
from osmosis.pure.sample_details import MetricMean, mean_samples, mean_value, most_common
from osmosis.pure.scoreboard import SLOWEST_KEPT, UNNAMED_ERROR, Scoreboard
from osmosis.pure.tally import finished_item
from osmosis.shell.cli.result import Block, DetailResult, Section, Table
from osmosis.shell.cli.run_list_result import (
    ORIGIN_LABELS,
    STATUS_LABELS,
    Completion,
    Named,
    RunItem,
    average_reward,
    pass_rate,
    run_item,
)
from osmosis.shell.cli.run_result import item_label, metric_rows

OPERATION = "eval.info"
_FAILURES_SHOWN = 10
_MESSAGE_SHOWN = 200
_METRICS_SHOWN = 20


class InfoSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`data.summary`."""

    avg_reward: float | None
    pass_rate: float | None
    graded: int | None
    passed: int | None
    failed: int | None
    skipped: int | None
    progress: Completion
    pass_threshold: float | None
    total_tokens: int | None
    dataset_rows: int
    resumed_count: int | None


class Failure(msgspec.Struct, frozen=True):
    """How many items failed with this type of error."""

    error_type: str
    count: int


class Slow(msgspec.Struct, frozen=True):
    """An item that took long."""

    row_index: int
    source_row_index: int
    run_index: int
    rollout_id: str
    duration_ms: float


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The `data` of the JSON envelope. `config` are the manifest's inputs, `metrics` the content of `metrics.json`, or what the
    journal of a run that is not finished counts to. `sample_metrics` are the numbers that the samples' own metrics hold."""

    eval_run: RunItem
    summary: InfoSummary
    config: dict[str, Any]
    results: dict[str, Any] | None
    model: Named
    dataset: Named
    rollout: Named
    entrypoint: str | None
    commit_sha: str | None
    branch: str | None
    env_config: dict[str, Any]
    resolved_secret_scopes: None = None
    dataset_df_stats: None = None
    metrics: dict[str, Any] | None
    metrics_available: bool
    metrics_error: str | None
    output_path: str
    save_warning: None = None
    origin: str
    git_dirty: bool | None
    failures: tuple[Failure, ...]
    slowest: tuple[Slow, ...]
    in_flight: int | None
    sample_metrics: tuple[MetricMean, ...]


class Looked(msgspec.Struct, frozen=True):
    """What was read of one run: its overview, its journal where it has one, and the means over the samples in that. `trouble`
    says why the journal is left out."""

    overview: RunOverview
    history: RunHistory | None = None
    trouble: str | None = None
    means: tuple[MetricMean, ...] = ()


def run_info_result(looked: Looked, working_directory: str) -> DetailResult:
    """`looked` as a result. Raises nothing: an unreadable run is refused before this."""
    return DetailResult(
        operation=OPERATION,
        data=_data(looked),
        blocks=tuple(_blocks(looked, working_directory)),
        message=_MESSAGES[looked.overview.state].format(name=looked.overview.name),
        next_steps=tuple(_next_steps(looked.overview, working_directory)),
    )


_MESSAGES = {
    RunState.FINISHED: "",
    RunState.RUNNING: "The run is going on; its numbers are those of this moment.",
    RunState.INTERRUPTED: "Nobody works on this run. The command that started it, with --name {name}, resumes it.",
    RunState.UNREADABLE: "",
}


def _next_steps(run: RunOverview, base: str) -> Iterator[NextStep]:
    reference = run.name if run.path.endswith(f"/.osmosis/evals/{run.name}") else _as_path(relative_path(run.path, base))
    if run.state is RunState.RUNNING:
        yield NextStep("logs", "Show the log", ("osmosis", "eval", "logs", reference))
    if run.state is RunState.FINISHED:
        yield NextStep("open", "Open", ("osmosis", "eval", "open", reference))


def _as_path(path: str) -> str:
    return path if "/" in path else f"./{path}"


def _data(looked: Looked) -> RunInfo:
    run, history = looked.overview, looked.history
    summary = run.metrics.summary if run.metrics else None
    item = run_item(run)
    board = _scoreboard(looked)
    return RunInfo(
        eval_run=item,
        summary=InfoSummary(
            avg_reward=average_reward(run),
            pass_rate=pass_rate(run),
            graded=summary.graded if summary else None,
            passed=summary.passed if summary else None,
            failed=summary.failed if summary else None,
            skipped=summary.skipped if summary else None,
            progress=item.progress,
            pass_threshold=run.input("pass_threshold"),
            total_tokens=summary.tokens_used if summary else None,
            dataset_rows=run.rows,
            resumed_count=None if history is None else sum(map(history.resumed, history.results)),
        ),
        config=run.manifest.inputs if run.manifest else {},
        results=summary_object(summary) if summary else None,
        model=item.model,
        dataset=item.dataset,
        rollout=item.rollout,
        entrypoint=run.input("rollout", "entrypoint"),
        commit_sha=run.provenance("git_head"),
        branch=run.provenance("git_branch"),
        env_config=run.input("env") or {},
        metrics=_metrics(run),
        metrics_available=run.metrics is not None,
        metrics_error=looked.trouble,
        output_path=f"{run.path}/metrics.json",
        origin=run.origin.value,
        git_dirty=run.provenance("git_dirty"),
        failures=tuple(Failure(*failure) for failure in board.failures),
        slowest=tuple(_slow(looked)),
        in_flight=in_flight(history) if run.state is RunState.RUNNING and history else None,
        sample_metrics=looked.means,
    )


def _metrics(run: RunOverview) -> dict[str, Any] | None:
    if run.metrics is None:
        return None
    return {"eval_run": msgspec.to_builtins(run.metrics.eval_run), "summary": summary_object(run.metrics.summary)}


def in_flight(history: RunHistory) -> int:
    """Items that were dispatched and have no result yet, as the journal of a run that is going on tells it."""
    return sum(item not in history.results for item in history.attempts)


def _scoreboard(looked: Looked) -> Scoreboard:
    threshold = looked.overview.input("pass_threshold")
    results = looked.history.results.values() if looked.history else ()
    return Scoreboard(finished_item(result, float(threshold or 1.0)) for result in results)


def _slow(looked: Looked) -> Iterator[Slow]:
    results = looked.history.results.values() if looked.history else ()
    for result in sorted(results, key=lambda result: (-result.duration_ms, result.item))[:SLOWEST_KEPT]:
        item = result.item
        yield Slow(item.row_index, result.source_row_index, item.run_index, result.rollout_id, result.duration_ms)


def _first_failures(looked: Looked) -> dict[str, str]:
    """Of each type of error the first item that failed with it and left words, and how these begin."""
    results = looked.history.results.values() if looked.history else ()
    failed = [result for result in results if result.status is Status.FAILED and result.error_message]
    first = {result.error_type or UNNAMED_ERROR: result for result in sorted(failed, key=lambda one: one.item, reverse=True)}
    return {error_type: f", first in {_item_label(result)}: {_beginning(result)}" for error_type, result in first.items()}


def _item_label(result: Result) -> str:
    return item_label(result.item.row_index, result.source_row_index, result.item.run_index)


def _beginning(result: Result) -> str:
    """The message's first characters on one line, whole words alone: half of a secret would not be recognised as one."""
    said = " ".join((result.error_message or "").split())
    return said if len(said) <= _MESSAGE_SHOWN else f"{said[:_MESSAGE_SHOWN].rpartition(' ')[0]} ..."


def _blocks(looked: Looked, base: str) -> Iterator[Block]:
    run = looked.overview
    yield Table("Run", tuple((label, value) for label, value in _run_rows(looked, base) if value))
    failures = _scoreboard(looked).failures
    if failures:
        first = _first_failures(looked)
        lines = [f"{thousands(count)} {name}{first.get(name, '')}" for name, count in failures[:_FAILURES_SHOWN]]
        more = len(failures) - len(lines)
        yield Section("Failures by type", (*lines, *([f"... and {thousands(more)} more types"] if more > 0 else [])))
    slowest = tuple(_slow(looked))
    if slowest:
        labels = [(item_label(item.row_index, item.source_row_index, item.run_index), item) for item in slowest]
        yield Section("Slowest items", tuple(f"{label}: {duration(item.duration_ms)}" for label, item in labels))
    if looked.means:
        yield Section("Metrics of the samples", tuple(_mean_lines(looked.means)))
    if run.metrics and run.done:
        title = "Results" if run.state is RunState.FINISHED else "Results (incomplete)"
        rows = (*metric_rows(run.metrics.summary), *_interval_so_far(looked))
        yield Table(title, tuple((label, value) for label, value in rows if value))


def _mean_lines(means: Sequence[MetricMean]) -> Iterator[str]:
    shown = most_common(means, _METRICS_SHOWN)
    yield from (f"{mean.name}: mean {mean_value(mean)} over {mean_samples(mean)}" for mean in shown)
    if len(means) > len(shown):
        yield f"... and {thousands(len(means) - len(shown))} more metrics; --json has them all"


def _interval_so_far(looked: Looked) -> Iterator[tuple[str, str]]:
    """Metrics of a run that is going on are counts alone; its journal gives the interval."""
    metrics = looked.overview.metrics
    if metrics is None or metrics.summary.uncertainty is not None:
        return
    estimate = _scoreboard(looked).pass_rate
    if estimate.low is not None and estimate.high is not None:
        bounds = f"{decimal(estimate.low * 100, 1)}% to {decimal(estimate.high * 100, 1)}%"
        yield "Pass Rate 95% CI", f"{bounds} ({counted(estimate.units, 'row')})"


def _run_rows(looked: Looked, base: str) -> Iterator[tuple[str, str]]:
    run, info = looked.overview, looked.overview.metrics and looked.overview.metrics.eval_run
    yield "Run", run.name
    yield "Status", STATUS_LABELS[run.state].strip("[]")
    yield "Origin", ORIGIN_LABELS[run.origin]
    yield "Done", _done(looked)
    yield "Rollout", str(run.input("rollout", "name") or "")
    yield "Entrypoint", str(run.input("rollout", "entrypoint") or "")
    yield "Model", str(run.input("model_path") or "")
    yield "Dataset", str(run.provenance("dataset_name") or "")
    yield "Rows", thousands(run.rows)
    runs = run.input("n")
    yield "Runs Per Row", thousands(runs) if isinstance(runs, int) and runs > 1 else ""
    yield "Branch", str(run.provenance("git_branch") or "")
    yield "Commit", _commit(run)
    yield "Started", moment(info.started_at) if info else ""
    yield "Completed", moment(info.completed_at) if info and info.completed_at else ""
    yield "Duration", duration(info.duration_ms) if info and run.state is not RunState.RUNNING else ""
    yield "Journal", looked.trouble or ""
    yield "Output", relative_path(run.path, base)


def _done(looked: Looked) -> str:
    run = looked.overview
    share = percent(run.done, run.planned)
    working = in_flight(looked.history) if run.state is RunState.RUNNING and looked.history else 0
    flying = f"{thousands(working)} in flight" if working else ""
    return joined([f"{thousands(run.done)}/{thousands(run.planned)}", share, flying])


def _commit(run: RunOverview) -> str:
    commit = str(run.provenance("git_head") or "")
    return f"{commit} (with uncommitted changes)" if commit and run.provenance("git_dirty") else commit
