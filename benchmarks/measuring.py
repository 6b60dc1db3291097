"""One command, run to its end and measured from outside: time, processor, memory, bytes; and ratios with their spread.

Processor time and bytes come from the kernel's own accounts of the dead, so they miss nothing and a busy machine changes them
little. Whoever a command leaves behind is adopted, ended and counted too: no side is cheap because its work goes on elsewhere.
Wall times mean something only beside a peer that ran in the same minutes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import resource
import select
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_MILLISECONDS = 50
_GRACE_SECONDS = 5.0
"""How long what a command left behind may take to end by itself."""
_NEW_FILES = 500
_SUBREAPER = 36  # Linux, prctl(2): PR_SET_CHILD_SUBREAPER


class Options(msgspec.Struct, frozen=True):
    """What the command line asks of every benchmark. `share`: of the full size of files; `large`: also what takes minutes."""

    rounds: int = 3
    share: float = 0.2
    large: bool = False


class Measured(msgspec.Struct, frozen=True):
    """What one command cost. Times in seconds; `cpu` is of the command's own process, `tree_cpu` of all its children too, as
    are `written` bytes (given to the file systems). `peak` is the resident memory of the command's own process, in bytes.
    `started` is on the clock of `time.monotonic`. `left` counts the processes that outlived the command."""

    code: int
    started: float
    wall: float
    cpu: float
    tree_cpu: float
    written: int
    peak: int
    left: int
    output: str


def scratch(where: str | None = None) -> Path:
    """A new directory (below `where`; else below `TMPDIR`) that is removed when this process ends, and not sooner.

    ext4 gives away no inode that was freed in the last minutes: it walks past them one by one, so that after a removal of
    thousands of files each new one costs milliseconds of the processor time of whoever makes it (decision 0064).
    """
    made = tempfile.TemporaryDirectory(prefix="osmosis-bench-", dir=where)
    atexit.register(made.cleanup)
    return Path(made.name)


def new_file_microseconds() -> float:
    """Processor time of a small new file in a scratch directory: tens of microseconds, where it is worth measuring there."""
    place, began = scratch(), time.process_time()
    for number in range(_NEW_FILES):
        (place / str(number)).write_bytes(b"x")
    return 1e6 * (time.process_time() - began) / _NEW_FILES


def run(command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path) -> Measured:
    """Run `command` to its end; what it says goes to the file `log`."""
    before = _children()
    with _as_parent_of_orphans():
        return _run(command, directory, environment, log, before)


@contextmanager
def _as_parent_of_orphans() -> Iterator[None]:
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0)


def _run(command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path, before: set[int]) -> Measured:
    with log.open("wb") as output:
        started = time.monotonic()
        child = subprocess.Popen(
            command, cwd=directory, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        peak = _watch(child.pid)
        wall = time.monotonic() - started
    # The rest is read before the dead are buried.
    own = own_cpu_seconds(child.pid)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    left = _adopted(before)
    return Measured(
        code=child.returncode,
        started=started,
        wall=wall,
        cpu=own,
        tree_cpu=usage.ru_utime + usage.ru_stime + sum(one.ru_utime + one.ru_stime for one in left),
        written=512 * (usage.ru_oublock + sum(one.ru_oublock for one in left)),
        peak=peak,
        left=len(left),
        output=log.read_text(errors="replace"),
    )


def _watch(pid: int) -> int:
    """Wait for the end of a process, which stays a zombie. Returns its peak memory: the dead have none, so it is looked at
    while they live."""
    peak, end = 0, os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        while not poll.poll(_LOOK_MILLISECONDS):
            peak = max(peak, _peak(pid))
    finally:
        os.close(end)
    return peak


def _peak(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) * 1024


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name; the first is its state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def own_cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads, living or not yet buried."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS


def _children() -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int(_stat(int(path.name))[1]) == os.getpid():
                found.add(int(path.name))
        except OSError:
            continue
    return found


def _adopted(before: set[int]) -> list[resource.struct_rusage]:
    """Bury what a command left to us, after a grace; what it cost. `before`: our own children."""
    costs, deadline = [], time.monotonic() + _GRACE_SECONDS
    while orphans := _children() - before:
        for pid in orphans:
            end = os.pidfd_open(pid)
            try:
                if not select.select([end], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    signal.pidfd_send_signal(end, signal.SIGKILL)
            finally:
                os.close(end)
            costs.append(os.wait4(pid, 0)[2])
    return costs


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
    return _finding(name, values, unit, f"at most {bar:.3g}", statistics.median(values) <= bar)


def at_least(name: str, values: Sequence[float], bar: float, unit: str) -> Finding:
    """A figure whose median must not lie below the bar."""
    return _finding(name, values, unit, f"at least {bar:.3g}", statistics.median(values) >= bar)


def told(name: str, values: Sequence[float], unit: str) -> Finding:
    """A figure without a bar."""
    return _finding(name, values, unit, "", None)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, so that what slows the machine for a while slows both sides of a ratio."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


_Side = TypeVar("_Side")


def in_turn(sides: Sequence[_Side], number: int) -> list[_Side]:
    """The sides in the order of a round: another one begins each time, so that none always follows the same."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def _finding(name: str, values: Sequence[float], unit: str, bar: str, met: bool | None) -> Finding:
    rounded = tuple(round(value, 4) for value in values)
    return Finding(name, round(statistics.median(values), 4), unit, bar, met, min(rounded), max(rounded), rounded)
