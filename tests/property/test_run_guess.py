"""Which new run a command line seems to ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.run_guess import RunGuess, guess_run

RUN = ("eval", "run")


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        ((*RUN, "a.toml"), RunGuess("a.toml", None)),
        ((*RUN, "--yes", "a.toml", "--name", "one"), RunGuess("a.toml", "one")),
        ((*RUN, "--name=one", "a.toml"), RunGuess("a.toml", "one")),
        ((*RUN, "a.toml", "--name"), RunGuess("a.toml", "")),
        ((*RUN, "--config=a.toml"), None),
        ((*RUN, "a.toml", "--fresh"), None),
        ((*RUN, "a.toml", "--output=x"), None),
        ((*RUN,), None),
        (("eval", "info", "a.toml"), None),
        ((), None),
    ],
)
def test_a_new_run_is_recognised_by_its_config(words: tuple[str, ...], guess: RunGuess | None) -> None:
    """Options that change which run it is, or what its process needs, end the guessing."""
    assert guess_run(words) == guess


@given(st.lists(st.sampled_from(["eval", "run", "a.toml", "--name", "--name=", "--fresh", "-h"]) | st.text()))
def test_any_words_are_looked_at(words: list[str]) -> None:
    """Nothing that can be typed is an error here, and the config is one of the words."""
    guess = guess_run(words)
    assert guess is None or guess.config in words
