"""The progress of a run on standard error: one live line on a terminal, one line an item otherwise (`eval_local.md` 12).

Neither shows in plain or JSON mode. The texts are functions of the records; only the live line asks for the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from osmosis.pure.presentation import clock, decimal, duration, joined, one_line, percent, thousands
from osmosis.pure.report import ItemFinished, Progress
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.run_result import item_label

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

REFRESHES_PER_SECOND = 8
_BAR_FROM = 12
"""Columns below which a bar says less than its numbers."""


class Display(Protocol):
    """Follows the progress of one run."""

    def item(self, finished: ItemFinished) -> None:
        """An item became durable; the progress that counts it follows."""
        ...

    def progress(self, progress: Progress) -> None:
        """The counts changed."""
        ...

    def close(self) -> None:
        """The run is over: leave the terminal as it was found. May be called twice."""
        ...


def display_for(output: Output) -> Display:
    """The display that suits the mode and the terminal."""
    if output.mode is not Mode.RICH:
        return SilentDisplay()
    if output.rich_err.console.is_terminal and not output.rich_err.console.is_dumb_terminal:
        return LiveLine(output)
    return ItemLines(output)


class SilentDisplay:
    """Shows nothing."""

    def item(self, finished: ItemFinished) -> None:
        """Nothing."""

    def progress(self, progress: Progress) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def standing(progress: Progress) -> tuple[str, ...]:
    """What the live line says besides `done/total`, most important first. Failed and skipped only where there are some."""
    return tuple(
        text
        for text, shown in (
            (f"pass {percent(progress.passed, progress.scored, decimals=0)}", True),
            (f"failed {thousands(progress.failed)}", progress.failed > 0),
            (f"skipped {thousands(progress.skipped)}", progress.skipped > 0),
            (waiting(progress), progress.waiting > 0),
            (f"{thousands(progress.in_flight)} in flight", progress.in_flight > 0),
            (f"{thousands(progress.tokens)} tokens", progress.tokens > 0),
        )
        if shown
    )


def waiting(progress: Progress) -> str:
    """`3 waiting on rate limit, next try in 12 s`."""
    following = "" if progress.next_try_s is None else f", next try in {math.ceil(progress.next_try_s)} s"
    return f"{thousands(progress.waiting)} waiting on rate limit{following}"


def fitting(parts: Sequence[str], width: int) -> str:
    """As many leading parts as fit into `width` columns, joined."""
    for count in range(len(parts), 0, -1):
        if len(text := joined(parts[:count])) <= width:
            return text
    return ""


def item_line(finished: ItemFinished, done: int, progress: Progress) -> str:
    """` 7/60 row 1 run 3 success, reward 1.000, 0.8s · pass 86% · failed 1`: what happened, then where the run stands.

    The error type must be one harmless line already.
    """
    total = thousands(progress.total)
    label = item_label(finished.item.row_index, finished.source_row_index, finished.item.run_index)
    outcome = [
        f"{label} {finished.status}",
        f"reward {decimal(finished.reward)}" if finished.reward is not None else "",
        finished.error_type or "",
        duration(finished.duration_ms),
    ]
    counts = [f"pass {percent(progress.passed, progress.scored, decimals=0)}", f"failed {thousands(progress.failed)}"]
    return joined([f"{thousands(done):>{len(total)}}/{total} {', '.join(filter(None, outcome))}", *counts])


class ItemLines:
    """One line for each finished item, after a first line with the counts at the start."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._finished: list[ItemFinished] = []
        self._last: Progress | None = None

    def item(self, finished: ItemFinished) -> None:
        """Kept until its counts are known."""
        reason = one_line(self._output.redact(finished.error_type)) if finished.error_type else None
        self._finished.append(msgspec.structs.replace(finished, error_type=reason))

    def progress(self, progress: Progress) -> None:
        """Write the lines of the items that these counts include."""
        if self._last is None and not self._finished:
            rate = percent(progress.passed, progress.scored, decimals=0)
            self._write(f"{thousands(progress.done)}/{thousands(progress.total)} pass {rate}")
        self._last = progress
        before = progress.done - len(self._finished)
        for number, finished in enumerate(self._finished, 1):
            self._write(item_line(finished, max(0, before) + number, progress))
        self._finished.clear()

    def close(self) -> None:
        """Write what was still waiting for its counts."""
        if self._finished and self._last is not None:
            self.progress(self._last)

    def _write(self, text: str) -> None:
        self._output.progress_line(text, emphasis="dim")


class LiveLine:
    """One line at the foot of the terminal that redraws itself; other lines scroll by above it."""

    def __init__(self, output: Output) -> None:
        self._console: Console = output.rich_err.console
        self._live: Live | None = None
        self._progress: Progress | None = None
        self._started = 0.0

    def item(self, finished: ItemFinished) -> None:
        """Nothing: the counts say it."""

    def progress(self, progress: Progress) -> None:
        """Redraw with these counts; the first call starts the line."""
        self._progress = progress
        if self._live is None:
            from rich.live import Live  # noqa: PLC0415 - rich is imported only in rich mode

            self._started = time.monotonic()
            # A child may print through our streams; redirecting them would take its text away from its own redaction.
            self._live = Live(
                self,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def close(self) -> None:
        """Clear the line and show the cursor again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line as it stands now, fitted to the width: first the bar goes, then the last of the details."""
        from rich.progress_bar import ProgressBar  # noqa: PLC0415 - rich is imported only in rich mode
        from rich.text import Text  # noqa: PLC0415

        if (progress := self._progress) is None:
            return
        elapsed = time.monotonic() - self._started
        spinner = "-\\|/" if options.ascii_only else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        head = f"{spinner[int(elapsed * REFRESHES_PER_SECOND) % len(spinner)]} "
        counts = f"{thousands(progress.done)}/{thousands(progress.total)}"
        tail = clock(elapsed)
        parts = standing(progress)
        room = options.max_width - 1 - len(head) - len(counts) - len(tail) - 2
        title = "rollouts "
        # The bar matters more than the details that come last, and less than the pass rate and the failures.
        reserved = len(title) + _BAR_FROM + 1
        details = fitting(parts, room - reserved) if room >= 2 * reserved else fitting(parts, room)
        bar = min(30, room - len(details) - len(title) - 1)
        yield Text(head, style="cyan", end="")
        if bar >= _BAR_FROM:
            yield Text(title, end="")
            yield from ProgressBar(total=progress.total or 1, completed=progress.done, width=bar).__rich_console__(
                console, options
            )
            yield Text(" ", end="")
        yield Text(f"{counts} {details} {tail}", no_wrap=True, overflow="crop", end="")
