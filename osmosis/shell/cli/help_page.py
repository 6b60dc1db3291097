"""Help as a page of records, and how it is laid out (issue 9).

The pages of all commands lie ready in `help_pages.json`, which a test keeps equal to the tree of commands (`just golden` writes
it), so that help is shown before the command framework is imported. Hence this module imports next to nothing, and its records
are those of `json`. Where a page is not found there, `help_capture` makes it from the tree, and it looks the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from osmosis.shell.cli.stream import SteadyStream

HELP_FLAGS = ("--help", "-h")
PAGES_FILE = os.path.join(os.path.dirname(__file__), "help_pages.json")

NARROW = 60
"""Columns below which a second column leaves too little room for words."""
_LABELS_MOST = 24
"""Columns of the labels beside which a description begins; behind a longer one it begins on the next line."""

_ANYWHERE = (
    ("--json", "Write the result, warnings and errors as JSON, one object a line."),
    ("--plain", "Write plain lines: no tables, no colour, no questions."),
    ("--help, -h", "Show help on the command before it."),
)
_AT_ROOT = (("--version, -V", "Show the version."),)


class Section(TypedDict):
    """Commands, arguments or options under a title: a label and what it means."""

    title: str
    entries: list[tuple[str, str]]


class Page(TypedDict):
    """Help on one command or group. `description` is paragraphs between blank lines."""

    path: str
    usage: str
    description: str
    group: bool
    sections: list[Section]


def page_asked_for(words: Sequence[str]) -> Page | None:
    """The page for a command line without its mode flags: a path and a help flag, or a group alone. None for any other line."""
    asked = bool(words) and words[-1] in HELP_FLAGS
    path = words[:-1] if asked else words
    if not (asked or len(path) < 2) or any(" " in word for word in path):
        return None
    import json  # noqa: PLC0415 - for help alone

    try:
        with open(PAGES_FILE, encoding="ascii") as file:
            pages: dict[str, Page] = json.load(file)
    except (OSError, ValueError):
        return None  # the tree has all pages, too
    page = pages.get(" ".join(path))
    return page if page is not None and (asked or page["group"]) else None


def write_page(page: Page, stream: SteadyStream, *, plain: bool, environment: Mapping[str, str]) -> None:
    """Write a page as the terminal behind `stream` can show it."""
    seen = stream.isatty() and environment.get("TERM", "").lower() not in ("dumb", "unknown")
    styled = seen and not plain and not environment.get("NO_COLOR")
    stream.write(page_text(page, _width(stream, environment), plain=plain, styled=styled))
    stream.flush()


def page_text(page: Page, width: int, *, plain: bool = False, styled: bool = False) -> str:
    """A page in `width` columns: two columns, or one in plain output and where two do not fit. `styled` adds colours."""
    lines = _wrapped(f"Usage: {page['usage']}", width, "  ")
    for paragraph in page["description"].split("\n\n"):
        lines += ["", *_wrapped(paragraph, width)]
    anywhere = [*_ANYWHERE, *([] if page["path"] else _AT_ROOT)]
    sections = [*page["sections"], Section(title="Global options", entries=anywhere)]
    labels = max((len(label) for section in sections for label, _ in section["entries"]), default=0)
    for section in sections:
        lines += ["", _styled(f"{section['title']}:", "1", on=styled)]
        for label, text in section["entries"]:
            if plain or width < NARROW:
                lines += _wrapped(f"  {label}: {text}", width, "    ")
            else:
                lines += _beside(label, text, min(labels, _LABELS_MOST), width, styled=styled)
    return "\n".join(lines) + "\n"


def _beside(label: str, text: str, room: int, width: int, *, styled: bool) -> Iterator[str]:
    """A label and, in the column behind `room`, what it means."""
    indent = " " * (room + 4)
    first, *rest = _wrapped(text, width - len(indent)) or [""]
    shown = "  " + _styled(label, "36", on=styled)
    if len(label) > room:
        yield shown
        yield f"{indent}{first}"
    else:
        yield f"{shown}{' ' * (room - len(label) + 2)}{first}".rstrip()
    yield from (f"{indent}{line}" for line in rest)


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """`text` in lines of `width` columns, broken between words; further lines behind `indent`. Spaces at its start stay."""
    start = text[: len(text) - len(text.lstrip())]
    lines: list[str] = []
    line = ""
    for word in text.split():
        if not line:
            line = start + word
        elif len(line) + 1 + len(word) <= width:
            line += f" {word}"
        else:
            lines.append(line)
            line = indent + word
    return [*lines, line] if line else lines


def _styled(text: str, code: str, *, on: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if on else text


def _width(stream: SteadyStream, environment: Mapping[str, str]) -> int:
    """The columns of the terminal; `COLUMNS` wins, 80 where there is none."""
    said = environment.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
