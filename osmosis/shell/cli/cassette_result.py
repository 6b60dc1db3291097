"""What the `cassette` commands found, as results: a JSON resource for programs, tables and lists for people.

Pure functions of records; the effects are in `cassette`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from osmosis.pure.cassette import Cassette
from osmosis.pure.cassette_report import CallLine, Contents, Difference, call_lines, contents
from osmosis.pure.presentation import relative_path, thousands
from osmosis.shell.cli.result import Block, OperationResult, Section, Table

CALL_LIMIT = 20
"""Calls shown to a person; JSON has them all."""
_DIGEST_SHOWN = 12
"""Hex digits that tell requests of one cassette apart."""


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


def inspect_result(path: str, cassette: Cassette) -> OperationResult:
    """What the cassette at `path` holds."""
    held, lines = contents(cassette), call_lines(cassette)
    return OperationResult(
        operation="cassette.inspect",
        status="success",
        resource=InspectResource(path, held, lines),
        message=f"{thousands(len(lines))} recorded call{'' if len(lines) == 1 else 's'}.",
        blocks=(_contents_table(held), *_call_sections((("Calls", lines),))),
    )


def prune_result(path: str, target: str, part: Cassette, removed: int, base: str) -> OperationResult:
    """The `part` that was kept and written to `target`; `removed` calls were not. The path for people is relative to `base`."""
    held = contents(part)
    return OperationResult(
        operation="cassette.prune",
        status="success",
        resource=PruneResource(path, target, held.calls, removed, held),
        message=f"Kept {thousands(held.calls)} call{'' if held.calls == 1 else 's'}, removed {thousands(removed)}: "
        f"{relative_path(target, base)}",
        blocks=(_contents_table(held),),
    )


def diff_result(first: str, second: str, difference: Difference) -> OperationResult:
    """How the cassettes at these two paths differ."""
    groups = (("Removed", difference.removed), ("Added", difference.added), ("Changed", difference.changed))
    counts = ", ".join(f"{thousands(len(lines))} {title.lower()}" for title, lines in groups)
    return OperationResult(
        operation="cassette.diff",
        status="same" if difference.same else "different",
        resource=DiffResource(first, second, difference.same, difference),
        message="Both cassettes answer alike."
        if difference.same
        else f"{counts}, {thousands(difference.unchanged)} unchanged.",
        blocks=tuple(_call_sections(groups)),
    )


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
    return Table("Cassette", tuple((label, value) for label, value in rows if value))


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
    return f"row {line.row} run {line.run}{again}: {kind}{tokens}, request {line.digest.rpartition(':')[2][:_DIGEST_SHOWN]}"
