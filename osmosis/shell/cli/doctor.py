"""`osmosis doctor [PATH]`: is everything here that a local run needs, and can the configured models be reached? (issue 9)"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from osmosis.pure.checkup import PLATFORM_PATHS, REQUIRED_PATHS, Facts, Health, checks, worst
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.checkup.look import gather, git_top_level, workspace_at
from osmosis.shell.checkup.mend import ignore_results, make_directories
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.doctor_result import doctor_error, doctor_grid, doctor_result
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.surroundings import working_directory

FixFlag = Annotated[bool, Parameter(help="Make missing directories, and let git ignore .osmosis/.")]


def doctor(
    path: Annotated[Path, Parameter(help="A directory in the workspace [.].")] = Path(),
    /,
    *,
    fix: FixFlag = False,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Check up. The help text stands in `app`, where it needs no import of this module."""
    start = (working_directory() / path.expanduser()).resolve()
    if not start.is_dir():
        raise OsmosisError(f"{path} is not a directory.", code=ErrorCode.NOT_FOUND, hint="Name a directory of a workspace.")
    facts = gather(start, os.environ)
    fixed = tuple(_mend(start, facts)) if fix else ()
    if fixed:
        facts = gather(start, os.environ)
    if worst(checks(facts)) is Health.ERROR:
        terminal.progress_block(doctor_grid(checks(facts)))
        raise doctor_error(facts, fixed)
    return doctor_result(facts, fixed)


def _mend(start: Path, facts: Facts) -> list[str]:
    """What is safe to mend: directories of the workspace around `start`, or else of its repository, or else of itself."""
    workspace = workspace_at(start) or git_top_level(start) or start
    try:
        made = make_directories(workspace, (*REQUIRED_PATHS, *PLATFORM_PATHS))
        return made + (ignore_results(workspace) if facts.ignored is False else [])
    except OSError as error:
        raise OsmosisError(
            f"{error.filename or workspace} cannot be written: {error.strerror or error}.", hint="Check the permissions."
        ) from None
