from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure import dataset_formats
from osmosis.pure.dataset import RecordBatch
from osmosis.pure.dataset_formats import read_csv, read_jsonl
from osmosis.pure.errors import OsmosisError
from tests.strategies.data import chunked, json_objects, texts

Read = tuple[list[tuple[int, object]], list[tuple[str, str]]]


def flatten(batches: list[RecordBatch]) -> Read:
    """(line, values) of each record, and (where, message) of each problem."""
    records: list[tuple[int, object]] = []
    for batch in batches:
        assert batch.lines is not None
        assert batch.count == len(batch.records) == len(batch.lines)
        records += zip(batch.lines, batch.records, strict=True)
    return records, [(problem.where, problem.message) for batch in batches for problem in batch.problems]


def jsonl(data: bytes, **options: int) -> Read:
    """What `read_jsonl` finds in `data`."""
    return flatten(list(read_jsonl([data], "d", **options)))


def csv_file(data: bytes, **options: int) -> Read:
    """What `read_csv` finds in `data`."""
    return flatten(list(read_csv([data], "d", **options)))


def sound(read: Read) -> list[tuple[int, object]]:
    """The records, where there is no problem."""
    assert read[1] == []
    return read[0]


# JSONL ------------------------------------------------------------------------------------------------------------------


@given(st.lists(json_objects, max_size=6), st.booleans(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_jsonl_round_trip(records, ascii_only, newline, final):
    """What the standard library writes is read back, with or without escapes, CRLF and a last newline."""
    text = newline.join(json.dumps(record, ensure_ascii=ascii_only) for record in records)
    found = sound(jsonl((text + newline * final).encode()))
    assert found == [(number, record) for number, record in enumerate(records, 1)]


@given(st.data())
def test_jsonl_does_not_see_chunks_or_blocks(data):
    """However a file arrives, and however large the blocks, records and problems are the same."""
    pieces = st.sampled_from(
        [
            b'{"a":1}',
            b"\n",
            b"\n\n",
            b"\r\n",
            b" ",
            b'{"a":{"b":[{"c":"\xc3\xa9"}]}}',
            b"{}{}",
            b"[",
            b'{"a":1,"a":2}',
            b'{"x":\n1}',
        ]
    )
    content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + b"".join(data.draw(st.lists(pieces, max_size=8)))
    whole = jsonl(content)
    assert flatten(list(read_jsonl(data.draw(chunked(content)), "d"))) == whole
    assert flatten(list(read_jsonl(data.draw(chunked(content)), "d", block_bytes=1))) == whole
    assert flatten(list(read_jsonl([content[i : i + 1] for i in range(len(content))], "d", block_bytes=4))) == whole


@given(
    st.lists(
        st.sampled_from(
            ['{"a":1}', '{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{"a":"\\":"}', '{"a":', "1}", '{"a":1} {"b":2}', "{"]
        )
    )
)
def test_the_quick_look_agrees_with_the_slow_one(lines):
    """Decoding a whole block at once never accepts, or reads otherwise, what line by line would be refused."""
    data = "\n".join(lines).encode()
    quick = dataset_formats._decode_plain_block(dataset_formats._begin(data, 0, 1))
    slow = dataset_formats._decode_lines(dataset_formats._begin(data, 0, 1), "d")
    assert quick is None or (quick == slow.records and not slow.problems)


def test_plain_files_take_the_quick_way():
    """Ordinary lines, nested metadata and CRLF included, are decoded a block at a time."""
    for newline in (b"\n", b"\r\n"):
        data = newline.join([b'{"a":"x","m":{"k":[{"z":1}]}}', b'{"b": "y\\u00e9"}', b""])
        assert dataset_formats._decode_plain_block(dataset_formats._begin(data, 0, 1)) == [
            {"a": "x", "m": {"k": [{"z": 1}]}},
            {"b": "yé"},
        ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "the line must hold a JSON object"),
        (b"7", "the line must hold a JSON object"),
        (b'{"a": 1', "not valid JSON: expecting ',' delimiter at column 8"),
        (b'{"a": 1} {"b": 2}', "not valid JSON: extra data at column 10"),
        (b'{"a": 1, "a": 2}', "not acceptable as JSON: duplicate key 'a'"),
        (b'{"m": {"a": 1, "a": 2}}', "not acceptable as JSON: duplicate key 'a'"),
        (b'{"a": NaN}', "not acceptable as JSON: NaN is not JSON"),
        (b'{"a": 1e999}', "not acceptable as JSON: number out of range: 1e999"),
        (b'{"a": "\x00"}', "not valid JSON: invalid control character at column 8"),
        (b"\x0c", "not valid JSON: expecting value at column 1"),
        (b'{"a":' + b"[" * 100_000, "not acceptable as JSON: nested too deeply"),
    ],
)
def test_bad_lines_are_told_with_their_line(line, message):
    """Each broken line is one problem at its line, and the lines around it are still read."""
    records, problems = jsonl(b'{"x":1}\n\n' + line + b'\n{"y":2}\n')
    assert records == [(1, {"x": 1}), (3, None), (4, {"y": 2})]
    assert problems == [("d:3", message)]


def test_other_line_ends_are_data():
    """U+2028, U+2029, U+0085 raw inside a string do not end a line."""
    text = "a\u2028b\u2029c\x85d"
    assert sound(jsonl(json.dumps({"t": text}, ensure_ascii=False).encode())) == [(1, {"t": text})]


def test_lone_surrogates_are_kept():
    """An escaped half of a character is part of the text."""
    assert sound(jsonl(b'{"t":"\\ud800x"}\n')) == [(1, {"t": "\ud800x"})]


