"""One command, run to its end and measured from outside: time, processor, memory, bytes; and ratios with their spread.

Processor time and bytes come from the kernel's own accounts of the dead, so they miss nothing and a busy machine changes them
little. Wall times mean something only beside a peer that ran in the same minutes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.05


class Measured(msgspec.Struct, frozen=True):
    """What one command cost. Times in seconds; `cpu` is of the command's own process, `tree_cpu` of all its children too, as
    are `written` bytes (given to the file systems). `peak` is the resident memory of the command's own process, in bytes.
    `started` is on the clock of `time.monotonic`."""

    code: int
    started: float
    wall: float
    cpu: float
    tree_cpu: float
    written: int
    peak: int
    output: str


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path) -> Measured:
    """Run `command` to its end; what it says goes to the file `log`."""
    with log.open("wb") as output:
        started = time.monotonic()
        child = subprocess.Popen(
            command, cwd=directory, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        peak = 0
        # The dead have no memory, so it is looked at while they live; the rest is read before they are buried.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            peak = max(peak, _peak(child.pid))
            time.sleep(_LOOK_SECONDS)
        wall = time.monotonic() - started
        own, children = _cpu_seconds(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return Measured(
        code=child.returncode,
        started=started,
        wall=wall,
        cpu=own,
        tree_cpu=own + children,
        written=usage.ru_oublock * 512,
        peak=peak,
        output=log.read_text(errors="replace"),
    )


def _peak(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024


def _cpu_seconds(pid: int) -> tuple[float, float]:
    """User and system time of a process, and of its children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, (int(fields[13]) + int(fields[14])) / TICKS


class Finding(msgspec.Struct, frozen=True):
    """One figure beside its bar. `values` are the rounds it was drawn from, `low` and `high` their ends; `met` is None where
    nothing could be compared."""

    name: str
    value: float
    unit: str
    bar: str
    met: bool | None
    low: float
    high: float
    values: tuple[float, ...]


def at_most(name: str, values: Sequence[float], bar: float, unit: str) -> Finding:
    """A figure whose median must not lie above the bar."""
    return _finding(name, values, unit, f"at most {bar:g}", statistics.median(values) <= bar)


def at_least(name: str, values: Sequence[float], bar: float, unit: str) -> Finding:
    """A figure whose median must not lie below the bar."""
    return _finding(name, values, unit, f"at least {bar:g}", statistics.median(values) >= bar)


def told(name: str, values: Sequence[float], unit: str) -> Finding:
    """A figure without a bar."""
    return _finding(name, values, unit, "", None)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, so that what slows the machine for a while slows both sides of a ratio."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def _finding(name: str, values: Sequence[float], unit: str, bar: str, met: bool | None) -> Finding:
    rounded = tuple(round(value, 4) for value in values)
    return Finding(name, round(statistics.median(values), 4), unit, bar, met, min(rounded), max(rounded), rounded)
