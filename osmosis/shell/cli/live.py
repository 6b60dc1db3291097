"""The progress of a run on standard error: a live view on a terminal, one line an item otherwise, events on request.

In plain mode nothing shows; in JSON mode nothing but the events that `--events` asks for. All words come from `live_text`, as
functions of records; only the displays ask for the time.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import msgspec

from osmosis.pure.journal import WorkItem
from osmosis.pure.presentation import one_line, percent, thousands
from osmosis.pure.report import ItemFinished, PlanSummary, Progress
from osmosis.pure.tally import after_each
from osmosis.shell.cli.live_text import counts, detail_lines, fitting, item_line, times
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

    from osmosis.pure.scoreboard import Scoreboard, Standing

REFRESHES_PER_SECOND = 8
_BAR_FROM = 12
"""Columns below which a bar says less than its numbers."""
_BAR_MOST = 40
_ROWS_KEPT_FREE = 4
"""Rows of the terminal that stay with what scrolls by above the view."""


class Display(Protocol):
    """Follows the progress of one run."""

    def plan(self, plan: PlanSummary) -> None:
        """What is about to run, with the results that are carried over."""
        ...

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
        return LiveView(output)
    return ItemLines(output)


class SilentDisplay:
    """Shows nothing."""

    def plan(self, plan: PlanSummary) -> None:
        """Nothing."""

    def item(self, finished: ItemFinished) -> None:
        """Nothing."""

    def progress(self, progress: Progress) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class ItemLines:
    """One line for each finished item, after a first line with the counts at the start."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._finished: list[ItemFinished] = []
        self._last: Progress | None = None

    def plan(self, plan: PlanSummary) -> None:
        """Nothing: the plan table says it."""

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
        for finished, counted in zip(self._finished, after_each(self._finished, progress), strict=True):
            self._write(item_line(finished, counted))
        self._finished.clear()

    def close(self) -> None:
        """Write what was still waiting for its counts."""
        if self._finished and self._last is not None:
            self.progress(self._last)

    def _write(self, text: str) -> None:
        self._output.progress_line(text, emphasis="dim")


class LiveView:
    """A few lines at the foot of the terminal that redraw themselves; other lines scroll by above them.

    They are drawn by a thread of their own, so nothing here holds up the run; `_lock` keeps the scoreboard whole between them.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._console: Console = output.rich_err.console
        self._lock = Lock()
        self._board = _scoreboard()
        self._finished: list[ItemFinished] = []
        self._live: Live | None = None
        self._progress: Progress | None = None
        self._began = 0.0
        self._done_before = 0
        self._seen: dict[WorkItem, float] = {}

    def plan(self, plan: PlanSummary) -> None:
        """Count what is carried over."""
        self._board = _scoreboard(plan.selected_rows, plan.runs_per_row)
        for finished in plan.carried:
            self.item(finished)

    def item(self, finished: ItemFinished) -> None:
        """Kept until its counts are known, so that no drawing is ahead of them. The reason is redacted before it is cut."""
        reason = self._output.redact(finished.error_type) if finished.error_type else None
        self._finished.append(msgspec.structs.replace(finished, error_type=reason))

    def progress(self, progress: Progress) -> None:
        """Redraw with these counts; the first call starts the view."""
        now = time.monotonic()
        with self._lock:
            for finished in self._finished:
                self._board.add(finished)
            self._finished.clear()
            self._progress = progress
            self._seen = {item: self._seen.get(item, now) for item in progress.working}
        if self._live is None:
            from rich.live import Live  # noqa: PLC0415 - rich is imported only in rich mode

            self._began, self._done_before = now, progress.done
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
        """Clear the view and show the cursor again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The view as it stands now, fitted to the terminal."""
        standing = self._standing(time.monotonic())
        if standing is not None:
            yield from rendered(standing, console, options)

    def _standing(self, now: float) -> Standing | None:
        with self._lock:
            if self._progress is None:
                return None
            ages = {item: now - since for item, since in self._seen.items()}
            elapsed = max(0.0, now - self._began)
            return self._board.standing(self._progress, elapsed_s=elapsed, done_before=self._done_before, ages_s=ages)


def _scoreboard(rows: int = 0, runs: int = 0) -> Scoreboard:
    from osmosis.pure.scoreboard import Scoreboard  # noqa: PLC0415 - with all that intervals need; only on a terminal

    return Scoreboard(rows=rows, runs=runs)


def rendered(standing: Standing, console: Console, options: ConsoleOptions) -> RenderResult:
    """A standing as the live view shows it: the bar, then as many lines as the terminal has room for."""
    from rich.text import Text  # noqa: PLC0415 - rich is imported only in rich mode

    yield from _bar_line(standing, console, options)
    for line in detail_lines(standing, options.max_width - 1, max(0, console.height - _ROWS_KEPT_FREE)):
        yield Text(f"\n{line}", no_wrap=True, overflow="crop", end="")


def _bar_line(standing: Standing, console: Console, options: ConsoleOptions) -> RenderResult:
    """Spinner, bar, counts, times. First the bar goes, then the time that is left."""
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - rich is imported only in rich mode
    from rich.text import Text  # noqa: PLC0415

    progress = standing.progress
    spinner = "-\\|/" if options.ascii_only else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    head = f"{spinner[int(standing.elapsed_s * REFRESHES_PER_SECOND) % len(spinner)]} "
    numbers = counts(progress)
    room = options.max_width - 1 - len(head) - len(numbers)
    tail = fitting(times(standing), room - 1)
    title = "rollouts "
    bar = min(_BAR_MOST, room - len(title) - len(tail) - 2)
    yield Text(head, style="cyan", end="")
    if bar >= _BAR_FROM:
        yield Text(title, end="")
        yield from ProgressBar(total=progress.total or 1, completed=progress.done, width=bar).__rich_console__(console, options)
        yield Text(" ", end="")
    yield Text(f"{numbers} {tail}".rstrip(), no_wrap=True, overflow="crop", end="")
