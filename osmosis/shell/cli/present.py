"""One result, warning or error, rendered three ways. Nothing here writes; `output` does (issue 9; contract `cli.md` section 1).

Redaction comes first, on whole strings, before anything is cut, quoted or laid out in columns, so that no part of a secret
can hide behind a line break (E9). In JSON it touches string values alone: keys, numbers and structure stay (ruling 13).
Rich output lies in `rich_text`, so that JSON and plain output do not pay for importing rich.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from osmosis import __version__
from osmosis.pure.canonical import well_formed
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.presentation import clipped, first_line, neutralise, one_line, shell_line
from osmosis.shell.cli.result import (
    Block,
    CommandResult,
    Commands,
    DetailResult,
    Grid,
    ListResult,
    OperationResult,
    Quote,
    Script,
    Section,
    StreamEntry,
    StreamResult,
    Table,
)

Redact = Callable[[str], str]

SCHEMA_VERSION = 1
PROBLEM_LIMIT = 50
"""Problems shown to a person; JSON carries them all."""
QUOTED = 200
"""Characters of a quoted line in plain output, which has no width."""


def result_document(result: CommandResult) -> dict[str, Any]:
    """The JSON envelope of a result."""
    match result:
        case OperationResult():
            return {
                "schema_version": SCHEMA_VERSION,
                "status": result.status,
                "operation": result.operation,
                "resource": msgspec.to_builtins(result.resource),
                "message": result.message,
                "next_steps_structured": [msgspec.to_builtins(step) for step in result.next_steps],
            }
        case DetailResult():
            return {"schema_version": SCHEMA_VERSION, "data": msgspec.to_builtins(result.data)}
        case ListResult():
            return {
                "schema_version": SCHEMA_VERSION,
                "items": msgspec.to_builtins(result.items),
                "total_count": result.total_count,
                "has_more": result.has_more,
                "next_offset": result.next_offset,
                **(msgspec.to_builtins(result.extra) if result.extra is not None else {}),
            }
        case StreamResult():
            return event_document(result.event, result.at, result.data)


def event_document(event: str, at: str, data: msgspec.Struct) -> dict[str, Any]:
    """The JSON object of an event of a run (`eval run --json --events`). `at` is ISO 8601 UTC."""
    return {"schema_version": SCHEMA_VERSION, "event": event, "at": at, "data": msgspec.to_builtins(data)}


def warning_document(code: str, message: str) -> dict[str, Any]:
    """The JSON envelope of a warning."""
    return {
        "schema_version": SCHEMA_VERSION,
        "cli_version": __version__,
        "warning": {"code": code, "message": message},
    }


def error_document(command: str, error: OsmosisError) -> dict[str, Any]:
    """The JSON envelope of an error. `command` is the path walked in the command tree, `<root>` if none."""
    issues = [{"key": problem.key, "where": problem.where, "message": problem.message} for problem in error.problems]
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "cli_version": __version__,
        "error": {
            "code": str(error.code),
            "message": error.message,
            "details": {**error.details, "issues": issues} if issues else error.details,
            "hint": error.hint,
        },
    }


def interruption() -> OsmosisError:
    """What a program is told of a command that was interrupted before it had a result (ruling 12)."""
    return OsmosisError(
        "The command was interrupted before it had a result.", code=ErrorCode.INTERRUPTED, hint="Run the same command again."
    )


def json_line(document: Any, redact: Redact) -> str:
    """`document` as one line of ASCII JSON: valid in every locale, and with no character that could steer a terminal."""
    text = json.dumps(_scrubbed_json(document, redact), allow_nan=False, default=str)
    return text.replace("\x7f", "\\u007f")


def _scrubbed_json(value: Any, redact: Redact) -> Any:
    match value:
        case str():
            return well_formed(redact(value))
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {str(key): _scrubbed_json(item, redact) for key, item in value.items()}
        case list() | tuple():
            return [_scrubbed_json(item, redact) for item in value]
        case None | bool() | int() | float():
            return value
        case _:
            return well_formed(redact(str(value)))


def scrubbed(result: CommandResult, redact: Redact) -> CommandResult:
    """`result` with everything that people read redacted and harmless to a terminal."""
    steps = tuple(
        msgspec.structs.replace(step, label=one_line(redact(step.label)), argv=tuple(map(redact, step.argv)))
        for step in result.next_steps
    )
    message = neutralise(redact(result.message))
    if isinstance(result, ListResult):
        rows = tuple(tuple(one_line(redact(cell)) for cell in row) for row in result.rows)
        lines = tuple(one_line(redact(line)) for line in result.lines)
        title = one_line(redact(result.title))
        return msgspec.structs.replace(result, title=title, message=message, rows=rows, lines=lines, next_steps=steps)
    if isinstance(result, StreamResult):
        return msgspec.structs.replace(result, message=message, next_steps=steps)
    blocks = tuple(scrubbed_block(block, redact) for block in result.blocks)
    return msgspec.structs.replace(result, message=message, blocks=blocks, next_steps=steps)


def scrubbed_block(block: Block, redact: Redact) -> Block:
    """`block` with every string redacted, titles too since they may name a thing, and on one line except in quotes."""

    def line(text: str) -> str:
        return one_line(redact(text))

    match block:
        case Table(title, rows):
            return Table(line(title), tuple((line(label), line(value)) for label, value in rows))
        case Section(title, lines, quotes):
            return Section(line(title), tuple(map(line, lines)), tuple(first_line(redact(quote)) for quote in quotes))
        case Quote(title, text):
            return Quote(line(title), neutralise(redact(text)))
        case Grid(title, header, rows):
            return Grid(line(title), tuple(map(line, header)), tuple(tuple(map(line, row)) for row in rows))
        case Commands(lines):
            return Commands(tuple(map(line, lines)))
        case Script(text):
            return Script(redact(text))


def plain_result(result: CommandResult) -> Iterator[str]:
    """A scrubbed result as plain lines: message, `Label: value` lines, sections, next steps as `label: command`.

    Of a list its rows alone, a line each, cells between tabs, without a header. Of a stream nothing: its rows were written.
    """
    if isinstance(result, StreamResult):
        return
    if isinstance(result, ListResult):
        yield from ("\t".join(row) for row in result.rows)
        return
    if isinstance(result, OperationResult):
        yield from result.message.splitlines()
    # Tables first, whatever their place in rich output: a long list must not push the numbers out of sight.
    for block in sorted(result.blocks, key=lambda block: not isinstance(block, Table)):
        yield from plain_block(block)
    if isinstance(result, DetailResult):
        yield from result.message.splitlines()
    for step in result.next_steps:
        yield f"{step.label}: {shell_line(step.argv)}"


def plain_block(block: Block) -> Iterator[str]:
    """A scrubbed block as plain lines. A table's title is not shown: its labels speak for themselves."""
    match block:
        case Table(_, rows):
            yield from (f"{label}: {value}" for label, value in rows)
        case Section(title, lines, quotes):
            yield f"{title}:"
            for line, quote in zip_longest(lines, quotes, fillvalue=""):
                yield line
                if quote:
                    yield f"  {clipped(quote, QUOTED)}"
        case Quote(title, text):
            yield f"{title}:"
            yield from (f"  {line}" for line in text.splitlines())
        case Grid(title, header, rows):
            yield f"{title}:"
            yield from ("\t".join(cells) for cells in (header, *rows))
        case Commands(lines):
            yield from lines
        case Script(text):
            yield from text.splitlines()


def scrubbed_entry(entry: StreamEntry, redact: Redact) -> StreamEntry:
    """`entry` with everything that people read redacted and on one line."""
    cells = tuple(one_line(redact(cell)) for cell in entry.cells)
    return msgspec.structs.replace(entry, cells=cells, line=one_line(redact(entry.line)))


def error_lines(error: OsmosisError, redact: Redact) -> list[str]:
    """An error for people: the message, and its problems indented below it."""
    first, *rest = neutralise(redact(error.message)).split("\n")
    shown = [f"  {one_line(redact(str(problem)))}" for problem in error.problems[:PROBLEM_LIMIT]]
    if (hidden := len(error.problems) - len(shown)) > 0:
        shown.append(f"  ... and {hidden} more")
    return [f"Error: {first}", *(f"  {line}" for line in rest), *shown]


def hint_line(hint: str, redact: Redact) -> str:
    """What to do next. Further lines stand below the first."""
    return "Hint: " + neutralise(redact(hint)).replace("\n", "\n      ")
