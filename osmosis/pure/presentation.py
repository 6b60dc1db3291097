r"""How values are spelled for people: durations, rates, rewards, paths, shell words, and text that is safe on a terminal.

One spelling of each, so that the live line, the results table and the plain output never disagree (contract `eval_local.md`
section 12). Rates come from integer counts and are honest at the ends: 100 % and 0 % are shown only where they are exact.

Text from models and child processes is data. `neutralise` turns every character that could steer a terminal, or reorder the
line it stands in, into a visible escape such as `\x1b` (issue 9; Unicode TR 36 for the bidirectional controls).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

UNDEFINED = "\N{EN DASH}"
"""What stands where a number has no value."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
"""What stands where text was cut."""

_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional marks, embeddings, overrides, isolates
    "\u2028\u2029"  # line and paragraph separator
    "\ud800-\udfff"  # lone surrogates: bytes of a file name that are not UTF-8
)
_UNSAFE = re.compile(f"[{_STEERING}]")
_UNSAFE_WORD = re.compile(f"[\t\n{_STEERING}]")
_BREAKS = re.compile(r"[\t\n\r\v\f\x85\u2028\u2029 ]+")
_LINE_END = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
_EXPONENT_FROM = 1e9
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")

_SHELL_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def neutralise(text: str) -> str:
    r"""`text` with every steering character as a visible escape. Newlines and tabs stay; `\r\n` becomes `\n`. Idempotent."""
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """`neutralise`, with each run of white space as one space and none at the ends: for table cells and list entries."""
    return _UNSAFE.sub(_visible, _BREAKS.sub(" ", text).strip())


def first_line(text: str) -> str:
    """The first line of `text` that says something, as `one_line` shows it; empty where none does."""
    return next(filter(None, map(one_line, _LINE_END.split(text))), "")


def clipped(text: str, length: int) -> str:
    """`text` in at most `length` characters; an ellipsis stands for what was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + ELLIPSIS


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def duration(milliseconds: float) -> str:
    """`12.3s` below a minute, then `2m 5s`, `1h 2m`, `3d 4h`. Negative and non-finite times are undefined."""
    if not math.isfinite(milliseconds) or milliseconds < 0:
        return UNDEFINED
    tenths = math.floor(milliseconds / 100 + 0.5)
    if tenths < 600:
        return f"{tenths // 10}.{tenths % 10}s"
    seconds = math.floor(milliseconds / 1000 + 0.5)
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60}s"
    minutes = seconds // 60
    if minutes < 24 * 60:
        return f"{minutes // 60}h {minutes % 60}m"
    hours = minutes // 60
    return f"{hours // 24}d {hours % 24}h"


def clock(seconds: float) -> str:
    """Elapsed time for a display that ticks: `0:00:07`, `27:03:00`."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def moment(timestamp: str) -> str:
    """`2026-11-30 16:05 UTC` of an ISO 8601 UTC time; undefined when it is none."""
    found = _MOMENT.match(timestamp)
    return f"{found[1]} {found[2]} UTC" if found else UNDEFINED


def percent(part: int, whole: int, *, decimals: int = 1) -> str:
    """`part / whole` in percent, halves rounded up. `100%` only if part equals whole, `0%` only if part is 0."""
    if whole <= 0:
        return UNDEFINED
    scale = 10**decimals
    units = (2 * part * 100 * scale + whole) // (2 * whole)
    if 0 < part < whole:
        units = min(max(units, 1), 100 * scale - 1)
    return f"{units // scale}.{units % scale:0{decimals}d}%" if decimals else f"{units}%"


def counted(number: int, word: str) -> str:
    """`1 row`, `2,000 rows`: a count and a word whose plural ends in s."""
    return f"{thousands(number)} {word}{'' if number == 1 else 's'}"


def thousands(count: int) -> str:
    """`1,234,567`."""
    return f"{count:,}"


def decimal(value: float, places: int = 3) -> str:
    """A fixed number of decimals, without a negative zero; very large values in exponent form; undefined if not finite."""
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:.{places}e}" if abs(value) >= _EXPONENT_FROM else f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def relative_path(path: str, base: str) -> str:
    """`path` relative to `base` where it lies below it, otherwise unchanged. `.` for `base` itself. Looks at no file system."""
    try:
        return str(PurePosixPath(path).relative_to(PurePosixPath(base)))
    except ValueError:
        return path


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, with a middle dot between them."""
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)


def shell_word(argument: str) -> str:
    r"""`argument` quoted for a POSIX shell. One that holds control characters is written `$'...'` (bash, zsh, POSIX 2024), so
    that it can be shown on a terminal and still means the same bytes when pasted."""
    if not _UNSAFE_WORD.search(argument):
        return shlex.quote(argument)
    return "$'" + "".join(map(_shell_character, argument)) + "'"


def _shell_character(character: str) -> str:
    if escaped := _SHELL_ESCAPES.get(character):
        return escaped
    if not _UNSAFE_WORD.match(character):
        return character
    # Octal takes at most three digits, so unlike \x it cannot swallow the character that follows.
    raw = character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in raw)


def shell_line(arguments: Iterable[str]) -> str:
    """A command line that means exactly `arguments` when pasted into a POSIX shell, on one printable line."""
    return " ".join(map(shell_word, arguments))
