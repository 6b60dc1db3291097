"""An audit hook that refuses effects of the functional core while tests run (ruling 29).

The interpreter reports every opened file, socket, process and the like. For each report the stack is read from the innermost
frame outwards until it is clear on whose behalf it happens: the core's (an effect: refused and remembered), the import
machinery's or a test tool's (their own business), or anybody else's in this checkout. Frames of libraries are looked through,
so a file that a library opens for the core counts as the core's.

The hook both raises and remembers: a core that swallows the exception still fails the test.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
CORE = str(ROOT / "osmosis" / "pure") + "/"
OURS = tuple(f"{ROOT / folder}/" for folder in ("osmosis", "osmosis_ai", "scripts", "tests", "examples", "benchmarks"))

# Frames that act for themselves although the core is further out: imports, finalizers run by the collector, test tools.
OWN_BUSINESS = ("<frozen importlib", "/weakref.py", "/coverage/", "/hypothesis/", "/_pytest/", "/pluggy/", "/xdist/")

EFFECTS = (
    "builtins.input",
    "ctypes.",
    "fcntl.",
    "ftplib.",
    "glob.",
    "http.",
    "mmap.",
    "open",
    "os.",
    "pathlib.",
    "shutil.",
    "signal.",
    "socket.",
    "sqlite3.",
    "subprocess.",
    "syslog.",
    "tempfile.",
    "_thread.",
    "time.sleep",
    "urllib.",
)


class ImpureError(AssertionError):
    """The functional core had an effect."""


violations: list[str] = []


@cache
def is_effect(event: str) -> bool:
    """True for the audit events that reach outside the process."""
    return event.startswith(EFFECTS)


def culprit(frame: FrameType | None) -> str | None:
    """`file:line` of the core's frame on whose behalf `frame` runs, None when it runs for somebody else."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(CORE):
            return f"{file.removeprefix(str(ROOT) + '/')}:{frame.f_lineno}"
        if file.startswith(OURS) or any(part in file for part in OWN_BUSINESS):
            return None
        frame = frame.f_back
    return None


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not is_effect(event):
        return
    line = culprit(sys._getframe(1))
    if line is not None:
        violations.append(f"{line}: {event}{arguments!r}"[:300])
        raise ImpureError(violations[-1])


def install() -> None:
    """Watch this process from now on. An audit hook cannot be removed."""
    sys.addaudithook(_hook)


def take_violations() -> list[str]:
    """What was remembered since the last call."""
    taken = violations[:]
    violations.clear()
    return taken
