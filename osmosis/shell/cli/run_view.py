"""The runner's view on this process's terminal: words for its facts, answers to its questions."""

from __future__ import annotations

import getpass
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO, cast

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.presentation import neutralise
from osmosis.pure.report import ItemFinished, PlanSummary, Progress
from osmosis.shell.cli.live import Display, display_for
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.run_events import EventDisplay
from osmosis.shell.cli.run_result import plan_table

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


class TerminalRunView:
    """A `RunView` (see `osmosis.shell.evaluation.view`). A context manager: leaving it takes the live line off the terminal."""

    def __init__(
        self,
        output: Output,
        *,
        working_directory: str,
        yes: bool,
        verbose: bool,
        stdin: TextIO | None,
        stdin_taken: bool = False,
        events: bool = False,
    ) -> None:
        """`stdin_taken`: standard input carries data (`--secrets-file -`), so nobody can answer on it. `events`: write what
        happens as JSON lines (JSON mode alone)."""
        self._output = output
        self._working_directory = working_directory
        self._yes = yes
        self._verbose = verbose
        self._stdin = stdin
        self._stdin_taken = stdin_taken
        self._plan: PlanSummary | None = None
        self._events = EventDisplay(output) if events else None
        self._display: Display = self._events or display_for(output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._display.close()

    @property
    def interactive(self) -> bool:
        """Rich output, and a terminal at both ends."""
        answers = self._stdin is not None and not self._stdin_taken and self._stdin.isatty()
        return self._output.mode is Mode.RICH and answers and self._output.stderr.isatty()

    def protect(self, secrets: Iterable[str]) -> None:
        """Redact these values from everything that is written from now on."""
        self._output.protect(secrets)

    def warning(self, code: str, message: str) -> None:
        """Write it to standard error."""
        self._output.warning(code, message)

    def milestone(self, text: str) -> None:
        """Write it to standard error."""
        self._output.milestone(text)
        if self._events is not None:
            self._events.milestone(text)

    def plan(self, plan: PlanSummary) -> None:
        """Write the plan table to standard error."""
        self._plan = plan
        self._output.progress_block(plan_table(plan, self._working_directory))
        self._display.plan(plan)

    def confirm(self, question: str, *, default: bool) -> bool:
        """Ask on standard error until the answer is one. End of input means no."""
        if self._yes:
            return True
        if not self.interactive:
            raise self._cannot_ask(question)
        return self._ask(question, default=default)

    def propose(self, question: str) -> bool:
        """Ask only somebody who can answer and did not already say yes to everything."""
        return not self._yes and self.interactive and self._ask(question, default=True)

    def _ask(self, question: str, *, default: bool) -> bool:
        # A library that took the signal over (polars does on import) restarts reads: Ctrl-C would wait for the answer.
        signal.siginterrupt(signal.SIGINT, True)
        while True:
            with self._ends_its_line():
                self._output.question(f"{question} [{'Y/n' if default else 'y/N'}]")
                line = self._read_line()
            if line is None:
                self._output.progress_line("")
                return False
            answer = line.strip().lower()
            if not answer:
                return default
            if answer in _ANSWERS:
                return _ANSWERS[answer]
            self._output.progress_line("Please answer y or n.")

    def prompt_secret(self, name: str) -> str | None:
        """Ask without echo, and redact the answer from then on."""
        if not self.interactive:
            return None
        try:
            with self._ends_its_line():
                value = getpass.getpass(f"Value of secret {neutralise(name)}: ", stream=cast(TextIO, self._output.stderr))
        except EOFError:
            self._output.progress_line("")
            return None
        if not value:
            return None
        self.protect([value])
        return value

    def progress(self, progress: Progress) -> None:
        """Hand it to the display."""
        self._display.progress(progress)

    def item(self, finished: ItemFinished) -> None:
        """Hand it to the display."""
        self._display.item(finished)

    def log_line(self, line: str) -> None:
        """Echo it to standard error under `--verbose`."""
        if self._verbose:
            self._output.progress_line(neutralise(self._output.redact(line.rstrip("\n"))), emphasis="dim")

    def _read_line(self) -> str | None:
        line = self._stdin.readline() if self._stdin is not None else ""
        return line or None

    @contextmanager
    def _ends_its_line(self) -> Iterator[None]:
        """Ctrl-C at a question: the cursor still stands behind it, and what is said next begins on a line of its own."""
        try:
            yield
        except KeyboardInterrupt:
            self._output.progress_line("")
            raise

    def _cannot_ask(self, question: str) -> OsmosisError:
        summary = dict(plan_table(self._plan, self._working_directory).rows) if self._plan else {}
        return OsmosisError(
            f"Confirmation needed: {question}",
            code=ErrorCode.INTERACTIVE_REQUIRED,
            hint="Pass --yes to go ahead without being asked.",
            details={"prompt": question, "summary": summary},
        )
