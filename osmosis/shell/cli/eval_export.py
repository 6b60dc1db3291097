"""`osmosis eval export RUN --format F`: one run for somebody else's tool (issue 8)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from osmosis.pure.presentation import counted, relative_path, thousands
from osmosis.shell.cli.comparison_options import OutputOption
from osmosis.shell.cli.result import Block, Commands, OperationResult, Table
from osmosis.shell.cli.surroundings import needs_extra, working_directory

if TYPE_CHECKING:
    from osmosis.shell.evaluation.run_export import Exported

FormatOption = Annotated[
    Literal["parquet", "csv", "jsonl", "junit", "github"],
    Parameter(help="parquet, csv, jsonl: a line a sample; junit: XML; github: step summary and annotations."),
]
ToOption = Annotated[
    Path | None, Parameter(help="File to write [RUN.EXTENSION here; for github, the step's summary where there is one].")
]
OverwriteFlag = Annotated[bool, Parameter(help="Replace the file if it exists.")]


def eval_export(
    run: Annotated[str, Parameter(help="Name of a run, or path of a run directory.")],
    /,
    *,
    format: FormatOption,  # noqa: A002
    to: ToOption = None,
    overwrite: OverwriteFlag = False,
    output: OutputOption = None,
) -> OperationResult:
    """Export a run. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    with needs_extra("eval export"):
        from osmosis.shell.evaluation.run_export import ExportFormat, ExportRequest, export  # noqa: PLC0415 - brings polars
    return export_result(
        export(ExportRequest(directory, run, ExportFormat(format), to, output, overwrite), os.environ), str(directory)
    )


def export_result(exported: Exported, directory: str) -> OperationResult:
    """What was written where; for GitHub, its workflow commands too."""
    path = relative_path(exported.path, directory)
    facts = (("Run", exported.run_name), ("File", path), ("Samples", thousands(exported.samples)))
    blocks: tuple[Block, ...] = (Table("Export", facts),)
    if exported.annotations:
        blocks += (Commands(exported.annotations),)
    return OperationResult(
        operation="eval.export",
        status="success",
        resource=exported,
        message=f"Exported {counted(exported.samples, 'sample')} of {exported.run_name} as {exported.format} to {path}.",
        blocks=blocks,
    )
