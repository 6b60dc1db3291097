"""What each key of an eval config may hold: the rule that judges a value, and beside it the same rule as JSON Schema (E1).

`config` reads files by these tables; `config_schema` makes from them the schema that editors use. A rule that JSON Schema
cannot say (a path that leaves its directory by `..`) stands in the check alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

MAX_INTEGER = 2**63 - 1
MAX_TIMEOUT_S = 366 * 24 * 3600
"""A year. Longer waits overflow the clocks of some platforms, and nobody means them."""

RESERVED_PREFIX = "_OSMOSIS_"
ENV_NAME = "[A-Z_][A-Z0-9_]*"
SECRET_NAME = "[A-Z][A-Z0-9_]*"
_COMMIT = "[0-9a-fA-F]{7,40}"


class Value(NamedTuple):
    """What a key may hold. `check` says in words what is wrong with a value, or None; `schema` is the rule as JSON Schema."""

    check: Callable[[object], str | None]
    schema: Mapping[str, Any]


def kind(value: object) -> str:
    """What a TOML value is, in words."""
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a float"),
        (str, "a string"),
        (list, "an array"),
        (dict, "a table"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "a date or time")


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return f"must be a string, not {kind(value)}"
    if not value.strip():
        return "must not be empty"
    return "must not hold a NUL character" if "\0" in value else None


def _path_segment(value: object) -> str | None:
    wrong = _text(value)
    if wrong is None and (value in (".", "..") or re.search(r"[/\\]", str(value))):
        return f"must be the name of one directory under rollouts/, not {value!r}"
    return wrong


def _inner_path(value: object) -> str | None:
    wrong = _text(value)
    if wrong is not None:
        return wrong
    path = str(value)
    if path.startswith("/") or "\\" in path or re.match(r"[A-Za-z]:", path):
        return f"must be a relative path with forward slashes inside the rollout directory, not {path!r}"
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return f"must stay inside the rollout directory, but {path!r} leaves it"
    if depth == 0 or path.rsplit("/", 1)[-1] in ("", ".", ".."):
        return f"must name a file in the rollout directory, not {path!r}"
    return None


def _branch(value: object) -> str | None:
    wrong = _text(value)
    return "must not hold white space" if wrong is None and re.search(r"\s", str(value)) else wrong


def _commit(value: object) -> str | None:
    wrong = _text(value)
    return "must be 7 to 40 hexadecimal digits" if wrong is None and not re.fullmatch(_COMMIT, str(value)) else wrong


def _positive_integer(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be an integer, not {kind(value)}"
    if value <= 0:
        return f"must be greater than 0, not {value}"
    return f"must be at most {MAX_INTEGER}" if value > MAX_INTEGER else None


def _finite_number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be a number, not {kind(value)}"
    if isinstance(value, int):
        return f"must lie between {-MAX_INTEGER} and {MAX_INTEGER}" if abs(value) > MAX_INTEGER else None
    return None if math.isfinite(value) else f"must be a finite number, not {value}"


def _price(value: object) -> str | None:
    wrong = _finite_number(value)
    if wrong is None and isinstance(value, int | float) and value < 0:
        return f"must be US dollars a million tokens and not negative, not {value}"
    return wrong


def _timeout(value: object) -> str | None:
    wrong = _finite_number(value)
    if wrong is not None or not isinstance(value, int | float):
        return wrong
    if value <= 0:
        return f"must be greater than 0 seconds, not {value}"
    return f"must be at most {MAX_TIMEOUT_S} seconds" if value > MAX_TIMEOUT_S else None


_VISIBLE = r"^[^\u0000]*\S[^\u0000]*$"
_ONE_DIRECTORY = r"^(?!\.{1,2}$)[^/\\\u0000]*[^/\\\s\u0000][^/\\\u0000]*$"
_RELATIVE_FILE = r"^(?!/|[A-Za-z]:)(?:[^\\\u0000]*/)?(?!\.{1,2}$)[^/\\\u0000]+$"

_TEXT = Value(_text, {"type": "string", "pattern": _VISIBLE})
_COUNT = Value(_positive_integer, {"type": "integer", "minimum": 1, "maximum": MAX_INTEGER})
_SECONDS = Value(_timeout, {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIMEOUT_S})
_DOLLARS = Value(_price, {"type": "number", "minimum": 0})
_NAMES = Value(
    lambda value: None,  # the reader looks at each name, and at what [env] sets
    {"type": "array", "items": {"type": "string", "pattern": f"^{SECRET_NAME}$"}, "uniqueItems": True},
)

VALUES: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "experiment": {
            "rollout": Value(_path_segment, {"type": "string", "pattern": _ONE_DIRECTORY}),
            "entrypoint": Value(_inner_path, {"type": "string", "pattern": _RELATIVE_FILE}),
            "model_path": _TEXT,
            "dataset": _TEXT,
            "branch": Value(_branch, {"type": "string", "pattern": r"^[^\s\u0000]+$"}),
            "commit_sha": Value(_commit, {"type": "string", "pattern": f"^{_COMMIT}$"}),
        },
        "evaluation": {
            "limit": _COUNT,
            "n": _COUNT,
            "batch_size": _COUNT,
            "pass_threshold": Value(_finite_number, {"type": "number"}),
            "agent_workflow_timeout_s": _SECONDS,
            "grader_timeout_s": _SECONDS,
        },
        "secrets": {"required": _NAMES},
        "pricing": dict.fromkeys(("input", "output", "cached_input", "cache_write"), _DOLLARS),
    }
)
"""The sections whose keys are fixed."""
REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "experiment": ("rollout", "entrypoint", "model_path", "dataset"),
        "secrets": ("required",),
        "pricing": ("input", "output"),
    }
)
"""The keys that a section must have, if it is there."""
SECTIONS = ("experiment", "evaluation", "env", "secrets", "pricing", "advanced")
