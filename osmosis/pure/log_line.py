r"""Lines of `logs.txt`: `<time> <LEVEL> [<step>] <message>`, then perhaps details as canonical JSON (`eval_local.md` 1.2).

One event is one line, whatever its message holds. Colours and other terminal sequences of a child process are dropped, all
other steering characters are shown as escapes, and the finished line is redacted as a whole (E8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osmosis.pure.canonical import canonical_json, well_formed
from osmosis.pure.presentation import neutralise
from osmosis.pure.redaction import Redactor

MAX_LINE = 16_384
"""Characters of a child's line that are kept. What is longer is a dump, not a message."""

# ECMA-48: control sequences (colours, cursor), then strings that end in BEL or ST (titles, links), then two-byte sequences.
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]")
# A level near the start of a line, as loggers write it, and not the text of a message.
_ROUTINE = re.compile(r"""^.{0,80}?(?<![\w.'"])(?:INFO|DEBUG|TRACE)(?![\w.'"])""")
# `\x7f` is no escape of JSON; inside details these are spelled so that the JSON stays JSON.
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def log_line(
    at: str, level: str, step: str, message: str, details: Mapping[str, Any] | None = None, redactor: Redactor | None = None
) -> str:
    """One finished line, without its newline. Raises ValueError when a number in `details` is not finite."""
    details = dict(details) if details else None
    line = _line(at, level, step, message, details)
    # Redacted before it is escaped as well: a value that is itself JSON text would be escaped once more than is looked for.
    # Most lines hold no secret anywhere, so one search through everything comes first.
    if redactor is None or not redactor.concerns("\n".join((line, message, *_texts(details)))):
        return line
    redacted = None if details is None else redactor.json_value(details)
    return redactor.text(_line(at, level, step, redactor.text(message), redacted))


def _line(at: str, level: str, step: str, message: str, details: dict[str, Any] | None) -> str:
    line = f"{at} {level} [{step}] {harmless(message)}"
    return f"{line} {harmless(canonical_json(details).decode().translate(_JSON_CONTROLS))}" if details else line


def _texts(value: Any) -> Iterator[str]:
    """Every string among the values of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def harmless(text: str) -> str:
    r"""`text` on one line and without steering characters: terminal sequences dropped, others shown (`\x1b`, `\n`)."""
    return well_formed(neutralise(_TERMINAL_SEQUENCE.sub("", text)).replace("\n", "\\n"))


def telling(lines: Iterable[str], limit: int) -> tuple[str, ...]:
    """The last `limit` of a process's last lines that may tell why it ended: what loggers say below a warning is left out."""
    return tuple(line for line in lines if not _ROUTINE.search(line))[-limit:]


class LineSplitter:
    r"""Cuts a text that arrives in chunks into lines at `\n`, keeping at most `limit` characters of each.

    A longer line ends in a note of how many characters it lost. Memory is bounded by `limit`, however long a line gets.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._kept: list[str] = []
        self._length = 0
        self._lost = 0

    def feed(self, chunk: str) -> list[str]:
        r"""The lines that this chunk completes, without `\n` or `\r\n`."""
        *ends, rest = chunk.split("\n")
        lines = []
        for end in ends:
            self._add(end)
            lines.append(self._take())
        self._add(rest)
        return lines

    def finish(self) -> list[str]:
        """The last line, if it has no newline."""
        return [self._take()] if self._length or self._lost else []

    def _add(self, text: str) -> None:
        kept = text[: self._limit - self._length]
        self._lost += len(text) - len(kept)
        if kept:
            self._kept.append(kept)
            self._length += len(kept)

    def _take(self) -> str:
        line = "".join(self._kept).removesuffix("\r")
        if self._lost:
            line += f" [... {self._lost} more characters]"
        self._kept, self._length, self._lost = [], 0, 0
        return line
