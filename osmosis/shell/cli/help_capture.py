"""Help pages from the tree of commands: what the framework would print is caught before it is laid out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cyclopts import App

from osmosis.shell.cli.help_page import Page, Section

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions


class _Capture:
    """A formatter of the framework that keeps what it is given."""

    def __init__(self) -> None:
        self.usage = ""
        self.description = ""
        self.sections: list[Section] = []

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Keep one panel, without flags such as --help, which stand on every page."""
        entries = [_entry(entry) for entry in panel.entries]
        wanted = [entry for entry in entries if panel.format == "parameter" or not entry[0].startswith("-")]
        if wanted:
            self.sections.append(Section(title=str(panel.title), entries=wanted))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Keep the line that shows how the command is written."""
        self.usage = " ".join(str(usage).removeprefix("Usage:").split())

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Keep what the command does."""
        console.print(description, soft_wrap=True)
        assert isinstance(console.file, io.StringIO)
        self.description = "\n\n".join(" ".join(part.split()) for part in console.file.getvalue().strip().split("\n\n"))


def _entry(entry: HelpEntry) -> tuple[str, str]:
    choices = f"[choices: {', '.join(entry.choices)}]" if entry.choices else ""
    parts = (_text(entry.description), choices, "[required]" if entry.required else "")
    return ", ".join(entry.display_labels_with_metavar), " ".join(part for part in parts if part)


def _text(description: Any) -> str:
    """The words of a description, whatever the framework wrapped them in."""
    rendered = getattr(description, "primary_renderable", description)
    return " ".join(str(getattr(rendered, "plain", rendered) or "").split())


def page_of(app: App, path: Iterable[str]) -> Page:
    """The page of the command or group at `path` below the root `app`."""
    from rich.console import Console  # noqa: PLC0415 - the framework renders through it

    path = tuple(path)
    capture = _Capture()
    app.help_formatter = capture
    app.help_print(list(path), console=Console(file=io.StringIO(), width=1000, color_system=None))
    target = app
    for word in path:
        target = target[word]
    return Page(
        path=" ".join(path),
        usage=capture.usage,
        description=capture.description,
        group=target.default_command is None,
        sections=capture.sections,
    )


def encode_pages(pages: Iterable[Page]) -> bytes:
    """The content of `help_pages.json`. ASCII, since help is shown in every locale."""
    return json.dumps({page["path"]: page for page in pages}, indent=1).encode("ascii") + b"\n"
