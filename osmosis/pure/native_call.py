"""A call for a native provider: which fields LiteLLM translates, which it hands on, and what it gives back (E32).

Standard fields are those of OpenAI's chat completions. A provider takes some of them; the others are an error that names them.
Every field that is not standard has to arrive under its own name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from osmosis.pure.errors import Problem
from osmosis.pure.usage import read_usage

_ENVELOPE = frozenset({"model", "messages", "stream", "stream_options", "n"})
_ALWAYS = frozenset({"messages", "model", "stream", "extra_headers"})
_NOT_STANDARD = frozenset({"thinking", "reasoning_effort", "web_search_options"})
"""Names that LiteLLM translates for some providers only; where it does not, they travel as they are."""


class StandardFields(msgspec.Struct, frozen=True):
    """`known` are the fields that LiteLLM treats as standard, `supported` those that the model's provider takes."""

    known: frozenset[str]
    supported: frozenset[str]


class Fields(msgspec.Struct, frozen=True):
    """A request, sorted. `traced` are values that have to be found in what leaves; `problems` name what is not taken."""

    messages: list[Any]
    standard: dict[str, Any]
    unknown: dict[str, Any]
    traced: dict[str, str]
    problems: tuple[Problem, ...] = ()


def sort_fields(body: Mapping[str, Any], known: StandardFields, provider: str) -> Fields:
    """Sort the members of a shaped request body. A null means that the field was not set."""
    given = {name: value for name, value in body.items() if name not in _ENVELOPE and value is not None}
    standard = {name: value for name, value in given.items() if name in known.known and name != "metadata"}
    refused = sorted(name for name in standard if name not in known.supported | _NOT_STANDARD)
    unknown = {name: value for name, value in given.items() if name not in known.known and name != "metadata"}
    if "metadata" in given:
        # For LiteLLM this is a field of its own, out of which it makes the provider's; which provider takes it is E32's say.
        standard["metadata"] = dict(given["metadata"]) if isinstance(given["metadata"], dict) else given["metadata"]
    problems = tuple(Problem(name, f"{provider} does not take this parameter", name) for name in refused)
    return Fields(body.get("messages") or [], standard, unknown, dict(_traced(standard)), problems)


def _traced(standard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(user := standard.get("user"), str):
        yield "user", user
    metadata = standard.get("metadata")
    if isinstance(metadata, dict) and isinstance(user := metadata.get("user_id"), str):
        yield "metadata.user_id", user


def lost_fields(fields: Fields, body: bytes) -> tuple[str, ...]:
    """The fields of `fields` that `body`, the request that would leave, does not hold any more; sorted."""
    try:
        sent = json.loads(body)
    except ValueError:
        return ()
    names, values = set[str](), set[str]()
    _collect(sent, names, values)
    lost = [name for name in fields.unknown if name not in names]
    return tuple(sorted(lost + [name for name, value in fields.traced.items() if value not in values]))


def _collect(value: Any, names: set[str], values: set[str]) -> None:
    level = [value]
    while level:
        item = level.pop()
        if isinstance(item, dict):
            names.update(item)
            level.extend(item.values())
        elif isinstance(item, list):
            level.extend(item)
        elif isinstance(item, str):
            values.add(item)


def native_completion(answer: dict[str, Any]) -> dict[str, Any]:
    """LiteLLM's answer, or one chunk of it, as a client expects it: no made-up usage and no made-up cost.

    A message without text gets `content: null`, as OpenAI spells it; usage of nothing but zeros is how LiteLLM spells that the
    provider reported none (E18).
    """
    usage = answer.pop("usage", None)
    if usage is not None and read_usage(usage) is not None:
        answer["usage"] = {name: value for name, value in usage.items() if name != "cost"}
    for choice in answer.get("choices", ()):
        if "message" in choice:
            choice["message"].setdefault("content", None)
        choice.setdefault("finish_reason", None)
    return answer


_ADVICE = re.compile(r"\.? ?(To drop these, set|Handle with|If you want to use these params).*", re.DOTALL)
_PREFIX = re.compile(r"^(litellm\.\w+: )+(\w+Exception( \w+Error)? - )?")


def error_text(text: str) -> str:
    """LiteLLM's message without its own class names, advice and traceback."""
    return _ADVICE.sub("", _PREFIX.sub("", text.partition("\nTraceback (most recent call last)")[0])).strip()
