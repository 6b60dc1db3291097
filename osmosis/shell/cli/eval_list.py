"""`osmosis eval list`: the runs of a workspace, newest first (issue 9)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from osmosis.shell.cli.modes import UsageError
from osmosis.shell.cli.result import ListResult
from osmosis.shell.cli.run_list_result import run_list_result
from osmosis.shell.cli.run_options import OutputOption
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.run_list import list_runs
from osmosis.shell.evaluation.run_location import output_root

DEFAULT_LIMIT = 50

LimitOption = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=50), help="At most so many, 1 to 50 [50].")]
AllFlag = Annotated[bool, Parameter(name="--all", help="Show all of them.")]


def eval_list(*, limit: LimitOption = DEFAULT_LIMIT, everything: AllFlag = False, output: OutputOption = None) -> ListResult:
    """List runs. The help text stands in `app`, where it needs no import of this module."""
    if everything and limit != DEFAULT_LIMIT:
        raise UsageError("--limit and --all exclude each other.", hint="Pass one of them.")
    root = output_root(working_directory(), output)
    listing = list_runs(root, None if everything else limit)
    argv = ("osmosis", "eval", "list", *(("--output", str(output)) if output else ()))
    return run_list_result(listing.runs, listing.total, listing.archived, str(root), argv)
