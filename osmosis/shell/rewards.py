"""The decorators `osmosis_reward` and `osmosis_rubric` (A1, A2; seed 004). `osmosis.pure.reward_signature` decides.

The decorated function takes and passes on exactly what it is called with; its result comes back as a float. It carries
`__osmosis_decorator__`, by which graders and adapters know it.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import msgspec

from osmosis.pure.reward_signature import (
    Decorator,
    Fact,
    Kind,
    check_arguments,
    check_reward,
    signature_error,
    signature_problems,
)

MARK = "__osmosis_decorator__"

F = TypeVar("F", bound=Callable[..., Any])

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: Kind.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: Kind.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL: Kind.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY: Kind.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD: Kind.VAR_KEYWORD,
}


def osmosis_reward(function: F) -> F:
    """Decorate a reward function: `(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float`.

    May be async. Raises TypeError, with the expected and the found signature, for any other function. Each call raises
    TypeError unless the result is a real number, ValueError unless it is finite.
    """
    return _decorated(Decorator.REWARD, function)


def osmosis_rubric(function: F) -> F:
    """Decorate a rubric function: `(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float`.

    May be async. Raises TypeError, with the expected and the found signature, for any other function. Each call checks the
    first two arguments (TypeError) and the result, as `osmosis_reward` does.
    """
    return _decorated(Decorator.RUBRIC, function)


def is_reward_function(value: object) -> bool:
    """Whether `value` came from one of the two decorators."""
    return callable(value) and isinstance(getattr(value, MARK, None), Decorator)


def _decorated(decorator: Decorator, function: F) -> F:
    _check_function(decorator, function)
    name = getattr(function, "__name__", type(function).__name__)
    signature = inspect.signature(function)
    facts = [_fact(function, parameter) for parameter in signature.parameters.values()]
    problems = signature_problems(decorator, facts, _resolved(function, signature.return_annotation))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problems += ("it must return a float, not yield",)
    if problems:
        raise TypeError(signature_error(decorator, name, str(signature), problems))
    wrapped = _wrapped(decorator, function, name, signature)
    setattr(wrapped, MARK, decorator)
    return cast("F", wrapped)


def _check_function(decorator: Decorator, function: object) -> None:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"@{decorator} decorates a function and takes no arguments, got {type(function).__name__}")


def _wrapped(decorator: Decorator, function: Callable[..., Any], name: str, signature: inspect.Signature) -> Callable[..., Any]:
    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if decorator is Decorator.RUBRIC:
            # Missing arguments are for Python to complain about, in its own words.
            bound = signature.bind(*args, **kwargs).arguments
            check_arguments(name, bound["solution_str"], bound["ground_truth"])

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def reward_async(*args: Any, **kwargs: Any) -> float:
            check(args, kwargs)
            return check_reward(name, await function(*args, **kwargs))

        return reward_async

    @functools.wraps(function)
    def reward(*args: Any, **kwargs: Any) -> float:
        check(args, kwargs)
        return check_reward(name, function(*args, **kwargs))

    return reward


def _fact(function: Callable[..., Any], parameter: inspect.Parameter) -> Fact:
    return Fact(
        name=parameter.name,
        kind=_KINDS[parameter.kind],
        annotation=_resolved(function, parameter.annotation),
        default=msgspec.UNSET if parameter.default is inspect.Parameter.empty else parameter.default,
    )


def _resolved(function: Callable[..., Any], annotation: Any) -> Any:
    """The type that an annotation means; its text if that names something unknown, UNSET if there is none.

    Each is resolved alone, so that one name that exists for type checkers only does not hide the others.
    """
    if annotation is inspect.Parameter.empty:
        return msgspec.UNSET
    if not isinstance(annotation, str):
        return annotation
    module = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), module)["it"]
    except Exception:  # noqa: BLE001 - resolving runs whatever the annotation says
        return annotation
