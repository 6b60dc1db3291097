"""Whether a function is a reward function or a rubric function, and whether what it returned is a reward (A1, A2; seed 004).

Differences from the public package, on purpose: the documented signature is required in full, `**kwargs` included, of every
decorated function; annotations may be strings; an int is a reward, a boolean and NaN are not.
"""

from __future__ import annotations

import math
import numbers
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class Decorator(StrEnum):
    """Which decorator is applied."""

    REWARD = "osmosis_reward"
    RUBRIC = "osmosis_rubric"


class Kind(StrEnum):
    """How a parameter takes its argument."""

    POSITIONAL_ONLY = "positional only"
    POSITIONAL_OR_KEYWORD = "positional or keyword"
    VAR_POSITIONAL = "*args"
    KEYWORD_ONLY = "keyword only"
    VAR_KEYWORD = "**kwargs"


class Fact(msgspec.Struct, frozen=True):
    """One parameter as it was found. `annotation` is a type, the text of one that could not be resolved, or UNSET."""

    name: str
    kind: Kind
    annotation: Any = msgspec.UNSET
    default: Any = msgspec.UNSET


class Expected(msgspec.Struct, frozen=True):
    """One of the three documented parameters. `default` is what a default must be; UNSET forbids one, `...` allows any."""

    name: str
    shown: str
    types: tuple[type | None, ...]
    must_have: tuple[type | None, ...]
    default: Any = msgspec.UNSET
    annotated: bool = True


EXPECTED_SIGNATURES: Mapping[Decorator, str] = types.MappingProxyType(
    {
        Decorator.REWARD: "(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float",
        Decorator.RUBRIC: "(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float",
    }
)
_PARAMETERS: Mapping[Decorator, tuple[Expected, ...]] = types.MappingProxyType(
    {
        Decorator.REWARD: (
            Expected("solution_str", "str", (str,), (str,)),
            Expected("ground_truth", "str", (str,), (str,)),
            Expected("extra_info", "dict or dict | None", (dict, None), (dict,), default=None),
        ),
        Decorator.RUBRIC: (
            Expected("solution_str", "str", (str,), (str,)),
            Expected("ground_truth", "str | None or str", (str, None), (str,)),
            Expected("extra_info", "dict", (dict, None), (dict,), default=..., annotated=False),
        ),
    }
)
_RETURNS = (float, int)
_NAMES = {"str": str, "dict": dict, "Dict": dict, "float": float, "int": int, "None": None, "NoneType": None}


def signature_problems(decorator: Decorator, facts: Sequence[Fact], returns: Any = msgspec.UNSET) -> tuple[str, ...]:
    """Everything that keeps a signature from being the documented one, in order of the parameters. Empty when it is."""
    return tuple(_problems(decorator, facts, returns))


def _problems(decorator: Decorator, facts: Sequence[Fact], returns: Any) -> Iterator[str]:
    expected = _PARAMETERS[decorator]
    plain = [fact for fact in facts if fact.kind in (Kind.POSITIONAL_ONLY, Kind.POSITIONAL_OR_KEYWORD)]
    if len(plain) < len(expected):
        yield f"it must have at least 3 parameters before **kwargs, got {len(plain)}"
    for position, (wanted, fact) in enumerate(zip(expected, plain, strict=False), 1):
        yield from _parameter_problems(position, wanted, fact)
    for fact in (*plain[len(expected) :], *(fact for fact in facts if fact.kind is Kind.KEYWORD_ONLY)):
        if fact.default is msgspec.UNSET:
            yield f"parameter '{fact.name}' needs a default: nothing is passed for it"
    if not any(fact.kind is Kind.VAR_KEYWORD for fact in facts):
        yield "it must accept **kwargs, so that later versions can pass more"
    if returns is not msgspec.UNSET and not _accepts(returns, _RETURNS, ()):
        yield f"it must return float, not {annotation_text(returns)}"


