"""A checkup as a command's result (contract `cli.md` section 4; issue 9)."""

from __future__ import annotations

import msgspec

from osmosis.pure.checkup import PLATFORM_PATHS, REQUIRED_PATHS, Check, Facts, Health, checks, worst
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.shell.cli.result import Grid, OperationResult

OPERATION = "doctor"
_BAD = (Health.ERROR, Health.WARNING)


class DoctorResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope, and the `details` of the error when a check fails."""

    workspace_directory: str | None
    git: bool
    workspace: None
    required_paths: tuple[str, ...]
    missing: tuple[str, ...]
    valid: bool
    fixed: tuple[str, ...]
    checks: tuple[Check, ...]


def doctor_grid(found: tuple[Check, ...]) -> Grid:
    """The checks as a table; every status is a word, so that no colour is needed to read it."""
    return Grid(
        "Checkup", ("Check", "Status", "Finding"), tuple((check.name, check.health.value, check.finding) for check in found)
    )


def doctor_resource(facts: Facts, fixed: tuple[str, ...]) -> DoctorResource:
    """The facts and checks as programs get them."""
    found = checks(facts)
    return DoctorResource(
        workspace_directory=facts.workspace,
        git=facts.git,
        workspace=None,
        required_paths=REQUIRED_PATHS + PLATFORM_PATHS,
        missing=facts.missing,
        valid=worst(found) is not Health.ERROR,
        fixed=fixed,
        checks=found,
    )


def doctor_result(facts: Facts, fixed: tuple[str, ...]) -> OperationResult:
    """The result when nothing stands in the way of a run."""
    found = checks(facts)
    warnings = [check for check in found if check.health is Health.WARNING]
    said = (
        "Everything is ready for a local run."
        if not warnings
        else f"Ready for a local run, with {_count(len(warnings), 'warning')}."
    )
    if fixed:
        said = f"Made {', '.join(fixed)}. {said}"
    hints = tuple(f"{check.name}: {check.hint}" for check in warnings if check.hint)
    return OperationResult(
        operation=OPERATION,
        status="success",
        resource=doctor_resource(facts, fixed),
        message="\n".join((said, *hints)),
        blocks=(doctor_grid(found),),
    )


def doctor_error(facts: Facts, fixed: tuple[str, ...]) -> OsmosisError:
    """The error when something does; the whole checkup stands in its details."""
    found = [check for check in checks(facts) if check.health is Health.ERROR]
    hints = [check.hint for check in found if check.hint]
    return OsmosisError(
        f"{_count(len(found), 'check')} of {len(checks(facts))} failed.",
        problems=[Problem(check.name, check.finding) for check in found],
        hint="\n".join(hints) or None,
        details=msgspec.to_builtins(doctor_resource(facts, fixed)),
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
