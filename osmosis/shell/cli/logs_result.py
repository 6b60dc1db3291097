"""Lines of a run's log as results: a page, or a stream of entries and its end (contract `cli.md` section 1; decision 0052)."""

from __future__ import annotations

import msgspec

from osmosis.pure.canonical import canonical_json
from osmosis.pure.log_page import LogEntry, LogPage
from osmosis.pure.presentation import UNDEFINED
from osmosis.pure.report import NextStep
from osmosis.pure.run_overview import RunState
from osmosis.shell.cli.result import Column, ListResult, StreamEntry, StreamResult

OPERATION = "eval.logs"
LINE = "log.line"
END = "log.end"

_USUAL = "INFO"
_TO_THE_SECOND = len("2026-11-30T16:05:04")
COLUMNS = (Column("Time", 2), Column("Level", 1), Column("Step", 3), Column("Message", 4))


class LogExtra(msgspec.Struct, frozen=True):
    """The key beside the list. It leads to the older page; null at the beginning of the log."""

    next_cursor: str | None


class LogEnd(msgspec.Struct, frozen=True):
    """`data` of `log.end`: how the run stands now, and how many lines were shown."""

    run_name: str
    status: str
    lines: int


def logs_result(page: LogPage, name: str, older: tuple[str, ...]) -> ListResult:
    """A page as a result; `older` is the command that, with a cursor behind it, shows the page before."""
    cursor = None if page.cursor is None else str(page.cursor)
    return ListResult(
        operation=OPERATION,
        title=f"Log of {name}",
        items=page.entries,
        total_count=len(page.entries),
        columns=COLUMNS,
        rows=tuple(map(_cells, page.entries)),
        has_more=cursor is not None,
        extra=LogExtra(cursor),
        lines=tuple(map(_line, page.entries)),
        message="" if page.entries else f"The log of {name} is empty.",
        next_steps=() if cursor is None else (NextStep("logs", "Older lines", (*older, "--cursor", cursor)),),
    )


def entry_of(entry: LogEntry, at: str) -> StreamEntry:
    """A line that was seen at that time."""
    return StreamEntry(LINE, at, entry, _cells(entry), _line(entry))


def followed_result(name: str, state: RunState, shown: int, at: str) -> StreamResult:
    """The end of following: the run has ended, or nobody worked on it."""
    return StreamResult(OPERATION, END, at, LogEnd(name, state.value, shown), _MESSAGES[state].format(name=name))


_MESSAGES = {
    RunState.FINISHED: "Run {name} is finished.",
    RunState.INTERRUPTED: "Nobody works on run {name}, and it is not finished.",
    RunState.RUNNING: "Run {name} goes on.",
    RunState.UNREADABLE: "Run {name} cannot be read any more.",
}


def _cells(entry: LogEntry) -> tuple[str, ...]:
    return entry.timestamp or UNDEFINED, entry.level or UNDEFINED, entry.step or UNDEFINED, _message(entry)


def _line(entry: LogEntry) -> str:
    """For eyes: time to the second, the level where it is not the usual one, details as `key=value`."""
    details = (f"{key}={_value(value)}" for key, value in (entry.details or {}).items())
    if entry.timestamp is None:
        return " ".join([entry.message, *details])
    level = [] if entry.level == _USUAL else [str(entry.level)]
    time = entry.timestamp[:_TO_THE_SECOND].replace("T", " ")
    return " ".join([time, *level, f"[{entry.step}]", entry.message, *details])


def _value(value: object) -> str:
    plain = isinstance(value, str) and value and " " not in value
    return str(value) if plain else canonical_json(value).decode()


def _message(entry: LogEntry) -> str:
    details = canonical_json(entry.details).decode() if entry.details else ""
    return " ".join(part for part in (entry.message, details) if part)
