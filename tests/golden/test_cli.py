"""Exact text of results, plans and errors in every output mode, at three widths, rendered without running anything."""

import io
import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import msgspec
import pytest
from rich.cells import cell_len

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.redaction import Redactor
from osmosis.pure.report import RunStatus
from osmosis.shell.cli.invocation import next_steps
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.rich_text import RichText
from osmosis.shell.cli.run_result import plan_table, run_result
from tests.strategies.cli_reports import INVOCATION, PLAN, REPORTS, WORKSPACE, failed_row, report

SECRET = "sk-live-0123456789"
WIDTHS = (40, 80, 120)

Golden = Callable[[str, bytes], None]

ERROR = OsmosisError(
    "The eval config is not valid.",
    code=ErrorCode.VALIDATION,
    problems=[
        Problem("configs/eval/x.toml:3", "unknown key `modle_path`; did you mean `model_path`?", "experiment.modle_path"),
        Problem("configs/eval/x.toml:9", f"must be a whole number, not '{SECRET}\x1b[0m'", "evaluation.n"),
    ],
    hint="Correct the file and run the command again.",
    details={"path": "configs/eval/x.toml"},
)


def result_of(case: str) -> OperationResult:
    """The result of the report `case`, with its next steps."""
    report = REPORTS[case]
    return run_result(msgspec.structs.replace(report, next_steps=next_steps(INVOCATION, report)), WORKSPACE)


def written(mode: Mode, show: Callable[[Output], None], width: int | None = None) -> tuple[str, str]:
    """What `show` writes to standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(mode, out, err, Redactor([SECRET]))
    if width is not None:
        output.rich_out = RichText(output.stdout, width=width)
        output.rich_err = RichText(output.stderr, width=width)
    show(output)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", sorted(REPORTS))
def test_rich_results(case: str, width: int, golden: Golden) -> None:
    """Tables fit the width; commands and paths are never broken by us; nothing but text, for there is no terminal."""
    out, err = written(Mode.RICH, lambda output: output.result(result_of(case)), width)
    golden(f"cli/{case}.rich-{width}.txt", out.encode())
    assert err == ""
    assert all(len(line) <= width for line in out.splitlines() if line[:1] in "╭│╰─")


@pytest.mark.parametrize("case", sorted(REPORTS))
def test_plain_results(case: str, golden: Golden) -> None:
    """The message first, then `Label: value` lines, lists, and next steps."""
    out, err = written(Mode.PLAIN, lambda output: output.result(result_of(case)))
    golden(f"cli/{case}.plain.txt", out.encode())
    assert err == ""
    assert out.startswith(result_of(case).message[:4])


@pytest.mark.parametrize("case", sorted(REPORTS))
def test_json_results(case: str, golden: Golden) -> None:
    """One line of strict JSON on standard output, whatever the rows contain."""
    out, err = written(Mode.JSON, lambda output: output.result(result_of(case)))
    golden(f"cli/{case}.json", out.encode())
    assert err == ""
    assert out.count("\n") == 1
    assert json.loads(out)["status"] == REPORTS[case].status


@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_a_failed_rows_message_stands_below_it_on_one_line(width: int) -> None:
    """Of a long message as much as fits, also where letters are two columns wide; what was cut is seen to be cut."""
    results = result_of("success"), result_of("hostile")
    shown = [written(Mode.RICH, partial(Output.result, result=result), width)[0] for result in results]
    lines = [line for out in shown for line in out.splitlines()]
    said = [below for line, below in pairwise(lines) if " run " in line and ": timeout -> " in line and below.startswith("  ")]
    assert len(said) == 4
    assert all(cell_len(line) <= width for line in said)
    cut = {20: 4, 40: 2, 80: 2, 300: 1}[width]
    assert sum(line.endswith("\N{HORIZONTAL ELLIPSIS}") for line in said) == cut
    assert "Traceback" not in shown[0]


def test_a_secret_is_redacted_before_a_message_is_cut() -> None:
    """Also where it spans the first line's end, or would be cut in two."""
    secrets = "key\nwith a line break", "0123456789abcdef"
    row = msgspec.structs.replace(failed_row(0), error_message=f"bad {secrets[0]} {'x' * 160} {secrets[1]} {secrets[1]}")
    result = run_result(report(RunStatus.SUCCESS, failed_rows=(row,)), WORKSPACE)
    for width in range(20, 260, 7):
        out = io.StringIO()
        output = Output(Mode.RICH, out, io.StringIO(), Redactor(secrets))
        output.rich_out = RichText(output.stdout, width=width)
        output.result(result)
        assert "bad [REDACTED]"[: width - 3] in out.getvalue()
        assert "key" not in out.getvalue()
        assert "0123" not in out.getvalue()


@pytest.mark.parametrize("mode", list(Mode))
def test_errors(mode: Mode, golden: Golden) -> None:
    """One message, every problem with its place, the hint; the secret and the escape sequence are gone."""
    out, err = written(mode, lambda output: output.failure("eval run", ERROR), 80)
    golden(f"cli/error.{mode}.txt", err.encode())
    assert out == ""
    assert SECRET not in err
    assert "\x1b" not in err


@pytest.mark.parametrize("width", WIDTHS)
def test_the_plan_in_rich_output(width: int, golden: Golden) -> None:
    """The plan goes to standard error, so that standard output holds the result alone."""
    out, err = written(Mode.RICH, lambda output: output.progress_block(plan_table(PLAN, WORKSPACE)), width)
    golden(f"cli/plan.rich-{width}.txt", err.encode())
    assert out == ""


def test_the_plan_in_the_other_modes(golden: Golden) -> None:
    """Plain lines in plain mode, silence in JSON."""
    _, err = written(Mode.PLAIN, lambda output: output.progress_block(plan_table(PLAN, WORKSPACE)))
    golden("cli/plan.plain.txt", err.encode())
    assert written(Mode.JSON, lambda output: output.progress_block(plan_table(PLAN, WORKSPACE))) == ("", "")


def test_long_lists_are_cut_for_people_and_whole_for_programs() -> None:
    """Of 24 failed rows a person sees 20 and where the others are; JSON has them all."""
    plain, _ = written(Mode.PLAIN, lambda output: output.result(result_of("all_failed")))
    assert plain.count(": agent_error -> ") == 20
    assert "... and 4 more; all of them are in .osmosis/evals/quiet-otter-12/index.jsonl" in plain
    document, _ = written(Mode.JSON, lambda output: output.result(result_of("all_failed")))
    assert len(json.loads(document)["resource"]["failed_rows"]) == 24
