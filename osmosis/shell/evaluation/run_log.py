"""`logs.txt`: append redacted lines, and tee the output of child processes into it (E8, E16; `eval_local.md` 1.2).

A line is on its way to the disk when `write` returns; it is not synced, since the log is no authority on what happened. Errors
of the disk are the operating system's own, and go to the caller.
"""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from osmosis.pure.log_line import LineSplitter, harmless, log_line
from osmosis.pure.redaction import Redactor
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.file_layer import FileLayer

_LAST_LINES = 20


class RunLog:
    """The log of one run directory, open for appending. May be used from any thread."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        *,
        echo: Callable[[str], None] | None = None,
        now: Callable[[], str] = utc_now,
        files: FileLayer | None = None,
    ) -> None:
        """Open `path`, creating it with mode 0600. `echo` gets each line as it was written (`--verbose`).

        A last line that an earlier process left unfinished is ended first. Raises OSError.
        """
        self._redactor = redactor
        self._echo = echo
        self._now = now
        self._files = files or FileLayer()
        self._lock = Lock()
        self._descriptor: int | None = self._files.open_append(path, step="log.open")
        self._suspect = True

    @property
    def redactor(self) -> Redactor:
        """What redacts every line written from now on."""
        return self._redactor

    def protect(self, values: Iterable[str]) -> None:
        """Redact these values as well from now on, in children opened before only where they stand on one line."""
        self._redactor = self._redactor.including(values)

    def write(self, level: str, step: str, message: str, details: Mapping[str, Any] | None = None) -> str:
        """Append one line and return it as written. Raises OSError; a line cut short is ended before the next one."""
        line = log_line(self._now(), level, step, message, details, self._redactor)
        with self._lock:
            if self._descriptor is None:
                raise ValueError("the log is closed")
            data = line.encode() + b"\n"
            if self._suspect and _ends_mid_line(self._descriptor):
                data = b"\n" + data
            self._suspect = True
            self._files.write(self._descriptor, data, step="log.write")
            self._suspect = False
        if self._echo is not None:
            self._echo(line)
        return line

    def child(self, step: str, level: str = "INFO") -> ChildOutput:
        """A tee for the output of one child process, or of one of its streams."""
        return ChildOutput(self, step, level)

    def close(self) -> None:
        """Close the file. Closing twice does nothing."""
        with self._lock:
            if self._descriptor is not None:
                self._files.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class ChildOutput:
    """Turns the bytes of a child process into redacted lines of the log, one for each line of the child, empty ones too.

    Redaction happens before lines are cut, so a secret of several lines, or one that arrives in pieces, is found. Bytes that
    are not UTF-8 become U+FFFD. Feed it from one thread at a time.
    """

    def __init__(self, log: RunLog, step: str, level: str) -> None:
        self._log = log
        self._step = step
        self._level = level
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stream = log.redactor.stream()
        self._splitter = LineSplitter()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    @property
    def last_lines(self) -> list[str]:
        """The child's last lines, redacted and harmless, empty ones left out; for errors to quote."""
        return list(self._last)

    def feed(self, data: bytes) -> None:
        """Take what the child wrote. Raises OSError."""
        self._write(self._splitter.feed(self._stream.feed(self._decoder.decode(data))))

    def close(self) -> None:
        """The child wrote its last: log what is left. Raises OSError."""
        rest = self._stream.finish(self._decoder.decode(b"", final=True))
        self._write(self._splitter.feed(rest) + self._splitter.finish())

    def _write(self, lines: Iterable[str]) -> None:
        for line in lines:
            shown = self._log.redactor.text(harmless(line))
            if shown.strip():
                self._last.append(shown)
            self._log.write(self._level, self._step, shown)


def _ends_mid_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