def test_huge_integers_keep_their_value():
    """Integers beyond 64 bits are not rounded."""
    assert sound(jsonl(b'{"n":123456789012345678901234567890}')) == [(1, {"n": 123456789012345678901234567890})]


@pytest.mark.parametrize("reader", [read_jsonl, read_csv])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("block_bytes", [1, 10**6])
def test_bytes_that_are_not_utf8_are_told_by_offset(reader, mark, block_bytes):
    """The offset counts from the start of the file, byte order mark included."""
    head = mark + (b'{"a":"x"}\n{"a":"' if reader is read_jsonl else b"user_prompt,label\nx,")
    with pytest.raises(OsmosisError, match=rf"byte offset {len(head)}\b"):
        list(reader([head + b'\xe9"}\n'], "d", block_bytes=block_bytes))


@pytest.mark.parametrize("reader", [read_jsonl, read_csv])
def test_endless_records_are_refused(reader, monkeypatch):
    """A file without newlines, or with a quote left open, does not fill the memory."""
    monkeypatch.setattr(dataset_formats, "MAX_RECORD_BYTES", 1000)

    def endless():
        yield b'{"a":1}\n' if reader is read_jsonl else b'user_prompt,label\n"'
        while True:
            yield b"x" * 64 if reader is read_jsonl else b"x" * 63 + b"\n"

    with pytest.raises(OsmosisError) as caught:
        list(reader(endless(), "d", block_bytes=100))
    assert caught.value.problems[0].where == "d:2"


# CSV --------------------------------------------------------------------------------------------------------------------

HEADER = b"user_prompt,ground_truth\n"


@given(
    st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(texts, min_size=width, max_size=width), max_size=6)),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_csv_round_trip(rows, quoting, newline):
    """What the standard library writes is read back: quotes, commas, newlines, carriage returns and NUL in cells.

    With `\n` line ends it leaves carriage returns unquoted, which its own reader refuses as ours does.
    """
    assume(newline == "\r\n" or quoting == csv.QUOTE_ALL or not any("\r" in cell for cells in rows for cell in cells))
    width = len(rows[0]) if rows else 1
    header = ["metadata", "b", "c", "d"][:width]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=quoting, lineterminator=newline)
    writer.writerow(header)
    expected = []
    for cells in rows:
        line = buffer.getvalue().count("\n") + 1
        writer.writerow(cells)
        expected.append((line, dict(zip(header, cells, strict=True))))
    assert sound(csv_file(buffer.getvalue().encode())) == expected


@given(st.data())
def test_csv_does_not_see_chunks_or_blocks(data):
    """However a file arrives, and however large the blocks, records and problems are the same."""
    pieces = st.sampled_from([b"a", b",", b'"', b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"x,y\n", b'"p\n,""q",z\n'])
    content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + HEADER + b"".join(data.draw(st.lists(pieces, max_size=12)))
    whole = csv_file(content)
    assert flatten(list(read_csv(data.draw(chunked(content)), "d"))) == whole
    assert flatten(list(read_csv(data.draw(chunked(content)), "d", block_bytes=1))) == whole
    assert flatten(list(read_csv([content[i : i + 1] for i in range(len(content))], "d", block_bytes=4))) == whole


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        (b"a\n", 2, "1 cell where the header has 2"),
        (b"a,b,c\n", 2, "3 cells where the header has 2"),
        (b'"x\ny",b\n\na,b,\n', 5, "3 cells where the header has 2"),
        (b'a,5" pipe\n', 2, "a quote inside an unquoted cell at column 4"),
        (b'"a"b,c\n', 2, "text behind a closing quote at column 1"),
        (b'x,"a\nb"c\n', 2, "text behind a closing quote at column 3"),
        (b"a\rb,c\n", 2, "a line break inside an unquoted cell at column 2"),
        (b'a,"b\n', 2, "a quote is opened here and never closed"),
        (b'a, "b"\n', 2, "a quote inside an unquoted cell at column 4"),
    ],
)
def test_bad_csv_records_are_told_with_their_line(body, line, message):
    """Ragged and malformed records are one problem each, at the line where the record begins."""
    records, problems = csv_file(HEADER + body)
    assert [where for where, _ in problems] == [f"d:{line}"]
    assert problems[0][1].startswith(message)
    assert (line, None) in records or "never closed" in message


def test_a_stray_quote_does_not_swallow_the_lines_below():
    """The lines after a malformed record are still judged by themselves."""
    records, problems = csv_file(HEADER + b'a,5" x\nc,d\ne,f,g\n')
    assert records == [(2, None), (3, {"user_prompt": "c", "ground_truth": "d"}), (4, None)]
    assert [where for where, _ in problems] == ["d:2", "d:4"]


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"user_prompt,label,label\n", "names 'label' 2 times"),
        (b"prompt,label\n", "no column user_prompt; the header has 'prompt', 'label'"),
        (b"user_prompt;label\n", "no column user_prompt and no column ground_truth"),
        (b'user_prompt,la"bel\n', "a quote inside an unquoted cell"),
        (b"user_prompt,label\ruser,x\r", "a line break inside an unquoted cell"),
    ],
)
def test_bad_headers_are_refused_at_once(header, part):
    """Without a sound header no row can be read, so it is the one complaint."""
    with pytest.raises(OsmosisError) as caught:
        csv_file(b"\n" + header + b"a,b,c\n")
    assert caught.value.problems[0].where == "d:2"
    assert part in caught.value.problems[0].message


def test_blank_csv_lines_are_no_records():
    """Empty lines, CRLF ones included, are skipped and still counted as lines."""
    assert sound(csv_file(HEADER + b"\n\r\na,b\n\n")) == [(4, {"user_prompt": "a", "ground_truth": "b"})]
