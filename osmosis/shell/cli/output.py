"""The one place where the command line writes. Everything passes through the redactor that `Output` holds (E9).

Standard output carries the result and nothing else; standard error carries progress, warnings and errors. In JSON mode both
carry JSON lines only, and progress is silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from osmosis.pure.errors import OsmosisError
from osmosis.pure.presentation import neutralise, one_line
from osmosis.pure.redaction import Redactor
from osmosis.pure.secret_forms import secret_values
from osmosis.shell.cli import present
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.result import Block, CommandResult, StreamEntry
from osmosis.shell.cli.stream import SteadyStream

if TYPE_CHECKING:
    from osmosis.shell.cli.rich_text import RichText


class Output:
    """Writes results, warnings, errors and progress in one mode. `redactor` grows as secrets get known."""

    def __init__(self, mode: Mode, stdout: TextIO | None, stderr: TextIO | None, redactor: Redactor) -> None:
        self.mode = mode
        self.redactor = redactor
        self.stdout = SteadyStream(stdout)
        self.stderr = SteadyStream(stderr)

    @classmethod
    def of_process(cls, mode: Mode, environment: Mapping[str, str]) -> Output:
        """The output of this process. The known secret variables of `environment` are redacted from the first word on."""
        return cls(mode, sys.stdout, sys.stderr, Redactor(secret_values((), environment)))

    @property
    def redact(self) -> present.Redact:
        """The redactor as it is now."""
        return self.redactor.text

    def protect(self, secrets: Iterable[str]) -> None:
        """Values that nothing may show from now on; calls add up (E9)."""
        self.redactor = self.redactor.including(secrets)

    @cached_property
    def rich_out(self) -> RichText:
        """Rich text on standard output."""
        return _rich_text(self.stdout)

    @cached_property
    def rich_err(self) -> RichText:
        """Rich text on standard error; the live display shares it."""
        return _rich_text(self.stderr)

    def result(self, result: CommandResult) -> None:
        """The result, on standard output."""
        match self.mode:
            case Mode.JSON:
                self._write_lines(self.stdout, [present.json_line(present.result_document(result), self.redact)])
            case Mode.PLAIN:
                self._write_lines(self.stdout, present.plain_result(present.scrubbed(result, self.redact)))
            case Mode.RICH:
                self.rich_out.result(present.scrubbed(result, self.redact))

    def entry(self, entry: StreamEntry) -> None:
        """A piece of a result that goes on, on standard output, at once."""
        if self.mode is Mode.JSON:
            document = present.event_document(entry.event, entry.at, entry.data)
            self._write_lines(self.stdout, [present.json_line(document, self.redact)])
            return
        entry = present.scrubbed_entry(entry, self.redact)
        if self.mode is Mode.PLAIN:
            self._write_lines(self.stdout, ["\t".join(entry.cells)])
        else:
            self.rich_out.line(entry.line)

    def failure(self, command: str, error: OsmosisError) -> None:
        """An error, on standard error."""
        if self.mode is Mode.JSON:
            self._json_line_on_stderr(present.error_document(command, error))
            return
        for number, line in enumerate(present.error_lines(error, self.redact)):
            self._line(line, emphasis="bold red" if number == 0 else "", emphasised=len("Error:"))
        if error.hint:
            # Not wrapped: a hint may hold a command to copy.
            self._line(present.hint_line(error.hint, self.redact), prose=False)

    def interruption(self, command: str) -> None:
        """The command was interrupted: an error to programs, and one word to people, who know why."""
        if self.mode is Mode.JSON:
            self.failure(command, present.interruption())
        else:
            self._line("Interrupted.")

    def warning(self, code: str, message: str) -> None:
        """A warning, on standard error."""
        if self.mode is Mode.JSON:
            self._json_line_on_stderr(present.warning_document(code, message))
            return
        prefix = "\N{WARNING SIGN} " if self.mode is Mode.RICH else "warning: "
        self._line(prefix + neutralise(self.redact(message)), emphasis="yellow")

    def milestone(self, text: str) -> None:
        """A step of the work, on standard error; silent in JSON."""
        arrow = self.stderr.spelled("\N{RIGHTWARDS ARROW} ") if self.mode is Mode.RICH else ""
        self.progress_line(arrow + neutralise(self.redact(text)), emphasis="cyan", emphasised=len(arrow))

    def progress_line(self, text: str, *, emphasis: str = "", emphasised: int | None = None) -> None:
        """A line of progress that is already redacted and harmless; silent in JSON."""
        if self.mode is not Mode.JSON:
            self._line(text, emphasis=emphasis, emphasised=emphasised)

    def progress_block(self, block: Block) -> None:
        """A block on standard error, such as the plan; silent in JSON."""
        block = present.scrubbed_block(block, self.redact)
        match self.mode:
            case Mode.RICH:
                self.rich_err.block(block)
            case Mode.PLAIN:
                self._write_lines(self.stderr, present.plain_block(block))
            case Mode.JSON:
                pass

    def event(self, event: str, at: str, data: msgspec.Struct) -> None:
        """An event of a run, on standard error; in JSON alone, and only where it was asked for (`--events`)."""
        if self.mode is Mode.JSON:
            self._json_line_on_stderr(present.event_document(event, at, data))

    def question(self, text: str) -> None:
        """A question, on standard error, with the cursor left behind it."""
        self.stderr.write(one_line(self.redact(text)) + " ")
        self.stderr.flush()

    def _line(self, text: str, *, emphasis: str = "", emphasised: int | None = None, prose: bool = True) -> None:
        """One line on standard error; `emphasis` styles its first `emphasised` characters in rich output."""
        if self.mode is Mode.RICH:
            self.rich_err.line(text, emphasis, emphasised, prose=prose)
        else:
            self._write_lines(self.stderr, [text])

    def _json_line_on_stderr(self, document: dict[str, Any]) -> None:
        self._write_lines(self.stderr, [present.json_line(document, self.redact)])

    @staticmethod
    def _write_lines(stream: SteadyStream, lines: Iterable[str]) -> None:
        for line in lines:
            stream.write(line + "\n")
        stream.flush()


def _rich_text(stream: SteadyStream) -> RichText:
    from osmosis.shell.cli.rich_text import RichText  # noqa: PLC0415 - plain and JSON output do not pay for rich

    return RichText(stream)
