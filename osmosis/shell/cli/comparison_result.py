"""Comparisons and verdicts of a gate as a command's result: JSON resources for programs, tables for people (issue 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from osmosis.pure.comparison import Comparison
from osmosis.pure.comparison_text import (
    DELTA_HEADER,
    FLIP_HEADER,
    SLICE_HEADER,
    delta_rows,
    flip_rows,
    p_value,
    slice_rows,
    with_confidence,
)
from osmosis.pure.gate import GateReport, Reading, Verdict
from osmosis.pure.presentation import UNDEFINED, decimal, joined, thousands
from osmosis.shell.cli.exit_codes import ExitCode
from osmosis.shell.cli.result import Block, Grid, OperationResult, Section, Table

FLIP_LIMIT = 20
"""Changed rows shown to a person; JSON and HTML have them all."""
_PROMPT_CELL = 60

GATE_EXIT_CODES: Mapping[Verdict, ExitCode] = MappingProxyType(
    {
        Verdict.PASSED: ExitCode.SUCCESS,
        Verdict.FAILED: ExitCode.GATE_FAILED,
        Verdict.INCONCLUSIVE: ExitCode.GATE_INCONCLUSIVE,
    }
)


class ComparisonResource(msgspec.Struct, frozen=True):
    """The `resource` of `eval compare`."""

    comparisons: tuple[Comparison, ...]
    html: str | None = None


def comparison_result(comparisons: Sequence[Comparison], html: str | None) -> OperationResult:
    """One baseline, one or more candidates."""
    names = ", ".join(comparison.candidate for comparison in comparisons)
    written = f" The page is in {html}." if html else ""
    return OperationResult(
        operation="eval.compare",
        status="success",
        resource=ComparisonResource(tuple(comparisons), html),
        message=f"Compared {names} with {comparisons[0].baseline}.{written}",
        blocks=tuple(block for comparison in comparisons for block in _comparison_blocks(comparison)),
    )


def _comparison_blocks(comparison: Comparison) -> Iterator[Block]:
    title = f"{comparison.candidate} against {comparison.baseline}"
    yield Table(title, tuple((label, value) for label, value in _facts(comparison) if value))
    yield Grid("Differences", with_confidence(DELTA_HEADER, comparison.confidence), delta_rows(comparison))
    if comparison.slices:
        header = with_confidence(SLICE_HEADER, comparison.confidence)
        yield Grid(f"Pass rate by {comparison.slice_by}", header, slice_rows(comparison))
    if comparison.flips:
        rows = [(*cells[:-1], _shortened(cells[-1])) for cells in flip_rows(comparison)[:FLIP_LIMIT]]
        yield Grid(f"Rows that changed ({thousands(len(comparison.flips))})", FLIP_HEADER, tuple(rows))
        if (hidden := len(comparison.flips) - FLIP_LIMIT) > 0:
            yield Section("Not shown", (f"{thousands(hidden)} more rows that changed; --json and --html have them all",))


def _shortened(text: str) -> str:
    return text if len(text) <= _PROMPT_CELL else text[: _PROMPT_CELL - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    exact = comparison.exact
    yield "Models", f"{comparison.baseline_model} -> {comparison.candidate_model}"
    only = [(comparison.baseline_only, "only in the baseline"), (comparison.candidate_only, "only in the candidate")]
    unpaired = (f"{thousands(count)} {where}" for count, where in only if count)
    yield "Paired Rows", joined([f"{thousands(comparison.paired_rows)} by {comparison.paired_by}", *unpaired])
    changed = f"{exact.better} up, {exact.worse} down, {exact.unchanged} unchanged"
    adjusted = comparison.adjusted_p_value
    holm = f"adjusted p {p_value(adjusted)}" if adjusted is not None else ""
    yield "Rows", joined([changed, f"{exact.name} p {p_value(exact.p_value)}", holm])
    if reason := comparison.pass_rate.difference.reason:
        yield "No Interval", reason
    yield "Clustered By", comparison.cluster_by or ""
    yield "Note", "; ".join(comparison.notes)


def gate_result(report: GateReport) -> OperationResult:
    """The verdict, with its exit code (ruling 12)."""
    return OperationResult(
        operation="eval.gate",
        status=report.verdict.value,
        resource=report,
        message=f"Gate {report.verdict.value}: {report.reason}.",
        exit_code=GATE_EXIT_CODES[report.verdict],
        blocks=(
            Table("Gate", tuple((label, value) for label, value in _gate_facts(report) if value)),
            Grid("Readings", _READING_HEADER, tuple(_reading(reading) for reading in report.readings)),
        ),
    )


_READING_HEADER = ("Reading", "Drop", "At least", "At most", "Method", "Rows", "Verdict")


def _gate_facts(report: GateReport) -> Iterator[tuple[str, str]]:
    yield "Candidate", report.candidate
    yield "Baseline", report.baseline
    yield "Allowed Drop", f"{report.max_drop:g} of the {report.measure.value}, at {report.confidence * 100:g}% confidence"
    yield "Paired Rows", f"{thousands(report.paired_rows)} by {report.paired_by}"
    needed = f"about {thousands(report.rows_needed)} like these to decide" if report.rows_needed else ""
    yield "Rows Needed", needed or (f"cannot be said: {report.rows_needed_reason}" if report.rows_needed_reason else "")
    yield "Note", "; ".join(report.notes)


def _reading(reading: Reading) -> tuple[str, ...]:
    bounds = reading.bounds
    numbers = (UNDEFINED if value is None else decimal(value, 4) for value in (bounds.drop, bounds.low, bounds.high))
    return (reading.name, *numbers, bounds.method or UNDEFINED, thousands(bounds.rows), reading.verdict.value)
