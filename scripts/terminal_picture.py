"""A picture of a command as it really looks on a terminal: run it on one, and draw what stands there at a chosen moment.

`film` gives the child a pseudo-terminal and keeps the screen (pyte); `drawn` turns a screen into an SVG (rich). Nothing in the
picture is written by hand. Fonts that rich would have a browser fetch from a network are taken out.
"""

from __future__ import annotations

import copy
import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.text import Text

COLUMNS, ROWS = 92, 24
PATIENCE_S = 120.0
"""A child that writes nothing for so long is taken for stuck."""

_WIPE = re.compile(rb"(?=\r\x1b\[2K)")
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}
_FONT = re.compile(r"@font-face \{[^}]*\}\s*")


def film(
    command: Sequence[str],
    moment: Callable[[pyte.Screen], bool],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    size: tuple[int, int] = (COLUMNS, ROWS),
) -> pyte.Screen:
    """Run `command` on a terminal of `size` (columns, rows) to its end; the screen as it was when `moment` first held.

    Raises RuntimeError if the command fails, is stuck, or ends before that.
    """
    columns, rows = size
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **(environment or {})}
    kept: pyte.Screen | None = None
    with subprocess.Popen(command, cwd=directory, env=variables, stdin=slave, stdout=slave, stderr=slave) as child:
        os.close(slave)
        while data := _read(master):
            # A quick command draws several screens before one read; each is whole just before it is wiped away.
            for piece in _WIPE.split(data):
                stream.feed(piece)
                if kept is None and moment(screen):
                    kept = copy.deepcopy(screen)
        os.close(master)
    shown = "\n".join(screen.display).rstrip()
    if child.returncode != 0 or kept is None:
        raise RuntimeError(f"{command[0]} ended with exit code {child.returncode} and showed:\n{shown}")
    return kept


def _read(master: int) -> bytes:
    if not select.select([master], [], [], PATIENCE_S)[0]:
        raise RuntimeError(f"nothing was written for {PATIENCE_S:.0f} seconds")
    try:
        return os.read(master, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def drawn(screen: pyte.Screen, title: str, identity: str) -> str:
    """The screen as an SVG, without the empty lines below. `identity` begins the names inside: a page may hold several."""
    lines = [_line(screen, number) for number in range(screen.lines)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(
        record=True,
        width=screen.columns,
        height=len(lines),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, no_wrap=True, overflow="crop", crop=True)
    return _FONT.sub("", console.export_svg(title=title, unique_id=identity))


def _line(screen: pyte.Screen, number: int) -> Text:
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    text = Text()
    for style, alike in groupby(cells, _style):
        text.append("".join(cell.data for cell in alike), style)
    return text


def _style(cell: Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return _NAMES.get(name, name.replace("bright", "bright_"))
