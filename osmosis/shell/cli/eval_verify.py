"""`osmosis eval verify RUN`: flags in, the audit called, its report out (issue 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from osmosis.pure.finding import AuditReport
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.audit_result import audit_result
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.surroundings import needs_extra, working_directory

RepairFlag = Annotated[bool, Parameter(help="Rebuild what follows from the journal; cut off a torn last record.")]
DatasetOption = Annotated[Path | None, Parameter(help="The run's dataset, to compare dataset_rows.jsonl with.")]
OutputOption = Annotated[
    Path | None, Parameter(name=("--output", "-o"), help="Directory for run directories [.osmosis/evals].")
]


def eval_verify(
    run: Annotated[str, Parameter(help="Name of a run, or path of a run directory.")],
    /,
    *,
    repair: RepairFlag = False,
    dataset_file: DatasetOption = None,
    output: OutputOption = None,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Audit a run directory. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    with needs_extra("eval verify"):
        report = _verify(run, directory, output, dataset_file, repair=repair)
    argv = _repair_argv(run, output, dataset_file)
    return audit_result(report, str(directory), argv)


def _verify(run: str, directory: Path, output: Path | None, dataset_file: Path | None, *, repair: bool) -> AuditReport:
    from osmosis.shell.evaluation.verify import VerifyRequest, verify_run  # noqa: PLC0415 - brings polars

    return verify_run(VerifyRequest(run, directory, output, dataset_file, repair))


def _repair_argv(run: str, output: Path | None, dataset_file: Path | None) -> tuple[str, ...]:
    values = (("--output", output), ("--dataset-file", dataset_file))
    options = (f"{flag}={value}" for flag, value in values if value is not None)
    return ("osmosis", "eval", "verify", f"./{run}" if run.startswith("-") else run, "--repair", *options)
