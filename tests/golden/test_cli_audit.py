"""Exact text of what `osmosis eval verify` shows, in every output mode."""

from __future__ import annotations

import json

import msgspec
import pytest

from osmosis.pure.finding import AuditReport, AuditStatus, Finding, Remedy, Severity
from osmosis.shell.cli.audit_result import audit_result
from osmosis.shell.cli.modes import Mode
from tests.golden.test_cli import SECRET, written

ARGV = ("osmosis", "eval", "verify", "calm-otter-7", "--repair")
SOUND = AuditReport(
    status=AuditStatus.SOUND,
    run_name="calm-otter-7",
    path="/home/ada/place/.osmosis/evals/calm-otter-7",
    planned=1200,
    succeeded=1000,
    failed=100,
    skipped=60,
    pending=40,
    records=2412,
)
MENDABLE = (
    Finding("index.jsonl", "is not what the journal and the trials say", 7, remedy=Remedy.REBUILD),
    Finding("artifacts/row_0_run_0/a\x1b[31m.txt", f"is not a copy of {SECRET}", remedy=Remedy.MOVE_ASIDE),
)
PUBLIC = Finding("logs.txt", "its mode is 0644", severity=Severity.WARNING, remedy=Remedy.MAKE_PRIVATE)
REPORTS = {
    "sound": SOUND,
    "mendable": msgspec.structs.replace(SOUND, status=AuditStatus.UNSOUND, findings=(*MENDABLE, PUBLIC)),
    "repaired": msgspec.structs.replace(
        SOUND, status=AuditStatus.REPAIRED, repaired=MENDABLE, kept=("replaced-20261130T120000Z/artifacts/a.txt",)
    ),
    "damaged": AuditReport(
        status=AuditStatus.UNSOUND,
        run_name="calm-otter-7",
        path="/elsewhere/calm-otter-7",
        records=33,
        findings=(Finding("events.jsonl", "the line does not match its checksum (line starts at byte 5339)", 34),),
        unchecked=("projections were not compared, because what they follow from is damaged.",),
    ),
    "many": msgspec.structs.replace(
        SOUND, status=AuditStatus.UNSOUND, findings=tuple(Finding(f"trajectories/{n}", "is missing") for n in range(1051))
    ),
}


def shown(case: str, mode: Mode, width: int | None = None) -> str:
    """What standard output gets; standard error gets nothing."""
    out, err = written(mode, lambda output: output.result(audit_result(REPORTS[case], "/home/ada/place", ARGV)), width)
    assert err == ""
    assert SECRET not in out
    assert "\x1b[31m" not in out
    return out


@pytest.mark.parametrize("case", sorted(REPORTS))
def test_rich(case: str, golden) -> None:
    """Findings with their places, counts, the verdict, and the command that repairs."""
    golden(f"cli/verify_{case}.rich-80.txt", shown(case, Mode.RICH, 80).encode())


@pytest.mark.parametrize("case", sorted(REPORTS))
def test_plain(case: str, golden) -> None:
    """The verdict first, then plain lines."""
    golden(f"cli/verify_{case}.plain.txt", shown(case, Mode.PLAIN).encode())


@pytest.mark.parametrize("case", sorted(set(REPORTS) - {"many"}))
def test_json(case: str, golden) -> None:
    """One line, shown here indented so that a change can be read."""
    line = shown(case, Mode.JSON)
    assert line.count("\n") == 1
    golden(f"cli/verify_{case}.json", (json.dumps(json.loads(line), indent=2) + "\n").encode())


def test_json_holds_every_finding() -> None:
    """People see the first fifty; programs see all."""
    assert len(json.loads(shown("many", Mode.JSON))["resource"]["findings"]) == 1051
    assert "... and 1,001 more; --json lists them all" in shown("many", Mode.PLAIN)
