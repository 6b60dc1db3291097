"""A JSON object as its members, each value the bytes it came in, so that what passes through stays as it was spelled.

Requests, whole answers and events of streams are opened this far and no further (decision 0030).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from osmosis.pure.nesting import decode_shallow

_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_compact = json.JSONEncoder(separators=(",", ":"))


def read_members(data: bytes) -> dict[str, bytes]:
    """The members of a JSON object, in their order. Raises ValueError for anything else.

    Lone surrogates (`"\\ud800"`), which msgspec does not read, are JSON all the same; an object that has one is spelled anew.
    """
    try:
        return {name: bytes(value) for name, value in _raw_object.decode(data).items()}
    except (msgspec.DecodeError, RecursionError):
        fields = decode_shallow(data)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    return {name: encode_value(value) for name, value in fields.items()}


def join_members(members: Mapping[str, bytes]) -> bytes:
    """A JSON object from its members, each value already JSON."""
    return b"{" + b",".join(encode_value(name) + b":" + value for name, value in members.items()) + b"}"


def decode_member(members: Mapping[str, bytes], name: str) -> Any:
    """The decoded value of one member; None when it is missing or not JSON."""
    try:
        return decode_shallow(members.get(name, b"null"))
    except ValueError:
        return None


def encode_value(value: Any) -> bytes:
    """Compact JSON. With ASCII escapes a lone surrogate stays what it was."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _compact.encode(value).encode("ascii")
