"""The entry of the `osmosis` command.

`--version` answers before anything else is imported. Everything else is one call, inside which no exception may pass: a
keyboard interrupt during start-up is exit code 130 like any other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from osmosis import __version__

DISTRIBUTION = "osmosis-ai"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (by default the process's own) and return the exit code (ruling 12)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        # The version is plain text in every mode (contract `cli.md` section 1).
        if next((word for word in arguments if word not in ("--json", "--plain")), None) in ("--version", "-V"):
            sys.stdout.write(f"{DISTRIBUTION} {__version__}\n")
            sys.stdout.flush()
            return 0
        from osmosis.shell.cli.program import run_program  # noqa: PLC0415 - the fast path above comes first

        return run_program(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
