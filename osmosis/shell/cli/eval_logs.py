"""`osmosis eval logs NAME`: a page of a run's redacted log, the newest unless `--cursor` says otherwise; with `--follow` what a
run that is going on writes (issue 9)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from osmosis.pure.run_overview import RunState
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.logs_result import entry_of, followed_result, logs_result
from osmosis.shell.cli.modes import UsageError
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import CommandResult
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_follow import follow_log
from osmosis.shell.evaluation.run_list import overview_of
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.evaluation.run_logs import read_log_page

LimitOption = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=200), help="At most so many, 1 to 200 [50].")]
CursorOption = Annotated[str | None, Parameter(help="The next_cursor of an earlier page: show what stands before it.")]
FollowFlag = Annotated[
    bool, Parameter(name=("--follow", "-f"), help="Then show further lines as they come, until the run has ended.")
]


def eval_logs(
    run: RunArgument,
    /,
    *,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
    follow: FollowFlag = False,
    output: OutputOption = None,
    terminal: Annotated[Output, INJECTED],
) -> CommandResult:
    """Show a log. The help text stands in `app`, where it needs no import of this module."""
    if follow and cursor is not None:
        raise UsageError("--follow and --cursor exclude each other.", hint="Pass one of them.")
    directory = locate_run(run, working_directory(), output)
    if follow:
        return _follow(directory, limit, terminal)
    older = ("osmosis", "eval", "logs", run, "--limit", str(limit), *(("--output", str(output)) if output else ()))
    return logs_result(read_log_page(directory, limit, cursor), directory.name, older)


def _follow(directory: RunDirectory, limit: int, terminal: Output) -> CommandResult:
    """Show lines until the run has ended, or nobody reads them any more."""
    shown = 0
    for entries in follow_log(directory, limit):
        for entry in entries:
            terminal.entry(entry_of(entry, utc_now()))
        shown += len(entries)
        if terminal.stdout.fault is not None:
            break
    state = overview_of(directory).state if directory.manifest.is_file() else RunState.UNREADABLE
    return followed_result(directory.name, state, shown, utc_now())
