"""JSON and text at the byte level: every file the product writes is strict RFC 8259 in valid UTF-8.

Three spellings exist, one for each kind of file:

- `canonical_json`: sorted keys, compact; for anything that is hashed, compared or searched.
- `spaced_json`: insertion order, `", "` and `": "`; for `index.jsonl` and `summary.jsonl`.
- `pretty_json`: insertion order, two spaces of indentation and a final newline; for files that people open.

Floats are written in Python's shortest round-trip form, so the bytes do not depend on the version of a library. Readers split
on `\n` alone: U+2028, U+0085, form feeds and their like are data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from osmosis.pure.errors import OsmosisError, Problem

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KEY_END = re.compile(rb'"[ \t\r\n]*:')

_canonical = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
_spaced = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_pretty = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)


class DuplicateKeyError(ValueError):
    """A JSON object names the same key twice, so its meaning depends on who reads it (RFC 8259 section 4)."""


def well_formed(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, so that it can be written as UTF-8."""
    return _LONE_SURROGATE.sub(REPLACEMENT, text)


def truncate(text: str, length: int) -> str:
    """The first `length` Unicode code points of `text`, well formed (E17)."""
    return well_formed(text[:length])


def canonical_json(value: Any) -> bytes:
    """Compact JSON with sorted keys. Raises ValueError on NaN and infinities."""
    return well_formed(_canonical.encode(value)).encode()


def spaced_json(value: Any) -> bytes:
    """One-line JSON with `", "` and `": "`, keys in insertion order. Raises ValueError on NaN and infinities."""
    return well_formed(_spaced.encode(value)).encode()


def pretty_json(value: Any) -> bytes:
    """Indented JSON with a final newline, keys in insertion order. Raises ValueError on NaN and infinities."""
    return well_formed(_pretty.encode(value)).encode() + b"\n"


def decode_json(data: bytes | str) -> Any:
    """Parse strict JSON: no NaN, no infinity, no duplicate keys.

    Lone surrogates written as escapes (`"\\ud800"`) are kept as they are. Raises ValueError (of which DuplicateKeyError and
    UnicodeDecodeError are kinds) with a message for people.
    """
    try:
        return _decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decode(data: bytes | str) -> Any:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return _decode_slowly(data)
    # In valid JSON each key is followed by `"` and `:`, and text inside strings can only add such places, never hide one.
    # An equal count therefore proves that no key was swallowed by a namesake; anything else needs the slower look.
    return value if _count_keys(value) == len(_KEY_END.findall(raw)) else _decode_slowly(data)


def _decode_slowly(data: bytes | str) -> Any:
    # Bytes must be UTF-8; a string is what it is, lone surrogates included.
    text = data.decode() if isinstance(data, bytes) else data
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)


def _count_keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    if isinstance(value, list):
        return sum(map(_count_keys, value))
    return 0


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise DuplicateKeyError(f"duplicate key {repeated!r}")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        # Python reads no more than some thousand digits, because the time that takes grows with their square.
        raise ValueError(f"a whole number of {len(text.lstrip('-')):,} digits; write it as a string") from None


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def strip_byte_order_mark(data: bytes) -> bytes:
    """`data` without a leading UTF-8 byte order mark."""
    return data.removeprefix(BYTE_ORDER_MARK)


def decode_utf8(data: bytes, label: str) -> str:
    """Decode UTF-8, skipping a byte order mark. Any other encoding is an error that names the file and the byte offset."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(label, error.start) from None


def not_utf8(label: str, offset: int) -> OsmosisError:
    """The error for a file whose byte at `offset` (from the start of the file) is not UTF-8."""
    return OsmosisError(
        f"{label} is not UTF-8 text.",
        problems=[Problem(label, f"invalid UTF-8 at byte offset {offset}")],
        hint="Save the file as UTF-8 and try again.",
    )


def lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    r"""Yield (line number from 1, byte offset, line without its `\n`), splitting on `\n` alone.

    A last line without `\n` is yielded too; compare offset plus length with `len(data)` to tell it apart.
    """
    offset = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if offset == len(data) and not line:
            return
        yield number, offset, line
        offset += len(line) + 1