def _parameter_problems(position: int, wanted: Expected, fact: Fact) -> Iterator[str]:
    if fact.name != wanted.name:
        yield f"parameter {position} must be named '{wanted.name}', got '{fact.name}'"
        return
    if fact.kind is Kind.POSITIONAL_ONLY:
        yield f"'{fact.name}' must not be positional-only: it is passed by name as well"
    if fact.annotation is msgspec.UNSET:
        if wanted.annotated:
            yield f"'{fact.name}' must be annotated as {wanted.shown}, got no annotation"
    elif not _accepts(fact.annotation, wanted.types, wanted.must_have):
        yield f"'{fact.name}' must be annotated as {wanted.shown}, got {annotation_text(fact.annotation)}"
    if wanted.default is msgspec.UNSET and fact.default is not msgspec.UNSET:
        yield f"'{fact.name}' must not have a default"
    if wanted.default is None and fact.default is not None:
        found = "none" if fact.default is msgspec.UNSET else repr(fact.default)
        yield f"'{fact.name}' must have the default None, got {found}"


def _accepts(annotation: Any, allowed: Sequence[type | None], must_have: Sequence[type | None]) -> bool:
    """Whether every member of the annotation's union is allowed, and those that it must have are among them."""
    if annotation is typing.Any and not must_have:
        return True
    members = set(_members(annotation))
    return members <= set(allowed) and members >= set(must_have)


def _members(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, str):
        yield from _named_members(annotation)
        return
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _members(member)
    elif origin is typing.Annotated:
        yield from _members(typing.get_args(annotation)[0])
    else:
        plain = origin if origin is not None else annotation
        yield None if plain is types.NoneType else plain


def _named_members(text: str) -> Iterator[Any]:
    # The text of an annotation whose other names could not be resolved: spelled-out unions of built-in types still count.
    words = re.sub(r"\b(?:typing|builtins|t)\.", "", text.strip().strip("'\""))
    if optional := re.fullmatch(r"Optional\[(.*)\]", words):
        words = f"{optional[1]} | None"
    for word in words.split("|"):
        name = re.sub(r"\[.*\]$", "", word.strip(), flags=re.DOTALL)
        yield _NAMES.get(name, name)


def annotation_text(annotation: Any) -> str:
    """An annotation as its author would write it."""
    if isinstance(annotation, str):
        return annotation.strip("'\"")
    if annotation is None or annotation is types.NoneType:
        return "None"
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__name__
    return str(annotation).replace("typing.", "")


def signature_error(decorator: Decorator, name: str, found: str, problems: Sequence[str]) -> str:
    """The message for a function that cannot be decorated: all problems, then both signatures."""
    listed = "".join(f"\n  - {problem}" for problem in problems)
    return (
        f"@{decorator} cannot decorate '{name}':{listed}\n"
        f"  expected: {name}{EXPECTED_SIGNATURES[decorator]}\n"
        f"  found:    {name}{found}"
    )


def check_reward(name: str, value: object) -> float:
    """The reward that a function returned, as a float.

    Raises TypeError unless it is a real number (numbers of other libraries count, booleans do not), ValueError unless finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        hint = "; await it, or make the function async" if hasattr(value, "__await__") else ""
        raise TypeError(f"'{name}' must return a float, got {type(value).__name__}{hint}")
    try:
        reward = float(value)
    except OverflowError:
        reward = math.inf
    if not math.isfinite(reward):
        raise ValueError(f"'{name}' must return a finite float, got {reward!r}")
    return reward


def check_arguments(name: str, solution_str: object, ground_truth: object) -> None:
    """What a rubric function is called with. Raises TypeError unless it is text, and text or None."""
    if not isinstance(solution_str, str):
        raise TypeError(f"'{name}' needs 'solution_str' to be a str, got {type(solution_str).__name__}")
    if ground_truth is not None and not isinstance(ground_truth, str):
        raise TypeError(f"'{name}' needs 'ground_truth' to be a str or None, got {type(ground_truth).__name__}")
