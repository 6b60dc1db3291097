"""What a command returns: one record that `present` renders as rich text, plain text or JSON.

A command builds the record and prints nothing. `resource` is for programs, `blocks` are for people; `message` and
`next_steps` are for both.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.report import NextStep
from osmosis.shell.cli.exit_codes import ExitCode


class Table(msgspec.Struct, frozen=True, tag=True):
    """Labelled values: a two-column table in rich output, `Label: value` lines in plain output."""

    title: str
    rows: tuple[tuple[str, str], ...]


class Section(msgspec.Struct, frozen=True, tag=True):
    """A list under a title, one entry a line."""

    title: str
    lines: tuple[str, ...]


class Quote(msgspec.Struct, frozen=True, tag=True):
    """Text of somebody else, such as the last lines of a child process: shown indented, its lines kept."""

    title: str
    text: str


class Grid(msgspec.Struct, frozen=True, tag=True):
    """A table of several columns under a header: ruled in rich output, tab-separated lines in plain output."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Commands(msgspec.Struct, frozen=True, tag=True):
    """Lines for a program that reads this output, such as the workflow commands of a CI: whole, unstyled, one a line."""

    lines: tuple[str, ...]


Block = Table | Section | Quote | Grid | Commands


class OperationResult(msgspec.Struct, frozen=True):
    """The result of a command that did something (contract `cli.md` section 1, "operation")."""

    operation: str
    status: str
    resource: msgspec.Struct
    message: str
    exit_code: ExitCode = ExitCode.SUCCESS
    blocks: tuple[Block, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
