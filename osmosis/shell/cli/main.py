"""The entry of the `osmosis` command.

`--version` and help answer before anything else is imported. Everything else is one call, inside which no exception may pass:
an interrupt during start-up is told, and is exit code 130, like any other. What is imported here is there already when Python
has started, so that next to nothing happens before that call.
"""

from __future__ import annotations

import os
import sys

from osmosis import __version__

TYPE_CHECKING = False  # typing itself is not imported for this
if TYPE_CHECKING:
    from osmosis.shell.cli.stream import SteadyStream

DISTRIBUTION = "osmosis-ai"
_MODE_FLAGS = {"--json", "--plain"}


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit code (ruling 12)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        words = [word for word in arguments if word not in _MODE_FLAGS]
        # The version is plain text in every mode (contract `cli.md` section 1).
        if words and words[0] in ("--version", "-V"):
            return _show_version(arguments)
        if (code := _show_help(arguments, words)) is not None:
            return code
        from osmosis.shell.evaluation.signals import termination_as_interrupt  # noqa: PLC0415 - the fast paths come first

        with termination_as_interrupt():
            return _perform(arguments, words)
    except KeyboardInterrupt:
        return _interrupted(arguments)


def _perform(arguments: list[str], words: list[str]) -> int:
    if words[:2] != ["eval", "run"]:
        return _run(arguments)
    from osmosis.shell.evaluation.head_start import head_start  # noqa: PLC0415

    with head_start(words):
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    from osmosis.shell.cli.program import run_program  # noqa: PLC0415 - the fast paths above come first

    return run_program(arguments)


def _interrupted(arguments: list[str]) -> int:
    """Tell of an interrupt that came while the program was being imported, or was through."""
    try:
        from osmosis.shell.cli.program import tell_interruption  # noqa: PLC0415

        tell_interruption(arguments)
    except (KeyboardInterrupt, Exception):  # noqa: BLE001 - a second interrupt, or an import that the first one tore: leave
        pass
    return 130


def _show_version(arguments: list[str]) -> int:
    try:
        if sys.stdout is not None:
            sys.stdout.write(f"{DISTRIBUTION} {__version__}\n")
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        from osmosis.shell.cli.stream import SteadyStream  # noqa: PLC0415

        stream = SteadyStream(sys.stdout)
        stream.give_up(error)
        return _ended(arguments, stream)
    return 0


def _show_help(arguments: list[str], words: list[str]) -> int | None:
    """Show help if these words ask for a page that lies ready; two modes at once are for the program to complain about."""
    modes = set(arguments) & _MODE_FLAGS
    if len(modes) > 1 or (len(words) > 1 and words[-1] not in ("--help", "-h")):
        return None
    from osmosis.shell.cli.help_page import page_asked_for, write_page  # noqa: PLC0415 - for help alone

    page = page_asked_for(words)
    if page is None:
        return None
    from osmosis.shell.cli.stream import SteadyStream  # noqa: PLC0415

    stream = SteadyStream(sys.stdout)
    write_page(page, stream, plain=bool(modes), environment=os.environ)
    return _ended(arguments, stream)


def _ended(arguments: list[str], stream: SteadyStream) -> int:
    """The exit code after a text was written; a text that was lost is told."""
    if stream.fault is None:
        return 0
    from osmosis.shell.cli.program import tell_loss  # noqa: PLC0415 - when something is wrong

    return tell_loss(arguments, stream.fault)


if __name__ == "__main__":
    sys.exit(main())
