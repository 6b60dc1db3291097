"""What a command returns: one record that `present` renders as rich text, plain text or JSON.

A command builds the record and prints nothing. There are three kinds, one for each envelope of the contract (`cli.md` section
1): an operation did something, a detail shows one thing, a list shows many. `resource`, `data` and `items` are for programs;
`blocks`, `columns` and `rows` for people.
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
    """A list under a title, one entry a line.

    `quotes` is what somebody else said of each of the first entries. Its first line is shown below the entry, cut where the
    terminal's line ends; an empty one is not shown.
    """

    title: str
    lines: tuple[str, ...]
    quotes: tuple[str, ...] = ()


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


class Script(msgspec.Struct, frozen=True, tag=True):
    """Text of ours that another program runs, such as a completion script: written as it is, to the byte."""

    text: str


Block = Table | Section | Quote | Grid | Commands | Script


class OperationResult(msgspec.Struct, frozen=True):
    """The result of a command that did something (contract `cli.md` section 1, "operation")."""

    operation: str
    status: str
    resource: msgspec.Struct
    message: str
    exit_code: ExitCode = ExitCode.SUCCESS
    blocks: tuple[Block, ...] = ()
    next_steps: tuple[NextStep, ...] = ()


class DetailResult(msgspec.Struct, frozen=True):
    """One thing, looked at (contract, "detail"). `message` is a last sentence for people; it is not in JSON."""

    operation: str
    data: msgspec.Struct
    blocks: tuple[Block, ...] = ()
    message: str = ""
    next_steps: tuple[NextStep, ...] = ()
    exit_code: ExitCode = ExitCode.SUCCESS


class Column(msgspec.Struct, frozen=True):
    """A column of a list. Where a terminal is too narrow for all, those of the lowest `weight` are left out first."""

    title: str
    weight: int = 0


class ListResult(msgspec.Struct, frozen=True):
    """One page of a list (contract, "list").

    `items` are for programs, `rows` for people, cell by cell under `columns`; both have the same length. With `lines` rich
    output shows those instead of a table. `extra` adds keys to the envelope. `message` is a last sentence for people in rich
    output; plain output is the rows alone.
    """

    operation: str
    title: str
    items: tuple[msgspec.Struct, ...]
    total_count: int
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    has_more: bool = False
    next_offset: int | None = None
    extra: msgspec.Struct | None = None
    lines: tuple[str, ...] = ()
    message: str = ""
    next_steps: tuple[NextStep, ...] = ()
    exit_code: ExitCode = ExitCode.SUCCESS


class StreamEntry(msgspec.Struct, frozen=True):
    """One piece of a result that is written as it comes into being: in JSON an event, `cells` in plain and `line` in rich
    output. `at` is ISO 8601 UTC."""

    event: str
    at: str
    data: msgspec.Struct
    cells: tuple[str, ...]
    line: str


class StreamResult(msgspec.Struct, frozen=True):
    """The end of a result that was written piece by piece: in JSON a last event, a last sentence in rich output alone."""

    operation: str
    event: str
    at: str
    data: msgspec.Struct
    message: str
    next_steps: tuple[NextStep, ...] = ()
    exit_code: ExitCode = ExitCode.SUCCESS


CommandResult = OperationResult | DetailResult | ListResult | StreamResult
