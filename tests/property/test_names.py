from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.names import ADJECTIVES, ANIMALS, NAME_COUNT, generate, validate_name


def test_the_lists_are_long_and_without_repetition():
    """At least 40 words each, so that names seldom meet."""
    for words in (ADJECTIVES, ANIMALS):
        assert len(set(words)) == len(words) >= 40
        assert all(word.isascii() and word.isalpha() and word.islower() for word in words)


def test_every_number_has_its_own_name():
    """No two numbers below NAME_COUNT share a name, so chance is not wasted."""
    assert len({generate(number) for number in range(NAME_COUNT)}) == NAME_COUNT


@given(st.integers(0, 2**128))
def test_generated_names_are_valid(number):
    """Whatever the random number, the name has the form adjective-animal-number and may be given back as `--name`."""
    name = generate(number)
    adjective, animal, suffix = name.split("-")
    assert adjective in ADJECTIVES
    assert animal in ANIMALS
    assert 0 <= int(suffix) <= 99
    assert validate_name(name) == name


@pytest.mark.parametrize("name", ["a", "_x", "A.b-c_9", "数据-1", "ünïcode", "x" * 96])
def test_valid_names(name):
    """Letters and digits of any script, dots, dashes and underscores make a name."""
    assert validate_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".locks", ".x", "-x", "a/b", "a\\b", "a b", "a\n", "a\0", "\ud800", "a:b", "x" * 97, "数" * 96, "e\u0301"],
)
def test_invalid_names(name):
    """What could leave the output root, look like an option, or not fit a file system is refused with a hint."""
    with pytest.raises(OsmosisError, match="cannot be the name of a run") as caught:
        validate_name(name)
    assert caught.value.hint


@given(st.text(max_size=110))
def test_accepted_names_are_single_path_segments(name):
    """Whatever passes is one path segment whose archive name fits into 255 bytes."""
    try:
        validate_name(name)
    except OsmosisError:
        return
    assert "/" not in name
    assert "\\" not in name
    assert name[0] not in ".-"
    assert len(name.encode()) + len(".archive-20301130T123544Z-99") <= 255
