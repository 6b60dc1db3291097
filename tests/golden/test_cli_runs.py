"""Exact text of the commands that look at runs and at the machine, in every output mode, and that rendering is pure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from osmosis.pure.checkup import checks
from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.report import Counts, ItemFinished, Progress
from osmosis.shell.cli.doctor_result import doctor_error, doctor_grid
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.present import event_document, json_line
from osmosis.shell.cli.result import ListResult
from osmosis.shell.cli.run_events import ITEM_FINISHED, PROGRESS, finished_event
from tests.golden.test_cli import SECRET, written
from tests.strategies.cli_records import FOLLOWED, RESULTS, WORRIED

Golden = Callable[[str, bytes], None]
WIDTHS = (40, 80, 120)
CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", sorted(RESULTS))
def test_rich_results(case: str, width: int, golden: Golden) -> None:
    """Tables fit the width; a list drops its least important columns; no secret and no escape sequence gets through."""
    out, err = written(Mode.RICH, lambda output: output.result(RESULTS[case]), width)
    golden(f"cli/runs_{case}.rich-{width}.txt", out.encode())
    assert err == ""
    assert SECRET not in out
    assert "\x1b" not in out
    assert all(len(line) <= width for line in out.splitlines() if line[:1] in "╭│╰─├")


@pytest.mark.parametrize("case", sorted(RESULTS))
def test_plain_results(case: str, golden: Golden) -> None:
    """A list is its rows alone, a line each, with as many cells as it has columns; a detail is labelled lines."""
    result = RESULTS[case]
    out, err = written(Mode.PLAIN, lambda output: output.result(result))
    golden(f"cli/runs_{case}.plain.txt", out.encode())
    assert err == ""
    assert SECRET not in out
    if isinstance(result, ListResult):
        assert [line.count("\t") + 1 for line in out.splitlines()] == [len(result.columns)] * len(result.items)


@pytest.mark.parametrize("case", sorted(RESULTS))
def test_json_results(case: str, golden: Golden) -> None:
    """One line of strict JSON in the envelope of its kind."""
    out, err = written(Mode.JSON, lambda output: output.result(RESULTS[case]))
    golden(f"cli/runs_{case}.json", out.encode())
    assert err == ""
    assert SECRET not in out
    assert out.count("\n") == 1
    assert json.loads(out)["schema_version"] == 1


@pytest.mark.parametrize("mode", list(Mode))
def test_a_failed_checkup(mode: Mode, golden: Golden) -> None:
    """People see the table and what failed, programs the whole checkup in the details of the error."""

    def show(output: object) -> None:
        output.progress_block(doctor_grid(checks(WORRIED)))  # type: ignore[attr-defined]
        output.failure("doctor", doctor_error(WORRIED, ()))  # type: ignore[attr-defined]

    out, err = written(mode, show, 80)
    golden(f"cli/runs_doctor_failed.{mode}.txt", err.encode())
    assert out == ""
    assert SECRET not in err
    if mode is Mode.JSON:
        assert json.loads(err)["error"]["details"]["valid"] is False


def test_events(golden: Golden) -> None:
    """One object a line: schema, name, time, data."""
    finished = ItemFinished(
        WorkItem(3, 1), 17, "0" * 32, Status.FAILED, None, f"timeout {SECRET}", 834.5, tokens=120, cost_usd=0.0003
    )
    progress = Progress(6, 4, 3, 1, 0, 4, 3, 2, 480, waiting=1, next_try_s=2.5)
    counts = Counts(**{name: getattr(progress, name) for name in Counts.__struct_fields__})
    at = "2026-11-30T16:05:10.000000Z"
    documents = (event_document(ITEM_FINISHED, at, finished_event(finished)), event_document(PROGRESS, at, counts))
    lines = [json_line(document, lambda text: text.replace(SECRET, "[REDACTED]")) for document in documents]
    golden("cli/events.jsonl", ("\n".join(lines) + "\n").encode())


@pytest.mark.parametrize("mode", list(Mode))
def test_a_log_that_is_followed(mode: Mode, golden: Golden) -> None:
    """A line an entry, each written at once; then, in JSON, an event that says it ended and, for people, a sentence."""
    entries, end = FOLLOWED

    def show(output: Output) -> None:
        for entry in entries:
            output.entry(entry)
        output.result(end)

    out, err = written(mode, show, 80)
    golden(f"cli/runs_logs_follow.{mode}.txt", out.encode())
    assert err == ""
    assert SECRET not in out
    assert "\x1b" not in out
    assert out.count("\n") == {Mode.RICH: 4, Mode.PLAIN: 3, Mode.JSON: 4}[mode]


RENDER_ALL = """
import io, sys
from osmosis.pure.redaction import Redactor
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.rich_text import RichText
from osmosis.shell.cli.audit_result import audit_result
from osmosis.shell.cli.run_result import plan_table
from tests.golden import test_cli, test_cli_audit
from tests.strategies.cli_commands import SUCCEEDED
from tests.strategies.cli_records import RESULTS
from tests.strategies.cli_reports import PLAN, REPORTS, WORKSPACE

SHOWN = {
    **RESULTS,
    **SUCCEEDED,
    **{f"run_{name}": test_cli.result_of(name) for name in REPORTS},
    **{f"verify_{name}": audit_result(report, WORKSPACE, ()) for name, report in test_cli_audit.REPORTS.items()},
}
EFFECTS = ("open", "os.", "socket.", "subprocess.", "time.sleep", "fcntl.", "shutil.", "glob.", "tempfile.")
seen, watching = [], False

def hook(event, arguments):
    if watching and event.startswith(EFFECTS):
        seen.append(f"{event} {arguments!r}")

def render():
    text = io.StringIO()
    for mode in Mode:
        for width in (40, 80, 120):
            output = Output(mode, text, text, Redactor(["sk-live-0123456789"]))
            output.rich_out = RichText(output.stdout, width=width)
            output.rich_err = RichText(output.stderr, width=width)
            output.progress_block(plan_table(PLAN, WORKSPACE))
            output.failure("eval run", test_cli.ERROR)
            output.warning("SOME_CODE", "something")
            for name in sorted(SHOWN):
                output.result(SHOWN[name])
    return text.getvalue()

sys.addaudithook(hook)
render()
watching = True
text = render()
watching = False
assert not seen, seen
sys.stdout.buffer.write(text.encode())
"""


def test_rendering_is_a_pure_function_of_the_record() -> None:
    """Rendering opens, starts, asks and waits for nothing, and says the same in another time zone, place and terminal."""
    outputs = set()
    for change in (
        {"TZ": "UTC", "TERM": "dumb"},
        {"TZ": "Asia/Tokyo", "TERM": "xterm-256color", "COLUMNS": "37", "LINES": "5"},
    ):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), "PYTHONUTF8": "1", **change}
        done = subprocess.run(
            [sys.executable, "-c", RENDER_ALL], capture_output=True, env=environment, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        outputs.add(done.stdout)
    assert len(outputs) == 1
