"""The automaton and the plain search of `osmosis.pure.redaction` find the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure import redaction
from osmosis.pure.redaction import Redactor

ALPHABET = st.text(alphabet="ab/\n é\U0001f600\ud800", max_size=40)


def plain(values: list[str]) -> Redactor:
    """A redactor as it is where `ahocorasick_rs` is not installed."""
    kept, redaction._AhoCorasick = redaction._AhoCorasick, None
    try:
        return Redactor(values)
    finally:
        redaction._AhoCorasick = kept


@given(st.lists(ALPHABET, max_size=12), ALPHABET.map(lambda text: text * 3))
def test_both_ways_to_search_redact_alike(values, text):
    """A text reads the same wherever the library happens to be missing, lone surrogates and overlaps included."""
    text += "".join(values)
    assert Redactor(values).text(text) == plain(values).text(text)


def test_the_library_is_there_where_tests_run():
    """The comparison above compares two things."""
    assert redaction._AhoCorasick is not None
    assert Redactor(["sk-abc/defgh+ij klmnop"])._automaton is not None
    assert plain(["sk-abc/defgh+ij klmnop"])._automaton is None
