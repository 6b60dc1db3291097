"""What of a user's values can be written as JSON."""

from __future__ import annotations

import json
from enum import IntEnum, StrEnum
from fractions import Fraction

from hypothesis import given

from osmosis.pure.canonical import canonical_json
from osmosis.pure.json_safe import is_plain_json, json_safe
from tests.strategies import rollout as strategies


class Level(IntEnum):
    """A number of another type."""

    HIGH = 3


class Name(StrEnum):
    """A string of another type."""

    ADA = "ada"


def nested(depth):
    """Lists in lists."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(strategies.loose_objects)
def test_the_result_is_plain_json(value):
    """Whatever goes in, what comes out can be written, and says what was dropped."""
    safe, dropped = json_safe(value)
    assert is_plain_json(safe)
    json.loads(canonical_json(safe))
    assert all(isinstance(name, str) for name in dropped)


@given(strategies.loose_objects)
def test_once_is_enough(value):
    """A safe value stays as it is."""
    safe, _ = json_safe(value)
    assert json_safe(safe) == (safe, frozenset())


@given(strategies.json_objects())
def test_plain_json_is_kept(value):
    """Nothing is lost that could be written."""
    assert is_plain_json(value)
    assert json_safe(value) == (value, frozenset())


def test_what_is_nested_without_end_is_dropped():
    """Deep nesting and cycles cannot be written, and must not hang or crash a rollout."""
    value: dict[str, object] = {"kept": 1, "deep": nested(5000)}
    value["itself"] = value
    assert not is_plain_json(value)
    safe, dropped = json_safe(value)
    assert is_plain_json(safe)
    assert safe["kept"] == 1
    assert dropped == {"dict", "list"}


def test_the_rules_one_by_one():
    """Numbers become plain, tuples lists, numeric keys strings; NaN, objects and other keys go."""
    value = {
        "half": Fraction(1, 2),
        "level": Level.HIGH,
        "name": Name.ADA,
        "pair": (1, 2.5),
        "nan": float("nan"),
        "items": [1, float("inf"), object()],
        "numbers": {1: "one", 2.5: "more"},
        "others": {True: "bool", None: "none", "text": "kept"},
        "text": "a\ud800b",
    }
    safe, dropped = json_safe(value)
    assert safe == {
        "half": 0.5,
        "level": 3,
        "name": "ada",
        "pair": [1, 2.5],
        "items": [1],
        "numbers": {"1": "one", "2.5": "more"},
        "others": {"text": "kept"},
        "text": "a\N{REPLACEMENT CHARACTER}b",
    }
    assert dropped == {"float", "object", "bool key", "NoneType key"}
