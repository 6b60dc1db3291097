"""Exact output of `eval compare`, `eval gate` and `eval export` in every mode, and exact bytes of what they write."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from osmosis.pure.comparison import adjust, compare_runs, pair
from osmosis.pure.comparison_page import comparison_page
from osmosis.pure.gate import Measure, infrastructure_failures, judge
from osmosis.pure.github_report import step_summary, workflow_annotations
from osmosis.pure.journal import WorkItem
from osmosis.pure.junit_report import encode_junit
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, encode_metrics, summary_object
from osmosis.pure.price import Price
from osmosis.pure.redaction import Redactor
from osmosis.pure.regrading import Regraded
from osmosis.pure.report import RunStatus
from osmosis.pure.sample_details import SampleDetails, metric_means
from osmosis.pure.sample_table import detailed_table, encode_csv, encode_jsonl, sample_table
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.shell.cli.comparison_result import comparison_result, gate_result
from osmosis.shell.cli.eval_export import export_result
from osmosis.shell.cli.eval_regrade import regrade_result
from osmosis.shell.cli.eval_report import report_result
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.rich_text import RichText
from osmosis.shell.cli.run_result import run_result
from osmosis.shell.evaluation.run_export import Exported, ExportFormat
from osmosis.shell.evaluation.run_report import Reported
from tests.strategies.cli_reports import WORKSPACE, report
from tests.strategies.comparisons import Cell, stored_run

SECRET = "sk-live-0123456789"
PROMPTS = ["How many?", "=1+1\t\x1b[2J", f"[red]{SECRET}[/red] | `x` <b>", "::error::\nrow", "Größe \u202e?", "plain"]
LABELS = ["a", "a", "b", "b", "a", "b"]
METRICS: dict[tuple[int, int], dict[str, Any]] = {
    (0, 0): {"overlap": 0.5, "turns": 3, "note": "=1+1\t\x1b[2J"},
    (0, 1): {"overlap": 1.0, "turns": 2, "found": {"a": [1, None]}},
    (1, 0): {"overlap": 0.0, "turns": "two"},
    (4, 1): {"overlap": None, "exact": True, "a,b": 12345678901234567890, f"<b> {SECRET}": 1e-9},
}
FIRST: list[list[Cell]] = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], ["timeout", 1.0], ["skipped", 1.0], [None, 0.0]]
SECOND: list[list[Cell]] = [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], ["http_error", 1.0], [1.0, 1.0], [0.0, 0.0]]
PRICES = {"openai/brave-otter-1": Price(1.0, 2.0), "openai/calm-heron-2": Price(3.0, 4.0)}

BASELINE = stored_run("brave-otter-1", FIRST, prompts=PROMPTS, labels=LABELS, message="no answer\nafter 3 s", tokens=240)
CANDIDATE = stored_run("calm-heron-2", SECOND, prompts=PROMPTS, labels=LABELS, message="502", tokens=300)
THIRD = stored_run("shy-lynx-3", [[0.0, 0.0]] * 6, prompts=PROMPTS, labels=LABELS)
DETAILS = {
    WorkItem(row, run): SampleDetails(METRICS.get((row, run)), {"topic": "=cmd|' /C'!A0", "level": row} if row % 2 else None)
    for row in range(6)
    for run in range(2)
}
ONCE = stored_run("steady-ibis-4", [[1.0]] * 300 + [[0.0]] * 100)
ONCE_WORSE = stored_run("sinking-ibis-5", [[0.0]] * 60 + [[1.0]] * 240 + [[0.0]] * 100)

Golden = Callable[[str, bytes], None]


def compared(*candidates: StoredRun) -> OperationResult:
    """Candidates against the baseline, by slices."""
    slices = dict(enumerate(LABELS))
    found = [
        compare_runs(BASELINE, run, pair(BASELINE, run, prices=PRICES, slices=slices), slice_by="label") for run in candidates
    ]
    return comparison_result(adjust(found), None)


def gated(baseline: StoredRun, candidate: StoredRun) -> OperationResult:
    """The verdict on a candidate."""
    readings = [("as measured", pair(baseline, candidate))]
    if failures := infrastructure_failures(baseline) + infrastructure_failures(candidate):
        pairs = pair(baseline, candidate, without_infrastructure_errors=True)
        readings.append((f"without the {failures} infrastructure errors", pairs))
    return gate_result(judge(baseline, candidate, readings, measure=Measure.PASS_RATE, max_drop=0.02, confidence=0.95))


def exported() -> OperationResult:
    """An export for GitHub."""
    path = f"{WORKSPACE}/brave-otter-1.md"
    annotations = workflow_annotations(BASELINE)
    return export_result(Exported("brave-otter-1", ExportFormat.GITHUB, path, 2048, 12, annotations), WORKSPACE)


def reported() -> OperationResult:
    """A report with a comparison."""
    path = f"{WORKSPACE}/.osmosis/evals/brave-otter-1/report.html"
    return report_result(Reported("brave-otter-1", path, 123456, 12, "calm-heron-2"), WORKSPACE)


def regraded() -> OperationResult:
    """A run graded anew, of which some could not be."""
    path = f"{WORKSPACE}/.osmosis/evals/brave-otter-6"
    counts = {"items": 12, "graded": 9, "carried_over": 2, "without_sample": 1, "passed_before": 5, "passed": 7}
    return regrade_result(Regraded(run_name="brave-otter-6", parent="brave-otter-1", path=path, **counts), WORKSPACE)


def measured() -> OperationResult:
    """The end of a run whose numbers have intervals."""
    summary = summarize(samples_frame(BASELINE), 1.0, seed=bootstrap_seed(BASELINE.manifest), planned=12)
    return run_result(report(RunStatus.SUCCESS, metrics=summary_object(summary), failed_rows=(), skipped_rows=()), WORKSPACE)


RESULTS: dict[str, Callable[[], OperationResult]] = {
    "compare": lambda: compared(CANDIDATE),
    "compare_several": lambda: compared(CANDIDATE, THIRD),
    "gate_passed": lambda: gated(ONCE, ONCE),
    "gate_failed": lambda: gated(ONCE, ONCE_WORSE),
    "gate_inconclusive": lambda: gated(BASELINE, CANDIDATE),
    "export": exported,
    "report": reported,
    "regrade": regraded,
    "run_with_intervals": measured,
}


def written(mode: Mode, result: OperationResult, width: int | None = None) -> str:
    """What goes to standard output."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(mode, out, err, Redactor([SECRET]))
    if width is not None:
        output.rich_out = RichText(output.stdout, width=width)
    output.result(result)
    assert err.getvalue() == ""
    return out.getvalue()


