"""JSONL and CSV, strictly: bytes in, batches of records out (rulings 8 and 9; contract `eval_local.md` section 3).

Both readers take the file in chunks of any size and hold one block of lines at a time; each batch carries the bytes it was read
from, and the format's `again` reads them a second time. Lines end with `\n` alone; U+2028,
U+0085, form feeds and NUL are data. A UTF-8 byte order mark at the start is skipped; bytes that are not UTF-8 are an error that
names their offset.

JSONL: one object a line; lines of nothing but white space are no records. Duplicate keys, NaN and infinities are refused.

CSV: RFC 4180 with a header, comma and double quote, lines ended by `\n` or `\r\n`. Empty lines are no records. A record with
more or fewer cells than the header is refused, and so is a quote or a carriage return inside an unquoted cell.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from osmosis.pure.canonical import BYTE_ORDER_MARK, decode_json, not_utf8
from osmosis.pure.dataset import RecordBatch, Values, describe_json_error, invalid_dataset, missing_columns
from osmosis.pure.errors import Problem

MAX_RECORD_BYTES = 64 * 2**20
"""No record is longer. More likely a quote was left open, or the file has no lines."""

BLOCK_BYTES = 256 * 1024


class _Block(msgspec.Struct, frozen=True):
    """Whole lines: `data` begins at `offset` in the file with line `line`. Only the file's last block may lack a final newline.

    `newlines` are in it, of which `borders` have `}` before them, or `}` and a carriage return, and `{` behind them.
    """

    data: bytes
    offset: int
    line: int
    newlines: int
    borders: int


def _blocks(chunks: Iterable[bytes], label: str, block_bytes: int) -> Iterator[_Block]:
    """Cut a file into blocks of whole lines, each of about `block_bytes`, without the byte order mark."""
    offset, line = 0, 1
    for data in _whole_lines(chunks, block_bytes):
        if len(data) > MAX_RECORD_BYTES and data.find(b"\n", 0, -1) < 0:
            raise invalid_dataset(label, [_too_long(label, line)], 1)
        block = _begin(data, offset, line)
        yield block
        offset += len(data)
        line += block.newlines


def _whole_lines(chunks: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """The file in pieces of up to about `block_bytes`. Each ends with a newline, but for the last one, and for the beginning of
    a line that is longer than any record may be."""
    pending: list[bytes] = []  # no newline in it
    size = 0
    for chunk in chunks:
        start, end = 0, len(chunk)
        while start < end:
            cut = chunk.rfind(b"\n", start, start + block_bytes) + 1 or chunk.find(b"\n", start + block_bytes) + 1
            if cut == 0:
                break
            pending.append(chunk[start:cut])
            yield pending[0] if len(pending) == 1 else b"".join(pending)
            pending, size, start = [], 0, cut
        if start < end:
            pending.append(chunk[start:])
            size += end - start
            if size > MAX_RECORD_BYTES:
                yield b"".join(pending)
                pending, size = [], 0
    if pending:
        yield b"".join(pending)


_LINE_END = re.compile(rb"\n(\{(?:(?<=\}\n\{)|(?<=\}\r\n\{)))?")
"""One search for both counts. It looks back because a search that begins with a newline passes over text quickly."""


def _begin(data: bytes, offset: int, line: int) -> _Block:
    if offset == 0 and data.startswith(BYTE_ORDER_MARK):
        data, offset = data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    ends = _LINE_END.findall(data)
    return _Block(data, offset, line, len(ends), ends.count(b"{"))


def _too_long(label: str, line: int) -> Problem:
    return Problem(f"{label}:{line}", f"a record here is longer than {MAX_RECORD_BYTES // 2**20} MiB; is a quote left open?")


# JSONL ------------------------------------------------------------------------------------------------------------------

_lines_decoder = msgspec.json.Decoder()
_KEY_END = re.compile(rb'"[ \t\r\n]*:')
_JSON_BLANK = b" \t\r"


def read_jsonl(chunks: Iterable[bytes], label: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBatch]:
    """Yield the records of a JSONL file. `label` names the file.

    A line that is no JSON object becomes a problem of its batch. Raises OsmosisError for bytes that are not UTF-8 and for a
    line beyond MAX_RECORD_BYTES.
    """
    for block in _blocks(chunks, label, block_bytes):
        records = _decode_plain_block(block)
        if records is None:
            yield _decode_lines(block, label)
        else:
            lines = range(block.line, block.line + len(records))
            yield RecordBatch(len(records), records, lines, offset=block.offset, data=block.data)


def _decode_plain_block(block: _Block) -> list[dict[str, Any]] | None:
    """Decode a block at once, or return None where its lines must be looked at one by one.

    The decoder accepts any white space between and inside values. If each line begins with `{` and ends with `}`, a newline
    can only stand between two values; as many values as lines then means one value a line. If the values have as many keys as
    the text has places that can end a key, no key was swallowed by a namesake.
    """
    data, borders = block.data, block.borders
    if not data.startswith(b"{") or borders != block.newlines - data.endswith(b"\n"):
        return None
    try:
        records: list[dict[str, Any]] = _lines_decoder.decode_lines(data)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return None
    keys = sum(map(len, records))
    possible = len(_KEY_END.findall(data))
    unique = keys == possible or keys + sum(map(_inner_keys, records)) == possible
    return records if unique and len(records) == borders + 1 else None


def _inner_keys(record: dict[str, Any]) -> int:
    """How many keys stand in the objects inside a record."""
    count = 0
    open_values: list[Any] = [value for value in record.values() if type(value) in (dict, list)]
    while open_values:
        value = open_values.pop()
        if type(value) is dict:
            count += len(value)
            value = value.values()
        open_values.extend(inner for inner in value if type(inner) in (dict, list))
    return count


def _decode_lines(block: _Block, label: str) -> RecordBatch:
    records: list[Values | None] = []
    numbers: list[int] = []
    problems: list[Problem] = []
    offset = block.offset
    for number, line in enumerate(block.data.split(b"\n"), block.line):
        if line.strip(_JSON_BLANK):
            numbers.append(number)
            value, wrong = _decode_record(line, offset, label)
            records.append(value)
            if wrong is not None:
                problems.append(Problem(f"{label}:{number}", wrong))
        offset += len(line) + 1
    return RecordBatch(len(records), records, numbers, tuple(problems), offset=block.offset, data=block.data)


def _jsonl_again(_: bytes, data: bytes) -> Sequence[Values]:
    """The records of whole lines that `read_jsonl` found sound: one object a line, so the decoder need not be watched."""
    try:
        return cast("list[Values]", _lines_decoder.decode_lines(data))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        # Half characters, and numbers that only the standard library takes.
        return [values for batch in read_jsonl([data], "") for values in batch.records if values is not None]


def _decode_record(line: bytes, offset: int, label: str) -> tuple[Values | None, str | None]:
    """The object on a line, or what is wrong with the line."""
    try:
        value = decode_json(line)
    except UnicodeDecodeError as error:
        raise not_utf8(label, offset + error.start) from None
    except json.JSONDecodeError as error:
        return None, f"not valid JSON: {describe_json_error(error)}"
    except (ValueError, RecursionError) as error:
        return None, f"not acceptable as JSON: {describe_json_error(error)}"
    return (value, None) if isinstance(value, dict) else (None, "the line must hold a JSON object")


# CSV --------------------------------------------------------------------------------------------------------------------

_CELL = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"(?=,|\Z)|([^",\r\n]*+)(?=,|\Z)')
_OPEN_RECORD = re.compile(r'(?:(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+),)*+"[^"]*+(?:""[^"]*+)*+')
"""Whole cells, then one whose closing quote is still to come."""


def read_csv(chunks: Iterable[bytes], label: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBatch]:
    """Yield the records of a CSV file. `label` names the file.

    A malformed or ragged record becomes a problem of its batch. Raises OsmosisError for bytes that are not UTF-8, for a header
    with duplicate names or without the columns that rows need, and for a record beyond MAX_RECORD_BYTES.
    """
    header: tuple[str, ...] = ()
    header_bytes = b""
    for group in _csv_groups(chunks, label, block_bytes):
        found, data, offset = group.records, group.data, group.offset
        if not header and found:
            line, cells = found.pop(0)
            header = _check_header(cells, f"{label}:{line}", label)
            end = _after_lines(data, line - group.line + 1 + sum(name.count("\n") for name in header))
            header_bytes, data, offset = data[:end], data[end:], offset + end
        records: list[Values | None] = []
        problems: list[Problem] = []
        for line, cells in found:
            wrong = cells if isinstance(cells, str) else _ragged(len(cells), len(header))
            records.append(None if wrong else dict(zip(header, cells, strict=True)))
            if wrong:
                problems.append(Problem(f"{label}:{line}", wrong))
        lines = [line for line, _ in found]
        yield RecordBatch(len(records), records, lines, tuple(problems), offset=offset, data=data, header=header_bytes)


def _csv_again(header: bytes, data: bytes) -> Sequence[Values]:
    """The records of whole lines that `read_csv` found sound."""
    return [values for batch in read_csv([header, data], "") for values in batch.records if values is not None]


def _check_header(cells: list[str] | str, where: str, label: str) -> tuple[str, ...]:
    if isinstance(cells, str):
        wrong = [cells]
    else:
        wrong = [f"the header names {name!r} {times} times" for name, times in Counter(cells).items() if times > 1]
        lacking = missing_columns(cells)
        if lacking:
            wrong.append(f"{lacking}; the header has {', '.join(map(repr, cells[:20]))}")
    if wrong:
        raise invalid_dataset(label, [Problem(where, reason) for reason in wrong], len(wrong))
    return tuple(cells)


def _ragged(found: int, expected: int) -> str | None:
    if found == expected:
        return None
    return f"{found} cell{'s' * (found != 1)} where the header has {expected}"


class _Group(msgspec.Struct, frozen=True):
    """Whole records, as (line where it begins, its cells or what is wrong with it), and the bytes that hold them."""

    records: list[tuple[int, list[str] | str]]
    data: bytes
    offset: int
    line: int


def _csv_groups(chunks: Iterable[bytes], label: str, block_bytes: int) -> Iterator[_Group]:
    open_lines: list[str] = []
    open_size = quotes = start = 0
    carried: list[bytes] = []  # the bytes of a record that began in an earlier block, or in the last lines of the one at hand
    offset, first_line = 0, 1
    for block in _blocks(chunks, label, block_bytes):
        records: list[tuple[int, list[str] | str]] = []
        for number, line in enumerate(_decode_text(block, label).split("\n"), block.line):
            if not open_lines:
                cells = _split_line(line)
                if cells is not None:
                    records.append((number, cells)) if cells else None
                    continue
                start, quotes, open_size = number, 0, 0
            open_lines.append(line)
            open_size += len(line)
            quotes += line.count('"')
            if quotes % 2 == 0:
                records.append((start, _split_cells(_strip_return("\n".join(open_lines)))))
                open_lines = []
            elif open_size > MAX_RECORD_BYTES:
                raise invalid_dataset(label, [_too_long(label, start)], 1)
        if open_lines and carried and start < block.line:
            carried.append(block.data)
            continue
        if not carried:
            offset, first_line = block.offset, block.line
        whole = _after_lines(block.data, start - block.line) if open_lines else len(block.data)
        yield _Group(records, b"".join([*carried, block.data[:whole]]), offset, first_line)
        carried = [block.data[whole:]] if open_lines else []
        offset, first_line = block.offset + whole, start
    if open_lines:
        yield _Group([(start, "a quote is opened here and never closed")], b"".join(carried), offset, first_line)


def _after_lines(data: bytes, count: int) -> int:
    """Where line `count` begins, counted from 0; the end of `data` if it has fewer."""
    rest = data.split(b"\n", count)[count:]
    return len(data) - len(rest[0]) if rest else len(data)


def _decode_text(block: _Block, label: str) -> str:
    try:
        text = block.data.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(label, block.offset + error.start) from None
    return text.removesuffix("\n")


def _strip_return(line: str) -> str:
    return line.removesuffix("\r")


def _split_line(line: str) -> list[str] | str | None:
    """The cells of a line outside quotes; [] if it is empty; None if the record goes on; a message if it is malformed."""
    if '"' in line:
        goes_on = line.count('"') % 2 and _OPEN_RECORD.fullmatch(line)
        return None if goes_on else _split_cells(_strip_return(line))
    line = _strip_return(line)
    if "\r" in line:
        return _malformed(line, line.index("\r"))
    return line.split(",") if line else []


def _split_cells(record: str) -> list[str] | str:
    cells: list[str] = []
    position = 0
    while position <= len(record):
        match = _CELL.match(record, position)
        if match is None:
            return _malformed(record, position)
        quoted = match[1]
        cells.append(match[2] if quoted is None else quoted.replace('""', '"'))
        position = match.end() + 1
    return cells


def _malformed(record: str, position: int) -> str:
    """What is wrong with the cell that begins at `position`."""
    if record.startswith('"', position):
        what = "text behind a closing quote"
    else:
        stray = re.compile('["\r\n]').search(record, position)
        position = stray.start() if stray else position
        what = "a quote inside an unquoted cell" if stray and stray[0] == '"' else "a line break inside an unquoted cell"
    line = record.count("\n", 0, position)
    column = position - record.rfind("\n", 0, position)
    place = f"column {column}" if line == 0 else f"column {column} of line {line + 1} of the record"
    return f"{what} at {place}; put the cell in quotes and double the quotes in it"


# Again ------------------------------------------------------------------------------------------------------------------


class TextFormat(msgspec.Struct, frozen=True):
    """How a format is read. `read` takes the file and a label; `again` takes the header and the data of a batch in which `read`
    found no problem, and gives its records once more."""

    read: Callable[[Iterable[bytes], str], Iterator[RecordBatch]]
    again: Callable[[bytes, bytes], Sequence[Values]]


JSONL = TextFormat(read_jsonl, _jsonl_again)
CSV = TextFormat(read_csv, _csv_again)
