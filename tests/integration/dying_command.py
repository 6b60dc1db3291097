"""Runs an `osmosis` command that dies at one chosen moment: `dying_command.py MOMENT [MOMENT ...] python -m osmosis... WORDS`.

A MOMENT is `EVENT:PATH`: just before the operation that Python's audit event EVENT announces (`os.rename`, `os.remove`,
`os.mkdir`, `open`) is done with a path that ends with PATH. Of several moments each is waited for after the one before, and the
last is fatal. The death is SIGKILL, of this process by itself: nothing is flushed, nothing cleaned up, and no code of the
product knows of it.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

MODULE = "osmosis.shell.cli.main"


def die_at(moments: Iterable[str]) -> None:
    """Watch this process from now on."""
    left = [moment.split(":", 1) for moment in moments]

    def watch(name: str, details: tuple[object, ...]) -> None:
        if not left or name != left[0][0]:
            return
        paths = [os.fsdecode(path) for path in details[:2] if isinstance(path, str | bytes | os.PathLike)]
        if any(path.endswith(left[0][1]) for path in paths):
            del left[0]
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def dying(*moments: str) -> list[str]:
    """What to put before the command line that shall die."""
    return [sys.executable, str(Path(__file__)), *moments]


if __name__ == "__main__":
    program = sys.argv.index(MODULE)
    # Before the module come `python -m`.
    die_at(sys.argv[1 : program - 2])
    sys.argv = sys.argv[program:]
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
