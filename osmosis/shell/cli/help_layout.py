"""How help is laid out: boxes where there is room for them, otherwise plain lines with a hanging indent (issue 9).

Plain output and narrow terminals get the same lines. A name of an option is never broken, so that it can be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from osmosis.shell.cli.modes import Mode

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

NARROW = 60
"""Columns below which boxes leave too little room for the longest option beside its description."""


class HelpLayout:
    """A formatter for the command framework, which calls it once for each group of commands, arguments or options."""

    def __init__(self, mode: Mode) -> None:
        self._plain = mode is not Mode.RICH

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel."""
        if not self._plain and console.width >= NARROW:
            from cyclopts.help.formatters import DefaultFormatter  # noqa: PLC0415 - with the help alone

            DefaultFormatter()(console, options, panel)
            return
        entries = [line for entry in panel.entries for line in _entry_lines(entry, console.width)]
        if entries:
            _print(console, "\n".join([f"{panel.title}:", *entries, ""]))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the line that shows how the command is written."""
        if usage:
            words = str(usage).strip().removeprefix("Usage:").strip()
            _print(console, f"Usage: {words}\n")


def _entry_lines(entry: HelpEntry, width: int) -> list[str]:
    """`--name STR: what it does`, wrapped between words."""
    import textwrap  # noqa: PLC0415 - with the help alone

    labels = ", ".join(entry.display_labels_with_metavar)
    choices = f"[choices: {', '.join(entry.choices)}]" if entry.choices else ""
    parts = (_text(entry.description), choices, "[required]" if entry.required else "")
    said = f"{labels}: {' '.join(part for part in parts if part)}"
    return textwrap.wrap(
        said, width, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _text(description: Any) -> str:
    """The words of a description, whatever the framework wrapped them in."""
    rendered = getattr(description, "primary_renderable", description)
    return str(getattr(rendered, "plain", rendered) or "").strip()


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False)
