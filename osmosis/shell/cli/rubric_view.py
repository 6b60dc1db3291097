"""Progress of `osmosis eval rubric` on standard error: a live line on a terminal, one line a judgement otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from osmosis.pure.presentation import decimal, joined, one_line, thousands
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.judge.request import RubricStep

if TYPE_CHECKING:
    from rich.status import Status


def step_line(step: RubricStep, label: str, error: str) -> str:
    """` 7/60 record[3] run 1 score 0.8500`. Label and error are redacted and on one line already."""
    total = thousands(step.total)
    outcome = f"score {decimal(step.score, 4)}" if step.score is not None else f"error: {error}"
    return f"{thousands(step.done):>{len(total)}}/{total} {label} run {step.run + 1} {outcome}"


def standing(step: RubricStep) -> str:
    """`judged 7/60, failed 1, 1,234 tokens`: the live line."""
    failed = f"failed {thousands(step.failed)}" if step.failed else ""
    tokens = f"{thousands(step.tokens)} tokens" if step.tokens else ""
    return joined([f"judged {thousands(step.done)}/{thousands(step.total)}", failed, tokens])


class RubricView:
    """Follows one command; silent in plain and JSON output."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._status: Status | None = None
        self._live = (
            output.mode is Mode.RICH and output.rich_err.console.is_terminal and not output.rich_err.console.is_dumb_terminal
        )

    def step(self, step: RubricStep) -> None:
        """One judgement is done."""
        if self._output.mode is not Mode.RICH:
            return
        if not self._live:
            redact = self._output.redact
            text = step_line(step, one_line(redact(step.label)), one_line(redact(step.error or "")))
            self._output.progress_line(text, emphasis="dim")
            return
        if self._status is None:
            self._status = self._output.rich_err.console.status(standing(step))
            self._status.start()
        self._status.update(standing(step))

    def close(self) -> None:
        """Leave the terminal as it was found. May be called twice."""
        if self._status is not None:
            self._status.stop()
            self._status = None
