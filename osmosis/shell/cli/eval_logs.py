"""`osmosis eval logs NAME`: a page of a run's redacted log, the newest unless `--cursor` says otherwise (issue 9)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from osmosis.pure.canonical import canonical_json
from osmosis.pure.log_page import LogEntry, LogPage
from osmosis.pure.presentation import UNDEFINED
from osmosis.pure.report import NextStep
from osmosis.shell.cli.result import Column, ListResult
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.evaluation.run_logs import read_log_page

OPERATION = "eval.logs"

LimitOption = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=200), help="At most so many, 1 to 200 [50].")]
CursorOption = Annotated[str | None, Parameter(help="The next_cursor of an earlier page: show what stands before it.")]

COLUMNS = (Column("Time", 2), Column("Level", 1), Column("Step", 3), Column("Message", 4))


class LogExtra(msgspec.Struct, frozen=True):
    """The key beside the list. It leads to the older page; null at the beginning of the log."""

    next_cursor: str | None


def eval_logs(
    run: RunArgument, /, *, limit: LimitOption = 50, cursor: CursorOption = None, output: OutputOption = None
) -> ListResult:
    """Show a log. The help text stands in `app`, where it needs no import of this module."""
    directory = locate_run(run, working_directory(), output)
    older = ("osmosis", "eval", "logs", run, "--limit", str(limit), *(("--output", str(output)) if output else ()))
    return logs_result(read_log_page(directory, limit, cursor), directory.name, older)


def logs_result(page: LogPage, name: str, older: tuple[str, ...]) -> ListResult:
    """A page as a result; `older` is the command that, with a cursor behind it, shows the page before."""
    cursor = None if page.cursor is None else str(page.cursor)
    return ListResult(
        operation=OPERATION,
        title=f"Log of {name}",
        items=page.entries,
        total_count=len(page.entries),
        columns=COLUMNS,
        rows=tuple(map(_cells, page.entries)),
        has_more=cursor is not None,
        extra=LogExtra(cursor),
        lines=tuple(map(_line, page.entries)),
        message="" if page.entries else f"The log of {name} is empty.",
        next_steps=() if cursor is None else (NextStep("logs", "Older lines", (*older, "--cursor", cursor)),),
    )


def _cells(entry: LogEntry) -> tuple[str, ...]:
    return entry.timestamp or UNDEFINED, entry.level or UNDEFINED, entry.step or UNDEFINED, _message(entry)


def _line(entry: LogEntry) -> str:
    head = f"{entry.timestamp} {entry.level:<7} [{entry.step}] " if entry.timestamp else ""
    return head + _message(entry)


def _message(entry: LogEntry) -> str:
    details = canonical_json(entry.details).decode() if entry.details else ""
    return " ".join(part for part in (entry.message, details) if part)
