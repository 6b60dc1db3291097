"""Which process is which: a pid together with its start time, recorded on disk, so that only our own are ever stopped.

A pid alone may have been given to somebody else in the meantime. Nothing is ever stopped by name (E24; issue 3, orphans).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec

from osmosis.pure.protocol import INSTANCE_ID_ENV

_POLL_SECONDS = 0.05


class ProcessRecord(msgspec.Struct, frozen=True):
    """`server.json`: written when a child starts, removed when it is known to be gone."""

    pid: int
    pgid: int
    start_token: str
    instance_id: str
    port: int
    created_at: str


def start_token(pid: int) -> str | None:
    """When the process started, in whatever unit the system keeps; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_time_from_ps(pid)
    except (ProcessLookupError, PermissionError):
        return None
    # Field 22, counted behind the command, which stands in parentheses and may hold blanks.
    return stat.rpartition(")")[2].split()[19]


def _start_time_from_ps(pid: int) -> str | None:
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def is_same(record: ProcessRecord) -> bool:
    """Whether the recorded process still runs: same pid, same start, same process group."""
    try:
        return start_token(record.pid) == record.start_token and os.getpgid(record.pid) == record.pgid
    except ProcessLookupError:
        return False


def is_ours(record: ProcessRecord) -> bool:
    """Whether what runs in the recorded process group was started by us: the recorded process itself, or, when that one is
    gone, a child that it left behind, known by the random instance id in its environment."""
    return is_same(record) or any(_carries(path, record) for path in Path("/proc").glob("[0-9]*"))


def _carries(process: Path, record: ProcessRecord) -> bool:
    mark = f"{INSTANCE_ID_ENV}={record.instance_id}".encode()
    try:
        return os.getpgid(int(process.name)) == record.pgid and mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def group_alive(pgid: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    return True


def signal_group(pgid: int, number: signal.Signals) -> None:
    """Send a signal to a process group that may be gone already."""
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        pass


def stop_group(record: ProcessRecord, grace: float) -> bool:
    """Stop the recorded process and its group: SIGTERM, `grace` seconds, SIGKILL. Whether it was ours and is gone."""
    if not is_ours(record):
        return False
    signal_group(record.pgid, signal.SIGTERM)
    if not _gone_within(record.pgid, grace):
        signal_group(record.pgid, signal.SIGKILL)
    return _gone_within(record.pgid, grace)


def _gone_within(pgid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while group_alive(pgid):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