@pytest.mark.parametrize("case", sorted(RESULTS))
@pytest.mark.parametrize("mode", list(Mode))
def test_results(case: str, mode: Mode, golden: Golden) -> None:
    """Tables, plain lines or one line of JSON; no secret, no escape sequence, whatever prompts hold."""
    text = written(mode, RESULTS[case](), 100 if mode is Mode.RICH else None)
    golden(f"analysis/{case}.{mode}.txt", text.encode())
    assert SECRET not in text
    assert "\x1b" not in text
    if mode is Mode.JSON:
        assert text.count("\n") == 1
        assert json.loads(text)["resource"]


@pytest.mark.parametrize(
    ("case", "code"), [("gate_passed", 0), ("gate_failed", 4), ("gate_inconclusive", 5), ("compare", 0), ("export", 0)]
)
def test_exit_codes(case: str, code: int) -> None:
    """Ruling 12."""
    assert RESULTS[case]().exit_code == code


def metrics_with_intervals() -> bytes:
    """`metrics.json` of a finished run."""
    run = EvalRunInfo(
        "a" * 32,
        EvalRunStatus.FINISHED,
        "brave-otter-1",
        "d",
        "m",
        "r",
        1.5,
        "2026-11-30T12:35:44.521865Z",
        "2026-11-30T12:36:00Z",
    )
    seed = bootstrap_seed(BASELINE.manifest)
    return encode_metrics(run, summarize(samples_frame(BASELINE), 1.0, seed=seed, planned=13))


def summary_markdown() -> bytes:
    """The step summary."""
    seed = bootstrap_seed(BASELINE.manifest)
    means = metric_means(tuple(DETAILS.values()))
    return step_summary(BASELINE, summarize(samples_frame(BASELINE), 1.0, seed=seed, planned=12), means)


FILES: dict[str, Callable[[], bytes]] = {
    "metrics.json": metrics_with_intervals,
    "samples.csv": lambda: encode_csv(detailed_table(BASELINE, DETAILS)),
    "samples.jsonl": lambda: b"".join(encode_jsonl(sample_table(BASELINE), DETAILS)),
    "junit.xml": lambda: encode_junit(BASELINE, DETAILS),
    "summary.md": summary_markdown,
    "annotations.txt": lambda: "".join(f"{line}\n" for line in workflow_annotations(BASELINE)).encode(),
    "comparison.html": lambda: comparison_page(
        [compare_runs(BASELINE, run, pair(BASELINE, run)) for run in (CANDIDATE, THIRD)]
    ),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_files(name: str, golden: Golden) -> None:
    """Byte for byte what was pinned."""
    golden(f"analysis/{name}", FILES[name]())
