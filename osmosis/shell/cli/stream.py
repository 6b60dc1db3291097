"""Standard output and error as streams that never stop a run.

A run must survive the terminal that watched it: a closed pipe, a full disk behind a redirection or a hung-up terminal is
remembered in `fault` and nothing more is written. Where the locale cannot spell our few symbols, ASCII stands in for them.
"""

from __future__ import annotations

import io
import os
from typing import TextIO

_ASCII = str.maketrans(
    {
        "\N{RIGHTWARDS ARROW}": "->",
        "\N{MIDDLE DOT}": "|",
        "\N{EN DASH}": "-",
        "\N{EM DASH}": "-",
        "\N{WARNING SIGN}": "!",
        "\N{HORIZONTAL ELLIPSIS}": "~",  # one column, for it stands at the end of what was cut to a width
        "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
        "\N{BOX DRAWINGS HEAVY HORIZONTAL}": "-",
    }
)
_SYMBOLS = "".join(map(chr, _ASCII))


class SteadyStream(io.TextIOBase):
    """A text stream whose `write` and `flush` keep the first error in `fault` instead of raising it."""

    def __init__(self, stream: TextIO | None) -> None:
        """`stream` is None when the process was started with that descriptor closed."""
        self.fault: OSError | None = None
        self._stream = stream
        self._spells_symbols = stream is None or _can_encode(stream.encoding, _SYMBOLS)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Rich chooses its box characters by this."""
        return (self._stream.encoding if self._stream is not None else None) or "utf-8"

    def isatty(self) -> bool:
        """Whether a person watches it, and still can."""
        return self._stream is not None and self.fault is None and self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor. Raises io.UnsupportedOperation where there is none."""
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    def writable(self) -> bool:
        """Always."""
        return True

    def spelled(self, text: str) -> str:
        """`text` as it is shown in this locale: stand-ins for our symbols, `\\xe9` for what else it cannot spell. Who lays text
        out does so with what is shown."""
        if self._spells_symbols:
            return text
        return text.translate(_ASCII).encode(self.encoding, "backslashreplace").decode(self.encoding)

    def write(self, text: str) -> int:
        """Write `text`, or drop it after a fault."""
        if self._stream is not None and self.fault is None:
            try:
                self._stream.write(self.spelled(text))
            except (OSError, ValueError) as error:
                self.give_up(error)
        return len(text)

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._stream is not None and self.fault is None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self.give_up(error)

    def give_up(self, error: OSError | ValueError) -> None:
        """Write nothing more, because of `error`."""
        self.fault = error if isinstance(error, OSError) else OSError(str(error))
        # What is still buffered would raise again when the interpreter flushes at exit; let it go nowhere.
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass


def _can_encode(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
