"""Mistakes in the command line, in words: one message, a suggestion where a near miss is likely, and where the help is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args, get_origin

from cyclopts import App, CycloptsError
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from osmosis.pure.near_miss import did_you_mean
from osmosis.shell.cli.modes import MODE_FLAGS, UsageError

ROOT = "<root>"

_TYPE_NAMES: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false"}


def command_path(app: App, arguments: list[str]) -> str:
    """The path walked in the command tree, with the first unknown word; `<root>` if there is none. For error envelopes."""
    chain, apps, unused = app.parse_commands(arguments)
    words = list(chain)
    if apps[-1].default_command is None and unused and not unused[0].startswith("-"):
        words.append(unused[0])
    return " ".join(words) or ROOT


def usage_error(error: CycloptsError) -> UsageError:
    """The error that a person reads, with exit code 2."""
    describe = next((words for kind, words in _DESCRIPTIONS if isinstance(error, kind)), str)
    command = " ".join(error.command_chain or ())
    return UsageError(describe(error), hint=f"See `osmosis {command} --help`." if command else "See `osmosis --help`.")


def _unknown_command(error: UnknownCommandError) -> str:
    word = (error.unused_tokens or [""])[0]
    app = error.app
    names = [name for name in app if not name.startswith("-")] if app is not None else []
    if word.startswith("-"):
        flags = [*MODE_FLAGS, *(app.help_flags if app is not None else ()), *(app.version_flags if app is not None else ())]
        return f'Unknown option "{word}".{did_you_mean(word, flags)}'
    known = did_you_mean(word, names) or f" Commands: {', '.join(sorted(names))}."
    return f'Unknown command "{word}".{known}'


def _unknown_option(error: UnknownOptionError) -> str:
    word = error.token.keyword or error.token.value
    names = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    flags = [*MODE_FLAGS, *(error.app.help_flags if error.app is not None else ())]
    return f'Unknown option "{word}".{did_you_mean(word.split("=", 1)[0], [*names, *flags])}'


def _missing(error: MissingArgumentError) -> str:
    assert error.argument is not None  # cyclopts sets it before it raises
    given = error.keyword or next((token.keyword for token in error.argument.tokens if token.keyword), None)
    if given is not None and given.startswith("-"):
        return f"Option {given} needs a value."
    name = given or error.argument.name
    return f"Missing {'option' if name.startswith('-') else 'argument'} {name}."


def _unused(error: UnusedCliTokensError) -> str:
    words = error.unused_tokens or []
    return f"Unexpected argument{'s' if len(words) > 1 else ''}: {' '.join(words)}."


def _coercion(error: CoercionError) -> str:
    if error.token is not None and get_origin(error.target_type) is Literal:
        choices = [str(choice) for choice in get_args(error.target_type)]
        word = error.token.value
        known = did_you_mean(word, choices) or f" Choose from: {', '.join(choices)}."
        return f'{_name(error)} cannot be "{word}".{known}'
    expected = _TYPE_NAMES.get(error.target_type)
    if error.token is None or expected is None:
        return str(error)
    return f'{_name(error)} must be {expected}, not "{error.token.value}".'


def _validation(error: ValidationError) -> str:
    if error.argument is None:
        return error.exception_message
    return f"{_name(error)} {error.exception_message[:1].lower()}{error.exception_message[1:]}"


def _repeated(error: RepeatArgumentError) -> str:
    return f"Option {error.token.keyword} was given more than once."


def _name(error: CycloptsError) -> str:
    if error.argument is None:
        return "Value"
    keyword = next((token.keyword for token in error.argument.tokens if token.keyword), None)
    return keyword or error.argument.name


_DESCRIPTIONS: tuple[tuple[type[CycloptsError], Callable[..., str]], ...] = (
    (UnknownCommandError, _unknown_command),
    (UnknownOptionError, _unknown_option),
    (MissingArgumentError, _missing),
    (UnusedCliTokensError, _unused),
    (CoercionError, _coercion),
    (ValidationError, _validation),
    (RepeatArgumentError, _repeated),
)
