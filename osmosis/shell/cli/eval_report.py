"""`osmosis eval report NAME`: a run as one HTML file that needs nothing else (issue 9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from osmosis.pure.presentation import relative_path, thousands
from osmosis.shell.cli.comparison_options import ForceFlag
from osmosis.shell.cli.result import OperationResult, Table
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import needs_extra, working_directory

if TYPE_CHECKING:
    from osmosis.shell.evaluation.run_report import Reported

ToOption = Annotated[Path | None, Parameter(help="File to write [report.html in the run directory].")]
BaselineOption = Annotated[str | None, Parameter(help="Compare with this run too: a name, or path of a run directory.")]
OverwriteFlag = Annotated[bool, Parameter(help="Replace the file named by --to if it exists.")]


def eval_report(
    run: RunArgument,
    /,
    *,
    to: ToOption = None,
    baseline: BaselineOption = None,
    force: ForceFlag = False,
    overwrite: OverwriteFlag = False,
    output: OutputOption = None,
) -> OperationResult:
    """Write the report of a run. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    with needs_extra("eval report"):
        from osmosis.shell.evaluation.run_report import ReportRequest, report  # noqa: PLC0415 - brings polars
    request = ReportRequest(directory, run, to, baseline, output, force, overwrite)
    return report_result(report(request), str(directory))


def report_result(reported: Reported, directory: str) -> OperationResult:
    """What was written where."""
    path = relative_path(reported.path, directory)
    facts = (
        ("Run", reported.run_name),
        ("File", path),
        ("Samples", thousands(reported.samples)),
        ("Size", f"{thousands(reported.bytes)} bytes"),
        ("Compared With", reported.compared_with or ""),
    )
    return OperationResult(
        operation="eval.report",
        status="success",
        resource=reported,
        message=f"Wrote the report of {reported.run_name} to {path}.",
        blocks=(Table("Report", tuple((name, value) for name, value in facts if value)),),
    )
