"""A command tree whose commands end in every way a command can end, run by the real program."""

from __future__ import annotations

import msgspec
from cyclopts import App

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.cli.program import run_program
from osmosis.shell.cli.result import OperationResult

SECRET = "sk-test-0123456789abcdef"


class Nothing(msgspec.Struct, frozen=True):
    """An empty resource."""


def tree() -> App:
    """A command tree whose commands end in every way a command can end."""
    app = App(name="osmosis", help_format="plaintext")
    end = App(name="end")
    app.command(end)

    @end.command
    def well() -> OperationResult:
        return OperationResult("end.well", "success", Nothing(), f"all is well with {SECRET}")

    @end.command
    def badly() -> OperationResult:
        raise OsmosisError(f"no such thing as {SECRET}", code=ErrorCode.NOT_FOUND, hint=f"try without {SECRET}")

    @end.command
    def by_defect() -> OperationResult:
        raise ZeroDivisionError(f"divided {SECRET}\nby zero")

    @end.command
    def by_interrupt() -> OperationResult:
        raise KeyboardInterrupt

    @end.command
    def silently() -> None:
        return None

    return app


def main(arguments: list[str]) -> int:
    """Run one command line of this tree and return its exit code."""
    return run_program(arguments, tree)
