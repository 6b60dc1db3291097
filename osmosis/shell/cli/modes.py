"""The output mode, chosen by `--json` or `--plain` anywhere on the command line (contract `cli.md` section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from osmosis.pure.errors import OsmosisError


class Mode(StrEnum):
    """How results, progress, warnings and errors are written."""

    RICH = "rich"
    PLAIN = "plain"
    JSON = "json"


MODE_FLAGS = {"--json": Mode.JSON, "--plain": Mode.PLAIN}


class UsageError(OsmosisError):
    """The command line itself is wrong: exit code 2 (ruling 12)."""


def take_mode(arguments: Sequence[str]) -> tuple[Mode, list[str]]:
    """The mode, and the command line without the flags that chose it.

    Flags after a literal `--` are data. With both flags the result is JSON, so that the complaint about it is readable by
    the program that asked for JSON; `conflicting_modes` finds that case.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    chosen = {MODE_FLAGS[argument] for argument in arguments[:end] if argument in MODE_FLAGS}
    rest = [argument for argument in arguments[:end] if argument not in MODE_FLAGS]
    mode = Mode.JSON if Mode.JSON in chosen else Mode.PLAIN if Mode.PLAIN in chosen else Mode.RICH
    return mode, [*rest, *arguments[end:]]


def conflicting_modes(arguments: Sequence[str]) -> UsageError | None:
    """The error for a line that asks for two modes, or None."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if len(set(MODE_FLAGS) & set(arguments[:end])) < 2:
        return None
    return UsageError("--json and --plain exclude each other.", hint="Pass one of them.")
