"""Results and lines in rich text: tables, rules, colour. No information is carried by colour alone.

Text always travels as `Text`, never as markup: a `[red]` that a model wrote is just letters. rich itself honours NO_COLOR, a
dumb terminal, and the width of the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from textwrap import wrap
from typing import IO, cast

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text

from osmosis.pure.presentation import joined, shell_line
from osmosis.shell.cli.present import scrubbed, scrubbed_block
from osmosis.shell.cli.result import (
    Block,
    Column,
    CommandResult,
    Commands,
    Grid,
    ListResult,
    Quote,
    Script,
    Section,
    StreamResult,
    Table,
)
from osmosis.shell.cli.stream import SteadyStream

_COLUMNS_UNNAMED = 2
"""Columns behind the first that speak for themselves, as those of a checkup do."""
_USUAL_WIDTH = 80
NARROW = 60
"""Columns below which tables become lines."""
_RULE_LEAST = 4
"""Columns of a rule behind its title."""
_CELL_MARGIN = 3
"""Columns that a cell takes besides its text: a blank on either side and a rule."""


def renderables_of_result(result: CommandResult, width: int) -> Iterator[RenderableType]:
    """A scrubbed result for a terminal of `width` columns: the tables and sections, then the message, then the next steps,
    where eyes are at the end."""
    if isinstance(result, ListResult):
        yield from _list(result, width)
    elif not isinstance(result, StreamResult):
        for block in result.blocks:
            yield from renderables_of_block(block, width)
    if result.message:
        yield _prose(result.message, style="bold")
    if result.next_steps:
        yield Text("\nNext steps", style="bold")
    for step in result.next_steps:
        yield Text(f"  {step.label}:", style="dim")
        yield Text.assemble("    ", (shell_line(step.argv), "cyan"))


def _list(result: ListResult, width: int) -> Iterator[RenderableType]:
    if result.lines:
        yield from map(_prose, result.lines)
    elif result.rows:
        shown = fitting_columns(result.columns, result.rows, width)
        header = tuple(result.columns[number].title for number in shown)
        yield _grid(result.title, header, tuple(tuple(row[number] for number in shown) for row in result.rows))


def fitting_columns(columns: tuple[Column, ...], rows: tuple[tuple[str, ...], ...], width: int) -> tuple[int, ...]:
    """The numbers of the columns that fit into `width` unwrapped, in order; the heaviest one always stays."""
    needs = [max(map(cell_len, (column.title, *cells))) for column, *cells in zip(columns, *rows, strict=True)]
    shown = sorted(range(len(columns)), key=lambda number: (-columns[number].weight, number))
    while len(shown) > 1 and 1 + sum(needs[number] + _CELL_MARGIN for number in shown) > width:
        shown.pop()
    return tuple(sorted(shown))


def renderables_of_block(block: Block, width: int) -> Iterator[RenderableType]:
    """A scrubbed block for a terminal of `width` columns."""
    match block:
        case Table(title, rows):
            yield from _narrow_table(title, rows, width) if width < NARROW else [_table(title, rows)]
        case Section(title, lines, quotes):
            # A rule cuts its title where it has no room for it.
            fits = cell_len(title) + _RULE_LEAST <= width
            yield Rule(Text(title, style="bold"), style="dim", align="left") if fits else _prose(title, style="bold")
            for line, quote in zip_longest(lines, quotes, fillvalue=""):
                yield _prose(line)
                if quote:
                    yield _cut(f"  {quote}", width)
        case Quote(title, text):
            yield Text(f"{title}:", style="bold")
            yield from (Text(f"  {line}") for line in text.splitlines())
        case Grid(title, header, rows):
            named = [(cells[0], _named(header[1:], cells[1:])) for cells in rows]
            yield from _narrow_table(title, named, width) if width < NARROW else [_grid(title, header, rows)]
        case Commands(lines):
            yield from map(Text, lines)
        case Script(text):
            yield from map(Text, text.splitlines())


def _table(title: str, rows: Iterable[tuple[str, str]]) -> RichTable:
    table = RichTable(
        title=Text(title, style="bold"), title_justify="left", box=box.ROUNDED, show_header=False, border_style="dim"
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(label, style="dim"), Text(value))
    return table


def _narrow_table(title: str, rows: Iterable[tuple[str, str]], width: int) -> Iterator[RenderableType]:
    """Labelled values where boxes would break every second word: a line each, with what does not fit indented below it."""
    yield Text(title, style="bold")
    for label, value in rows:
        lines = wrap(f"{label}: {value}", width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        shown = Text("\n".join(lines))
        shown.stylize("dim", 0, len(label) + 1)
        yield shown


def _named(header: tuple[str, ...], cells: tuple[str, ...]) -> str:
    """`Baseline 50.0% · Candidate 50.0%`: the cells of a row with the names of their columns, where there are many."""
    if len(header) <= _COLUMNS_UNNAMED:
        return joined(cells)
    return joined(f"{name} {cell}".strip() for name, cell in zip(header, cells, strict=True) if cell)


def _grid(title: str, header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> RichTable:
    grid = RichTable(
        title=Text(title, style="bold"), title_justify="left", box=box.ROUNDED, border_style="dim", header_style="dim"
    )
    for name in header:
        grid.add_column(Text(name), overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


class RichText:
    """Rich text on one stream."""

    def __init__(self, stream: SteadyStream, *, width: int | None = None) -> None:
        """`width` in columns; by default the terminal's, or 80 where there is none."""
        self._stream = stream
        self.console = Console(file=cast(IO[str], stream), highlight=False, markup=False, emoji=False, width=width)
        if self.console.width < 1:
            self.console.width = _USUAL_WIDTH  # COLUMNS=0 means that nobody knows, and would show nothing
        # What is no terminal now never becomes one: lines need neither styles nor wrapping there, and a run has many.
        self._unstyled = not self.console.is_terminal

    def result(self, result: CommandResult) -> None:
        """Write a scrubbed result."""
        self._write(renderables_of_result(scrubbed(result, self._stream.spelled), self.console.width))

    def block(self, block: Block) -> None:
        """Write a scrubbed block."""
        self._write(renderables_of_block(scrubbed_block(block, self._stream.spelled), self.console.width))

    def line(self, text: str, emphasis: str = "", emphasised: int | None = None, *, prose: bool = True) -> None:
        """Write one line; `emphasis` styles its first `emphasised` characters, or all of it. `prose` wraps between words."""
        if self._unstyled and text.isprintable():
            self.console.file.write(f"{text}\n")
            self.console.file.flush()
            return
        text = self._stream.spelled(text)
        styled = _prose(text) if prose else Text(text)
        if emphasis:
            styled.stylize(emphasis, 0, emphasised)
        self._write([styled])

    def _write(self, renderables: Iterable[RenderableType]) -> None:
        for renderable in renderables:
            # Commands, and everything that goes to a file, keep their line ends; a terminal wraps them so that they can be
            # copied whole.
            prose = isinstance(renderable, Text) and renderable.overflow == "ignore" and self.console.is_terminal
            soft_wrap = isinstance(renderable, Text) and not prose
            self.console.print(renderable, soft_wrap=soft_wrap, crop=False)
        self.console.file.flush()


def _cut(text: str, width: int) -> Text:
    """Text on one line of at most `width` columns; an ellipsis stands for what was cut."""
    shown = Text(text, style="dim")
    shown.truncate(width, overflow="ellipsis")
    return shown


def _prose(text: str, style: str = "") -> Text:
    """Text that wraps between words on a terminal. A word that is too long, such as a path, is left whole."""
    return Text(text, style=style, overflow="ignore")
