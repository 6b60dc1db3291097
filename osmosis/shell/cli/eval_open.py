"""`osmosis eval open NAME`: a run's report, or else its directory, in the program that the desktop has for it (issue 9)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from osmosis.pure.presentation import relative_path
from osmosis.shell.cli.result import OperationResult, Table
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.opening import Opened, open_path

OPERATION = "eval.open"
REPORT = "report.html"


class OpenResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope. `program` is null where this machine has nothing to open files with."""

    run_name: str
    path: str
    target: str
    opened: bool
    program: str | None


def eval_open(run: RunArgument, /, *, output: OutputOption = None) -> OperationResult:
    """Open a run. The help text stands in `app`, where it needs no import of this module."""
    base = working_directory()
    directory = locate_run(run, base, output)
    report = directory.path / REPORT
    target = report if report.is_file() and not report.is_symlink() else directory.path
    return open_result(directory.name, target, open_path(target, sys.platform, os.environ), str(base))


def open_result(name: str, target: Path, opened: Opened, base: str) -> OperationResult:
    """What was opened, or where it lies. Nothing to open with is not an error: the path is what was asked for."""
    kind = "report" if target.name == REPORT else "directory"
    shown = relative_path(str(target), base)
    done = opened.fault is None
    message = f"Opened the {kind} of {name}." if done else f"The {kind} of {name} was not opened: {opened.fault}."
    return OperationResult(
        operation=OPERATION,
        status="success" if done else "noop",
        resource=OpenResource(name, str(target), kind, done, opened.program),
        message=message,
        blocks=(Table("Open", (("Run", name), ("Path", shown))),),
    )
