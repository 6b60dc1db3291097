"""Follows the log of a run that is going on: the newest lines, then every line as it comes, until nobody works on the run
(issue 9).

The log is looked at by the clock: it may lie on a file system that announces no changes. Nothing is changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from osmosis.pure.log_page import LogEntry, parse_entry, whole_lines
from osmosis.shell.evaluation.own_files import open_regular
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_list import is_held
from osmosis.shell.evaluation.run_logs import page_before, unreadable_log

_INTERVAL = 0.2
"""Seconds between looks."""
_BLOCK = 1 << 16


def follow_log(directory: RunDirectory, limit: int) -> Iterator[tuple[LogEntry, ...]]:
    """Groups of entries, in order: the last `limit` that are there, then the new ones. Ends when the run has ended, or was
    moved aside, and everything was given. A run that never dispatched has an empty log. Raises OsmosisError."""
    descriptor = _opened(directory)
    if descriptor is None:
        return
    try:
        yield from _entries(directory, descriptor, limit)
    finally:
        os.close(descriptor)


def _opened(directory: RunDirectory) -> int | None:
    """A descriptor of the log, waiting for it while the run is being prepared; None when there will be none."""
    while True:
        held = is_held(directory)
        try:
            return open_regular(directory.log)
        except FileNotFoundError:
            if not held:
                return None
        except OSError as error:
            raise unreadable_log(directory, error) from None
        time.sleep(_INTERVAL)


def _entries(directory: RunDirectory, descriptor: int, limit: int) -> Iterator[tuple[LogEntry, ...]]:
    offset = _end_of_lines(descriptor)
    if entries := page_before(descriptor, offset, limit).entries:
        yield entries
    rest = b""
    while True:
        # Asked first: what a run wrote before it let go of its lock is then read below.
        going_on = is_held(directory) and _is_still(descriptor, directory.log)
        while chunk := os.pread(descriptor, _BLOCK, offset):
            offset += len(chunk)
            entries, rest = whole_lines(rest + chunk)
            if entries:
                yield entries
        if not going_on:
            if rest:
                yield (parse_entry(rest.decode(errors="replace")),)
            return
        time.sleep(_INTERVAL)


def _end_of_lines(descriptor: int) -> int:
    """Where the last whole line ends; 0 without one nearby."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - _BLOCK)
    return begin + os.pread(descriptor, size - begin, begin).rfind(b"\n") + 1


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the log at `path` is the one that is being read: `--fresh` moves a run aside."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False
