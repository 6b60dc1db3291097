"""Which new run the words of a command line seem to ask for, before they are understood (issue 6, decision 0061)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SETTLED_LATER = ("--help", "-h", "--output", "-o", "--secrets-file", "--rollout-port", "--retry-failed", "--fresh")
"""Options with which it is not worth guessing: there is no run, or it is there already, or its process needs what they say."""


class RunGuess(NamedTuple):
    """The path of the config as it was typed, and the run's name, if one was."""

    config: str
    name: str | None


def guess_run(words: Sequence[str]) -> RunGuess | None:
    """What `words` seem to ask for; None where it is no run, or one that is not worth guessing at. Never raises."""
    if list(words[:2]) != ["eval", "run"] or any(word.partition("=")[0] in _SETTLED_LATER for word in words):
        return None
    config = next((word for word in words[2:] if word.endswith(".toml") and not word.startswith("-")), None)
    return RunGuess(config, _value_of("--name", words)) if config is not None else None


def _value_of(option: str, words: Sequence[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None
