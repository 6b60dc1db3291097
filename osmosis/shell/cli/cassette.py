"""`osmosis cassette inspect|prune|diff`: look at recorded model calls, keep a part of them, compare two recordings.

No workspace, no key and no model is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from osmosis.pure.cassette import Cassette
from osmosis.pure.cassette_report import CallLine, Contents, Difference, call_lines, compare, contents, pruned
from osmosis.pure.presentation import neutralise, relative_path, thousands
from osmosis.pure.selection import parse_rows
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import Block, OperationResult, Section, Table
from osmosis.shell.cli.surroundings import needs_extra, working_directory

CALL_LIMIT = 20
"""Calls shown to a person; JSON has them all."""

FileArgument = Annotated[Path, Parameter(help="A cassette file.")]


class InspectResource(msgspec.Struct, frozen=True):
    """The `resource` of `cassette inspect`."""

    path: str
    contents: Contents
    calls: tuple[CallLine, ...]


class PruneResource(msgspec.Struct, frozen=True):
    """The `resource` of `cassette prune`."""

    path: str
    output_path: str
    kept: int
    removed: int
    contents: Contents


class DiffResource(msgspec.Struct, frozen=True):
    """The `resource` of `cassette diff`."""

    first_path: str
    second_path: str
    same: bool
    difference: Difference


def cassette_inspect(file: FileArgument, /, *, terminal: Annotated[Output, INJECTED]) -> OperationResult:
    """Show what a cassette holds. The help text stands in `app`, where it needs no import of this module."""
    del terminal
    path = working_directory() / file.expanduser()
    cassette = _load(path, "cassette inspect")
    lines = call_lines(cassette)
    return OperationResult(
        operation="cassette.inspect",
        status="success",
        resource=InspectResource(str(path), contents(cassette), lines),
        message=f"{thousands(len(lines))} recorded calls.",
        blocks=(_contents_table(contents(cassette)), *_call_sections((("Calls", lines),))),
    )


def cassette_prune(
    file: FileArgument,
    /,
    *,
    rows: Annotated[str | None, Parameter(help="Dataset rows to keep, from 0: 3,7,10-20.")] = None,
    runs: Annotated[
        int | None, Parameter(help="How many runs of each row to keep.", validator=validators.Number(gte=1))
    ] = None,
    drop_refusals: Annotated[bool, Parameter(help="Drop recorded refusals of the model (4xx).")] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write the result here instead of replacing FILE.")
    ] = None,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Keep a part of a cassette, in its normal form. The help text stands in `app`."""
    del terminal
    directory = working_directory()
    path = directory / file.expanduser()
    target = path if output is None else directory / output.expanduser()
    selection = parse_rows(rows) if rows else None
    with needs_extra("cassette prune"):
        from osmosis.shell.bridge.cassette_file import load_cassette, open_locked, write_cassette  # noqa: PLC0415 - aiohttp

        whole = load_cassette(path)
        part = pruned(
            whole, rows=selection.__contains__ if selection else lambda _: True, runs=runs, refusals=not drop_refusals
        )
        with open(open_locked(target), "wb", buffering=0):
            write_cassette(target, part)
    removed = len(whole.calls) - len(part.calls)
    return OperationResult(
        operation="cassette.prune",
        status="success",
        resource=PruneResource(str(path), str(target), len(part.calls), removed, contents(part)),
        message=f"Kept {thousands(len(part.calls))} calls, removed {thousands(removed)}: "
        f"{neutralise(relative_path(str(target), str(directory)))}",
        blocks=(_contents_table(contents(part)),),
    )


def cassette_diff(
    first: Annotated[Path, Parameter(help="A cassette file.")],
    second: Annotated[Path, Parameter(help="The cassette file to compare it with.")],
    /,
    *,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Say which recorded calls differ. The help text stands in `app`."""
    del terminal
    directory = working_directory()
    paths = [directory / file.expanduser() for file in (first, second)]
    difference = compare(*(_load(path, "cassette diff") for path in paths))
    groups = (("Removed", difference.removed), ("Added", difference.added), ("Changed", difference.changed))
    counts = ", ".join(f"{thousands(len(lines))} {title.lower()}" for title, lines in groups)
    return OperationResult(
        operation="cassette.diff",
        status="same" if difference.same else "different",
        resource=DiffResource(str(paths[0]), str(paths[1]), difference.same, difference),
        message="Both cassettes answer alike."
        if difference.same
        else f"{counts}, {thousands(difference.unchanged)} unchanged.",
        blocks=tuple(_call_sections(groups)),
    )


def _load(path: Path, command: str) -> Cassette:
    with needs_extra(command):
        from osmosis.shell.bridge.cassette_file import load_cassette  # noqa: PLC0415 - brings aiohttp

        return load_cassette(path)


def _contents_table(held: Contents) -> Table:
    rows = (
        ("Model", held.model),
        ("Recorded From", held.recorded_from),
        ("Recorded At", held.created_at),
        ("Calls", thousands(held.calls)),
        ("Different Requests", thousands(held.requests)),
        ("Rows", thousands(held.rows)),
        ("Runs", thousands(held.runs)),
        ("Streams", thousands(held.streams) if held.streams else ""),
        ("Refusals", thousands(held.refusals) if held.refusals else ""),
        ("Tokens", "" if held.tokens is None else thousands(held.tokens)),
        ("Digest", held.digest),
    )
    return Table("Cassette", tuple((label, neutralise(value)) for label, value in rows if value))


def _call_sections(groups: tuple[tuple[str, tuple[CallLine, ...]], ...]) -> Iterator[Block]:
    for title, lines in groups:
        if lines:
            shown = tuple(map(_call_text, lines[:CALL_LIMIT]))
            more = (f"... and {thousands(len(lines) - CALL_LIMIT)} more; --json lists them all",)
            yield Section(title, shown + (more if len(lines) > CALL_LIMIT else ()))


def _call_text(line: CallLine) -> str:
    kind = "stream" if line.stream else f"status {line.status}"
    tokens = "" if line.tokens is None else f", {thousands(line.tokens)} tokens"
    again = f" (repeat {line.ordinal})" if line.ordinal else ""
    return f"row {line.row} run {line.run}{again}: {kind}{tokens}, {line.digest}"
