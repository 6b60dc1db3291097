"""Pages of `logs.txt`, newest first, lines in order within a page (contract `cli.md` sections 1 and 3, `eval_local.md` 1.2).

A cursor is the offset of the first byte that was already shown; the next page ends there. Offsets of an append-only file stay
valid while a run goes on.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from osmosis.pure.errors import OsmosisError, Problem

_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\S+) ([A-Z]+) \[([^\]]*)\] ?(.*)", re.DOTALL)
_DETAILS_TRIED = 8
"""Places in a message where its details may begin; a message with more braces keeps them."""
LONGEST_LINE = 1 << 20
"""Bytes of a line that are waited for. Ours are far shorter."""


class LogEntry(msgspec.Struct, frozen=True):
    """One line. `timestamp` is ISO 8601 UTC; a line that is none of ours is a message alone."""

    timestamp: str | None
    level: str | None
    step: str | None
    message: str
    details: dict[str, Any] | None = None


class LogPage(msgspec.Struct, frozen=True):
    """Entries in the order of the file; `cursor` leads to the page before this one, None at the beginning of the log."""

    entries: tuple[LogEntry, ...]
    cursor: int | None = None


def parse_entry(line: str) -> LogEntry:
    """A line of the log, without its newline."""
    match = _LINE.fullmatch(line)
    if match is None:
        return LogEntry(None, None, None, line)
    message, details = _split_details(match[4])
    return LogEntry(match[1], match[2], match[3], message, details)


def _split_details(text: str) -> tuple[str, dict[str, Any] | None]:
    if not text.endswith("}"):
        return text, None
    begin = -1
    for _ in range(_DETAILS_TRIED):
        begin = text.find("{", begin + 1)
        if begin < 0:
            break
        if begin and text[begin - 1] != " ":
            continue
        try:
            details = msgspec.json.decode(text[begin:])
        except msgspec.MsgspecError:
            continue
        return text[: begin - 1] if begin else "", details
    return text, None


def page_of(tail: bytes, start: int, limit: int) -> LogPage | None:
    """The last `limit` lines of `tail`, whose first byte stands at offset `start` of the log.

    None if `tail` holds fewer whole lines and is not the log from its beginning: more of the log is needed.
    """
    lines = tail.removesuffix(b"\n").split(b"\n") if tail else []
    if start > 0 and len(lines) <= limit:
        return None
    shown = lines[-limit:]
    kept = len(tail) - sum(len(line) + 1 for line in shown) + (not tail.endswith(b"\n"))
    offset = start + max(kept, 0)
    entries = tuple(parse_entry(line.decode(errors="replace")) for line in shown)
    return LogPage(entries, offset if offset > 0 and entries else None)


def whole_lines(data: bytes) -> tuple[tuple[LogEntry, ...], bytes]:
    """The entries of the lines that end in `data`, and what is left for the next call: the beginning of a line.

    A beginning longer than `LONGEST_LINE` is taken for a line of its own, so that no file can make a reader hold all of it.
    """
    *lines, rest = data.split(b"\n")
    if len(rest) > LONGEST_LINE:
        lines, rest = [*lines, rest], b""
    return tuple(parse_entry(line.decode(errors="replace")) for line in lines), rest


def decode_cursor(text: str, size: int) -> int:
    """The offset that a cursor stands for. Raises OsmosisError when it is none of a log of `size` bytes."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and 0 < int(text) <= size:
        return int(text)
    raise OsmosisError(
        f"{text!r} is not a cursor of this log.",
        problems=[Problem("--cursor", "must be the next_cursor of an earlier page of the same run", "cursor")],
        hint="Leave --cursor out for the newest page.",
    )
