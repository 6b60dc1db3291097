"""What of a user's values can be written as JSON (contract: rollout_protocol section 2.4).

Metrics and extra fields come from user code and may hold numpy scalars, NaN, tuples or objects. One rule serves the wire and
the trajectory, so neither is lost to a value that the other could write: numbers of other libraries become int or float,
numeric keys and tuples become strings and lists, and what JSON cannot say is dropped and named.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from osmosis.pure.canonical import well_formed

_MAX_DEPTH = 100
_DROP = object()


def json_safe(value: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """A copy of `value` that is plain JSON, and the names of the types that were dropped from it (`float` for NaN)."""
    dropped: set[str] = set()
    result = _convert(value, dropped, 0)
    return (result if isinstance(result, dict) else {}), frozenset(dropped)


def is_plain_json(value: Any, depth: int = 0) -> bool:
    """Whether `value` can be written as strict JSON just as it is: exact built-in types, finite, well formed."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii() or well_formed(value) == value)
    if kind is float:
        return math.isfinite(value)
    if kind is int or kind is bool or value is None:
        return True
    if depth > _MAX_DEPTH:
        return False
    if kind is list:
        return all(is_plain_json(item, depth + 1) for item in value)
    if kind is dict:
        return all(type(key) is str and is_plain_json(key) and is_plain_json(item, depth + 1) for key, item in value.items())
    return False


def _convert(value: Any, dropped: set[str], depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return well_formed(str.__str__(value))
    if isinstance(value, numbers.Real):
        return _number(value, dropped)
    if depth <= _MAX_DEPTH:
        if isinstance(value, dict):
            pairs = ((_key(key, dropped), _convert(item, dropped, depth + 1)) for key, item in value.items())
            return {key: item for key, item in pairs if key is not None and item is not _DROP}
        if isinstance(value, list | tuple):
            items = (_convert(item, dropped, depth + 1) for item in value)
            return [item for item in items if item is not _DROP]
    dropped.add(type(value).__name__)
    return _DROP


def _number(value: numbers.Real, dropped: set[str]) -> Any:
    try:
        plain = int(value) if isinstance(value, numbers.Integral) else float(value)
    except (ValueError, OverflowError, TypeError):
        plain = math.nan
    if isinstance(plain, float) and not math.isfinite(plain):
        dropped.add(type(value).__name__)
        return _DROP
    return plain


def _key(key: Any, dropped: set[str]) -> str | None:
    """The key as JSON has it, or None if it has to go together with its value."""
    if isinstance(key, str):
        return well_formed(str.__str__(key))
    if isinstance(key, numbers.Real) and not isinstance(key, bool):
        number = _number(key, dropped)
        return None if number is _DROP else str(number)
    dropped.add(f"{type(key).__name__} key")
    return None
