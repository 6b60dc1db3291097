"""Draws the live view of a run as an SVG for the documents, from records like those of the example workspace.

    python -m scripts.terminal_picture [docs/pictures/live-view.svg]

rich itself draws the picture, and its words come from the code that draws the view on a terminal, so it cannot lie about it.
Fonts that rich would fetch from a network are taken out.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from osmosis.pure.journal import WorkItem
from osmosis.pure.report import Progress
from osmosis.pure.scoreboard import SlowItem, Standing
from osmosis.shell.cli.live import rendered

COLUMNS, ROWS = 88, 12
DEFAULT = Path("docs/pictures/live-view.svg")

STANDING = Standing(
    progress=Progress(
        total=256,
        done=151,
        succeeded=147,
        failed=4,
        skipped=0,
        scored=151,
        passed=46,
        in_flight=16,
        tokens=68_694,
    ),
    elapsed_s=74.2,
    left_s=51.6,
    low=0.208,
    high=0.401,
    failures=(("timeout", 3), ("agent_error", 1)),
    cost_usd=0.0412,
    slowest=(SlowItem(WorkItem(37, 2), 21_400.0, running=True), SlowItem(WorkItem(8, 0), 18_200.0)),
)


class View:
    """The standing as a renderable."""

    def __rich_console__(self, console: Console, options: object) -> object:
        """Rich asks for it."""
        return rendered(STANDING, console, options)  # type: ignore[arg-type]


def picture() -> str:
    """The SVG."""
    console = Console(
        record=True, width=COLUMNS, height=ROWS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Text.assemble(("$ ", "dim"), "osmosis eval run configs/eval/word-problems.toml"))
    for line in ("checking model openai/smollm2-135m-instruct", "rollout server healthy on port 41233"):
        console.print(Text.assemble(("\N{RIGHTWARDS ARROW} ", "cyan"), line))
    console.print(View())
    drawn = console.export_svg(title="osmosis", unique_id="osmosis-live-view")
    return re.sub(r"@font-face \{[^}]*\}\s*", "", drawn)


def main(arguments: list[str]) -> int:
    """Write the picture and say where it is."""
    target = Path(arguments[0]) if arguments else DEFAULT
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture(), encoding="utf-8")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
