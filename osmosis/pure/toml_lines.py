"""Which line each key of a TOML document stands on, so that a complaint about a value can say where to look.

`tomllib` reads values and forgets positions. This module walks over text that `tomllib` has already accepted (TOML 1.0) and
records the line of every table header and key; it decides nothing about values. Serves the config errors of contract `cli.md`
section 5.
"""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY_PART = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
# Everything that a value can be made of, longest opening first: multi-line strings may end in up to two quotes of their own.
_VALUE_PART = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|(?P<open>[\[{])"
    r"|(?P<close>[\]}])"
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|[^\"'\[\]{}#\n]+",
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Map each table and key path to the line, from 1, where it first appears.

    `text` must be valid TOML (ValueError otherwise, where the walk notices). Keys inside inline tables and arrays share the
    line of the key that holds them and are not listed; tables of an array share the entry of the first one.
    """
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    line, position = 1, 0
    while True:
        start = _match(_BLANK, text, position)
        line += text.count("\n", position, start)
        position = start
        if position == len(text):
            return found
        if text[position] == "[":
            brackets = 2 if text.startswith("[[", position) else 1
            table, end = _read_key(text, position + brackets)
            end += brackets
            _note(found, (), table, line)
        else:
            key, end = _read_key(text, position)
            _note(found, table, key, line)
            end = _skip_value(text, end + 1)
        line += text.count("\n", position, end)
        position = end


def _note(found: dict[KeyPath, int], table: KeyPath, key: KeyPath, line: int) -> None:
    for length in range(1, len(key) + 1):
        found.setdefault(table + key[:length], line)


def _read_key(text: str, position: int) -> tuple[KeyPath, int]:
    """The dotted key at `position` and the offset just behind it."""
    parts: list[str] = []
    while True:
        match = _KEY_PART.match(text, position)
        if match is None:
            raise ValueError(f"no TOML key at offset {position}")
        parts.append(_unquote(match[1]))
        position = match.end()
        if not text.startswith(".", position):
            return tuple(parts), position
        position += 1


def _unquote(part: str) -> str:
    return next(iter(tomllib.loads(f"{part} = 0"))) if part[0] in "\"'" else part


def _skip_value(text: str, position: int) -> int:
    """The offset of the newline (or the end of the text) that ends the value at `position`."""
    depth = 0
    while position < len(text):
        match = _VALUE_PART.match(text, position)
        if match is None:
            raise ValueError(f"no TOML value at offset {position}")
        if match["newline"] and not depth:
            return position
        depth += bool(match["open"]) - bool(match["close"])
        position = match.end()
    return position


def _match(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position
