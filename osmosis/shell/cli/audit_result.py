"""The report of an audit as a command's result: a JSON resource for programs, lists for people (issue 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from osmosis.pure.finding import AuditReport, AuditStatus, Finding, Severity
from osmosis.pure.presentation import counted, joined, relative_path, thousands
from osmosis.pure.report import NextStep
from osmosis.shell.cli.exit_codes import AUDIT_EXIT_CODES
from osmosis.shell.cli.result import Block, OperationResult, Section, Table

OPERATION = "eval.verify"
FINDING_LIMIT = 50
"""Findings of one list that are shown to a person; JSON has them all."""


class FindingResource(msgspec.Struct, frozen=True):
    """One finding as programs get it."""

    where: str
    what: str
    severity: Severity
    repairable: bool


class AuditResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    run_name: str
    path: str
    planned: int
    succeeded: int
    failed: int
    skipped: int
    pending: int
    records: int
    findings: tuple[FindingResource, ...]
    repaired: tuple[FindingResource, ...]
    unchecked: tuple[str, ...]
    kept: tuple[str, ...]
    advice: tuple[str, ...]


def audit_result(report: AuditReport, working_directory: str, repair_argv: tuple[str, ...]) -> OperationResult:
    """`report` as a result; `repair_argv` is the command that repairs, shown when there is something to repair."""
    repairable = any(finding.repairable for finding in report.findings)
    return OperationResult(
        operation=OPERATION,
        status=report.status.value,
        resource=_resource(report),
        message=_message(report),
        exit_code=AUDIT_EXIT_CODES[report.status],
        blocks=tuple(_blocks(report, working_directory)),
        next_steps=(NextStep("repair", "Repair", repair_argv),) if repairable else (),
    )


def _resource(report: AuditReport) -> AuditResource:
    return AuditResource(
        run_name=report.run_name,
        path=report.path,
        planned=report.planned,
        succeeded=report.succeeded,
        failed=report.failed,
        skipped=report.skipped,
        pending=report.pending,
        records=report.records,
        findings=tuple(map(_finding, report.findings)),
        repaired=tuple(map(_finding, report.repaired)),
        unchecked=report.unchecked,
        kept=report.kept,
        advice=report.advice,
    )


def _finding(finding: Finding) -> FindingResource:
    return FindingResource(finding.where, finding.what, finding.severity, finding.repairable)


def _message(report: AuditReport) -> str:
    errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
    warnings = len(report.findings) - errors
    match report.status:
        case AuditStatus.UNSOUND:
            verdict = f"Run {report.run_name} is not sound: {counted(errors, 'error')}"
        case AuditStatus.REPAIRED:
            verdict = f"Run {report.run_name} is sound again: {counted(len(report.repaired), 'finding')} repaired"
        case AuditStatus.SOUND:
            verdict = f"Run {report.run_name} is sound"
    return f"{verdict}, {counted(warnings, 'warning')}." if warnings else f"{verdict}."


def _blocks(report: AuditReport, base: str) -> Iterator[Block]:
    errors = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in report.findings if finding.severity is Severity.WARNING]
    for title, findings in (("Errors", errors), ("Warnings", warnings)):
        if findings:
            yield Section(title, tuple(_listed(findings)))
    repaired = tuple(map(str, report.repaired))
    sections = (
        ("Repaired", repaired),
        ("Kept beside", report.kept),
        ("Not checked", report.unchecked),
        ("What to do", report.advice),
    )
    for title, lines in sections:
        if lines:
            yield Section(title, tuple(_cut(lines)))
    yield Table("Audit", tuple((label, value) for label, value in _rows(report, base) if value))


def _listed(findings: Iterable[Finding]) -> Iterator[str]:
    return _cut([f"{finding}{' [repairable]' if finding.repairable else ''}" for finding in findings])


def _cut(entries: tuple[str, ...] | list[str]) -> Iterator[str]:
    yield from entries[:FINDING_LIMIT]
    if (hidden := len(entries) - FINDING_LIMIT) > 0:
        yield f"... and {thousands(hidden)} more; --json lists them all"


def _rows(report: AuditReport, base: str) -> Iterator[tuple[str, str]]:
    yield "Run", report.run_name
    counts = (
        (report.succeeded, "ok"),
        (report.failed, "failed"),
        (report.skipped, "skipped"),
        (report.pending, "pending"),
    )
    if report.planned:
        yield "Work Items", joined([thousands(report.planned), *(f"{thousands(count)} {word}" for count, word in counts)])
    if report.records:
        yield "Journal", counted(report.records, "sound record")
    yield "Directory", relative_path(report.path, base)
