"""Pages of a log: every line once, whatever the page size, and nothing lost from a line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.log_line import log_line
from osmosis.pure.log_page import LONGEST_LINE, LogEntry, decode_cursor, page_of, parse_entry, whole_lines

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
lines = st.lists(texts, max_size=30)
details = st.dictionaries(texts, st.integers() | texts | st.booleans(), min_size=1, max_size=3)


def read(log: bytes, end: int, limit: int, block: int) -> tuple[tuple[LogEntry, ...], int | None]:
    """One page that ends at `end`, read backwards in blocks, as the shell does."""
    start, tail = end, b""
    while True:
        begin = max(0, start - block)
        tail, start = log[begin:start] + tail, begin
        page = page_of(tail, start, limit)
        if page is not None:
            return page.entries, page.cursor


@given(lines, st.integers(1, 7), st.integers(1, 50), st.booleans())
def test_pages_from_the_end_hold_every_line_once(content: list[str], limit: int, block: int, ended: bool) -> None:
    """Whatever the size of pages and blocks, and however the last line ends, the pages put together are the log."""
    log = "\n".join(content).encode() + (b"\n" if ended and content else b"")
    expected = log.decode().removesuffix("\n").split("\n") if log else []
    found: list[str] = []
    cursor: int | None = len(log)
    while cursor is not None:
        entries, cursor = read(log, cursor, limit, block)
        assert len(entries) <= limit
        found = [entry.message for entry in entries] + found
    assert found == expected


@given(texts.map(str.strip).filter(lambda text: "{" not in text), details)
def test_what_was_logged_is_read_again(message: str, extra: dict[str, object]) -> None:
    """Time, level, step, message and details come back from a line that `log_line` wrote."""
    line = log_line("2026-11-30T16:05:04.000000Z", "INFO", "run", message, extra)
    assert parse_entry(line) == LogEntry("2026-11-30T16:05:04.000000Z", "INFO", "run", message, extra)


@given(texts)
def test_any_line_is_an_entry(text: str) -> None:
    """A line that is none of ours is a message alone, and a message that only looks as if it had details keeps them."""
    assert parse_entry(text).message == text
    broken = f"2026-11-30T16:05:04Z INFO [run] {text} {{not json}}"
    assert json.loads(json.dumps(parse_entry(broken).message)).endswith("{not json}")


@pytest.mark.parametrize("cursor", ["", "0", "-1", "1e3", "x", "101", "\N{ARABIC-INDIC DIGIT ONE}", "9" * 30])
def test_a_cursor_of_another_log_is_refused(cursor: str) -> None:
    """Nothing but an offset inside the log is a cursor."""
    with pytest.raises(OsmosisError, match="is not a cursor of this log"):
        decode_cursor(cursor, 100)
    assert decode_cursor("100", 100) == 100


@given(lines, st.integers(1, 7))
def test_following_gives_every_line_once(content: list[str], size: int) -> None:
    """In whatever pieces a log is read, even within a character: each line once, when it is complete, and the rest is kept."""
    log = "".join(f"{line}\n" for line in content).encode() + b"begun"
    found: list[str] = []
    rest = b""
    for start in range(0, len(log), size):
        entries, rest = whole_lines(rest + log[start : start + size])
        found += [entry.message for entry in entries]
    assert (found, rest) == (content, b"begun")


def test_a_line_without_end_is_not_waited_for() -> None:
    """A file that holds no newline cannot make a reader hold all of it."""
    entries, rest = whole_lines(b"x" * (LONGEST_LINE + 1))
    assert (len(entries), rest) == (1, b"")
    assert whole_lines(b"x" * LONGEST_LINE) == ((), b"x" * LONGEST_LINE)
