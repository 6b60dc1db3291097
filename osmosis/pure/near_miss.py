"""Which of the known names was probably meant by one that is unknown: commands, options, keys, runs, files (E40)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_miss(word: str, known: Iterable[str]) -> str | None:
    """The name most like `word`, or None where none is near.

    The two dashes that all long options share count for nothing, so that `--version` is not taken for a slip of `--json`.
    """
    named = {name.lstrip("-"): name for name in known}
    meant = word.lstrip("-")
    # Two swapped letters are half of a short word, and so beyond what counts as close.
    swapped = [name for name in named if sorted(name) == sorted(meant)]
    close = swapped or difflib.get_close_matches(meant, list(named), n=1, cutoff=0.6)
    return named[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean "eval"?`, to follow a sentence; nothing where no name is near."""
    meant = near_miss(word, known)
    return f' Did you mean "{meant}"?' if meant is not None else ""
