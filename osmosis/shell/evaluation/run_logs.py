"""Reads pages of `logs.txt` from its end, in blocks, however long the log is (issue 9)."""

from __future__ import annotations

import os

from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.log_page import LONGEST_LINE, LogPage, decode_cursor, page_of
from osmosis.shell.evaluation.own_files import open_regular
from osmosis.shell.evaluation.run_directory import RunDirectory

_BLOCK = 1 << 16


def read_log_page(directory: RunDirectory, limit: int, cursor: str | None) -> LogPage:
    """The newest `limit` lines, or the `limit` lines before `cursor`. A run that never dispatched has an empty log.

    Raises OsmosisError for a log that cannot be read and for a cursor that is none of it.
    """
    try:
        descriptor = open_regular(directory.log)
    except FileNotFoundError:
        if cursor is not None:
            decode_cursor(cursor, 0)
        return LogPage(())
    except OSError as error:
        raise unreadable_log(directory, error) from None
    try:
        size = os.fstat(descriptor).st_size
        return page_before(descriptor, size if cursor is None else decode_cursor(cursor, size), limit)
    finally:
        os.close(descriptor)


def unreadable_log(directory: RunDirectory, error: OSError) -> OsmosisError:
    """The error for a log that is there and cannot be read."""
    return OsmosisError(
        f"The log of run {directory.name} cannot be read.",
        problems=[Problem(str(directory.log), error.strerror or str(error))],
        hint="Check the permissions of the run directory.",
    )


def page_before(descriptor: int, end: int, limit: int) -> LogPage:
    """The last `limit` lines before offset `end`."""
    start, tail = end, b""
    while True:
        begin = max(0, start - max(_BLOCK, len(tail)))
        tail = os.pread(descriptor, start - begin, begin) + tail
        start = begin
        page = page_of(tail, start, limit)
        if page is None and len(tail.partition(b"\n")[0]) > LONGEST_LINE:
            # Hardly a line. It is shown as far as it was read, so that no file can make a reader hold all of it.
            page = page_of(tail, 0, limit)
        if page is not None:
            return page
