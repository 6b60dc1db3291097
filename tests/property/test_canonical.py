"""JSON and text at the byte level: strict, duplicate keys found at any depth, cuts by code point, lines by newline alone."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.canonical import (
    BYTE_ORDER_MARK,
    DuplicateKeyError,
    canonical_json,
    decode_json,
    decode_utf8,
    lines,
    pretty_json,
    spaced_json,
    strip_byte_order_mark,
    truncate,
    well_formed,
)
from osmosis.pure.errors import OsmosisError
from tests.strategies.data import json_values, surrogate_texts, texts

WRITERS = [canonical_json, spaced_json, pretty_json]


@pytest.mark.parametrize("write", WRITERS)
@given(value=json_values)
def test_what_is_written_is_read(write, value):
    """Each spelling gives the value back, to our reader and to the standard library's."""
    data = write(value)
    assert decode_json(data) == value
    assert json.loads(data) == value


@pytest.mark.parametrize("write", WRITERS)
@given(value=json_values)
def test_bytes_are_plain_utf8_on_the_lines_they_should_be(write, value):
    """Valid UTF-8; one line without a newline, or for pretty files a final one and no other blank line."""
    text = write(value).decode()
    if write is pretty_json:
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
    else:
        assert "\n" not in text


@given(st.dictionaries(texts, json_values, max_size=6))
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value):
    """Equal objects have equal canonical bytes."""
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(backwards)
    assert b": " not in canonical_json({"a": 1, "b": [1, 2]})


@given(st.dictionaries(texts, json_values, max_size=6))
def test_the_other_spellings_keep_the_order_of_keys(value):
    """`index.jsonl` and files for people keep the order in which keys were put."""
    assert list(decode_json(spaced_json(value))) == list(value)
    assert list(decode_json(pretty_json(value))) == list(value)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@given(depth=st.integers(0, 5))
def test_numbers_that_are_not_finite_are_never_written(write, number, depth):
    """Strict RFC 8259, however deep the number lies."""
    value = number
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    with pytest.raises(ValueError, match="Out of range"):
        write(value)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", '{"a": [1e400]}', '[{"a": NaN}]'])
def test_numbers_that_are_not_finite_are_never_read(text):
    """What other libraries accept, we refuse."""
    with pytest.raises(ValueError, match=r"not JSON|out of range"):
        decode_json(text)


BAD = ["", " ", "{", "[1,]", "{'a': 1}", "01", "+1", ".5", '"\t"', "nul", "[1] 2", '{"a" 1}', "// c\n1", "\x00", '"\\x"']


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_json_is_refused(text):
    """As text and as bytes, with the same kind of error."""
    for form in (text, text.encode()):
        with pytest.raises(ValueError, match=r".+"):
            decode_json(form)


@pytest.mark.parametrize("data", [b'"\xff"', b"\xff", b'"\xed\xa0\x80"', b'{"a\xc3": 1}', '"ü"'.encode("utf-16")])
def test_bytes_that_are_not_utf8_are_refused(data):
    """Latin-1, UTF-16, and surrogates as bytes."""
    with pytest.raises(ValueError, match=r".+"):
        decode_json(data)


def doubled(path: list[int | str], key: str) -> str:
    """An object that names `key` twice, inside lists (numbers: elements before it) and objects (strings: its key)."""
    text = f"{{{json.dumps(key)}: 1, {json.dumps(key)} : 1}}"
    for step in reversed(path):
        text = f"[{'0, ' * step}{text}]" if isinstance(step, int) else f'{{{json.dumps(step)}: {text}, "": 0}}'
    return text


@given(st.lists(st.integers(0, 3) | texts.filter(bool), max_size=6), texts)
def test_a_key_named_twice_is_found_at_any_depth(path, key):
    """However deep, whatever the key, also when both values are equal."""
    for form in (doubled(path, key), doubled(path, key).encode()):
        with pytest.raises(DuplicateKeyError, match="duplicate key"):
            decode_json(form)


