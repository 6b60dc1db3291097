"""What an unknown name was probably meant to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.near_miss import did_you_mean, near_miss

COMMANDS = ("run", "list", "info", "--json", "--version", "closeness.toml")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("rnu", "run"),
        ("lits", "list"),
        ("closenes.toml", "closeness.toml"),
        ("--jsno", "--json"),
        ("--verison", "--version"),
        ("--xyzzy", None),
        ("", None),
    ],
)
def test_a_slip_names_what_was_meant_and_anything_else_names_nothing(word: str, meant: str | None) -> None:
    """One slip of the hand is recognised; two dashes alone make nothing alike."""
    assert near_miss(word, COMMANDS) == meant
    assert did_you_mean(word, COMMANDS) == ("" if meant is None else f' Did you mean "{meant}"?')


@given(st.text(), st.lists(st.text()))
def test_only_a_known_name_is_ever_named(word: str, known: list[str]) -> None:
    """Whatever was typed, what is proposed exists."""
    assert near_miss(word, known) in (None, *known)
