"""The entry of the `osmosis` command.

`--version` and help answer before anything else is imported. Everything else is one call, inside which no exception may pass: a
keyboard interrupt during start-up is exit code 130 like any other. What is imported here is there already when Python has
started, so that next to nothing happens before that call.
"""

from __future__ import annotations

import os
import sys

from osmosis import __version__

DISTRIBUTION = "osmosis-ai"
_MODE_FLAGS = {"--json", "--plain"}


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit code (ruling 12)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        words = [word for word in arguments if word not in _MODE_FLAGS]
        # The version is plain text in every mode (contract `cli.md` section 1).
        if words and words[0] in ("--version", "-V"):
            sys.stdout.write(f"{DISTRIBUTION} {__version__}\n")
            sys.stdout.flush()
            return 0
        if _show_help(words, set(arguments) & _MODE_FLAGS):
            return 0
        if words[:2] != ["eval", "run"]:
            return _run(arguments)
        from osmosis.shell.evaluation.head_start import head_start  # noqa: PLC0415

        with head_start(words):
            return _run(arguments)
    except KeyboardInterrupt:
        return 130


def _run(arguments: list[str]) -> int:
    from osmosis.shell.cli.program import run_program  # noqa: PLC0415 - the fast paths above come first

    return run_program(arguments)


def _show_help(words: list[str], modes: set[str]) -> bool:
    """Show help if these words ask for a page that lies ready; two modes at once are for the program to complain about."""
    if len(modes) > 1 or (len(words) > 1 and words[-1] not in ("--help", "-h")):
        return False
    from osmosis.shell.cli.help_page import page_asked_for, write_page  # noqa: PLC0415 - for help alone

    page = page_asked_for(words)
    if page is None:
        return False
    from osmosis.shell.cli.stream import SteadyStream  # noqa: PLC0415

    write_page(page, SteadyStream(sys.stdout), plain=bool(modes), environment=os.environ)
    return True


if __name__ == "__main__":
    sys.exit(main())