@pytest.mark.parametrize(
    "text", [r'{"a": 1, "\u0061": 2}', '{"a":1,"a"\n\t: 2}', '{"x": "\\":", "b": 1, "b": 2}', '{"é": 1, "\\u00e9": 2}']
)
def test_a_key_named_twice_is_found_in_any_spelling(text):
    """An escape, white space before the colon, and strings that look like keys hide nothing."""
    with pytest.raises(DuplicateKeyError):
        decode_json(text)


@given(st.text('":{},\\ \n', max_size=12), st.text('":{},\\ \n', max_size=12))
def test_strings_that_look_like_keys_are_only_strings(key, value):
    """Text with quotes and colons in it never counts as a second key."""
    document = {key: value, "list": [value, {key: {key: value}}]} if key != "list" else {key: value}
    assert decode_json(canonical_json(document)) == document


def test_nesting_without_end_is_an_error_not_a_crash():
    """A hostile document cannot exhaust the stack."""
    for text in ("[" * 200_000, '{"a":' * 200_000, "[" * 200_000 + "]" * 200_000):
        with pytest.raises(ValueError, match=r".+"):
            decode_json(text)


@given(surrogate_texts)
def test_lone_surrogates_become_replacement_characters(text):
    """What is written is valid UTF-8; text without a surrogate is not touched; doing it twice changes nothing."""
    made = well_formed(text)
    assert made.encode().decode() == made
    assert len(made) == len(text)
    assert well_formed(made) == made
    assert all(old == new or "\ud800" <= old <= "\udfff" for old, new in zip(text, made, strict=True))
    assert decode_json(canonical_json([text])) == [made]


@given(surrogate_texts)
def test_lone_surrogates_that_are_read_stay(text):
    """JSON can spell them, so reading keeps them: the digest of a row depends on what the file says."""
    assert decode_json(json.dumps([text])) == [text]


@given(surrogate_texts, st.integers(0, 20))
def test_cuts_count_code_points(text, length):
    """A cut is a prefix of at most that many code points, whatever their size in UTF-8."""
    cut = truncate(text, length)
    assert cut == well_formed(text)[:length]
    assert len(cut) == min(len(text), length)
    assert len(truncate("😀" * 30, length)) == length


SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@given(st.lists(st.text(st.sampled_from(SEPARATORS + "a数"), max_size=5), max_size=6), st.booleans())
def test_lines_end_at_newlines_and_nowhere_else(parts, ended):
    """U+2028, U+0085, form feed and friends are data; numbers and offsets say where each line stands."""
    data = "\n".join(parts).encode() + (b"\n" if ended and parts else b"")
    found = list(lines(data))
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for _, _, line in found] == expected
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    assert all(data[offset : offset + len(line)] == line for _, offset, line in found)


@given(st.binary(max_size=40))
def test_no_byte_is_lost_between_lines(data):
    """Lines and their newlines are the whole file."""
    joined = b"\n".join(line for _, _, line in lines(data))
    assert data in (joined, joined + b"\n")


@given(texts)
def test_a_byte_order_mark_is_skipped_once(text):
    """A file with and without it is the same file; a second one is data."""
    data = text.encode()
    assert strip_byte_order_mark(BYTE_ORDER_MARK + data) == data
    assert decode_utf8(BYTE_ORDER_MARK + data, "f") == text
    assert decode_utf8(BYTE_ORDER_MARK * 2 + data, "f") == "\ufeff" + text


@given(texts, texts)
def test_another_encoding_is_named_with_its_offset(before, after):
    """The error says at which byte of the file it ceases to be UTF-8."""
    data = before.encode() + b"\xff" + after.encode()
    with pytest.raises(OsmosisError, match="is not UTF-8 text") as caught:
        decode_utf8(data, "data.csv")
    assert caught.value.problems[0].message == f"invalid UTF-8 at byte offset {len(before.encode())}"
