"""Files of `NAME=value` lines: `--secrets-file` and `.env` (E7; `eval_local.md` section 9).

The grammar is small on purpose. Blank lines and lines that begin with `#` are skipped; `export ` may come first; the first `=`
ends the name, which is an identifier; white space around the value is trimmed, then one pair of matching quotes. There are no
comments after a value, no escapes, no expansion, no values of several lines. The last line for a name wins.
"""

from __future__ import annotations

import re

import msgspec

from osmosis.pure.canonical import decode_utf8
from osmosis.pure.errors import OsmosisError, Problem

_EXPORT = re.compile(r"export[ \t]+")


class Secret(msgspec.Struct, frozen=True):
    """A variable and its value. The value does not show in a `repr`, so that no traceback tells it."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Secret({self.name!r}, ...)"


def parse_dotenv(data: bytes, label: str) -> tuple[Secret, ...]:
    """The variables of a file, in order of their last line. `label` names the file in errors.

    Raises OsmosisError with the number of every bad line, and never with its content, which may be a secret.
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(decode_utf8(data, label).split("\n"), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = _EXPORT.sub("", text, count=1).partition("=") if _EXPORT.match(text) else text.partition("=")
        name = name.strip()
        if not equals:
            problems.append(Problem(f"{label}:{number}", "not of the form NAME=value"))
        elif not (name.isascii() and name.isidentifier()):
            problems.append(Problem(f"{label}:{number}", "the text before = is not a variable name"))
        elif "\0" in value:
            problems.append(Problem(f"{label}:{number}", "a variable cannot hold a NUL character"))
        else:
            found.pop(name, None)
            found[name] = _unquoted(value.strip())
    if problems:
        raise OsmosisError(
            f"{label} is not a file of NAME=value lines.",
            problems=problems,
            hint="Write one variable a line, NAME=value. A value cannot span several lines.",
        )
    return tuple(Secret(name, value) for name, value in found.items())


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value
