"""What a rollout may ask of the model bridge (E30-E34, rulings 16-18, contract `eval_local.md` section 8.2).

The policy turns a client's request body into the body for the provider, or refuses it with every reason at once. Nothing is
ever dropped silently:

- Unknown fields pass, at top level and in `extra_body`, which wins by a shallow merge (a nested object replaces its namesake).
- `model` is a placeholder. The configured model takes its place upstream; the response echoes the placeholder.
- Fields that steer transport, credentials or the runtime are refused by name and prefix, wherever they stand.
- `model`, `messages`, `stream`, `stream_options` and `n` belong to the envelope; inside `extra_body` they are refused.
- `n` is absent, null or 1.
- A streaming request asks the provider for usage. If the client did not ask, the usage-only chunk is kept from it.

Values are carried over as the bytes that the client sent: numbers, escapes and key order inside them stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.canonical import DuplicateKeyError
from osmosis.pure.control_fields import CONTROL_FIELDS, CONTROL_PREFIXES
from osmosis.pure.errors import Problem
from osmosis.pure.members import encode_value, join_members, read_members
from osmosis.pure.nesting import decode_shallow

ENVELOPE_FIELDS = ("model", "messages", "stream", "stream_options", "n")
"""Fields that the bridge itself reads. They have one place, the top level (ruling 17)."""

EXTRA = "extra_body"


class ProviderKind(StrEnum):
    """How a provider is spoken to, which decides what may stand in `metadata` (E31, E32)."""

    OPENAI_COMPATIBLE = "openai_compatible"
    AZURE = "azure"
    ANTHROPIC = "anthropic"
    NATIVE = "native"


class InvalidBody(ValueError):
    """The body is not a JSON object at all: the client is not speaking this protocol."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request may not pass. `problems` names every offending field; `where` is its path (`extra_body.api_key`)."""

    problems: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """All problems in one line; blocked fields are listed together, sorted."""
        blocked = sorted(problem.where for problem in self.problems if problem.message == _BLOCKED)
        rest = [str(problem) for problem in self.problems if problem.message != _BLOCKED]
        listed = [f"these fields are controlled by the bridge and may not be sent: {', '.join(blocked)}"] if blocked else []
        return "; ".join(listed + rest)


class UpstreamRequest(msgspec.Struct, frozen=True):
    """A request that may go to the provider.

    `body` is the JSON to send. `client_model` is what the response must name as its model. `stream` says how the client wants
    its answer, and `wants_usage` whether it asked for the usage chunk at the end of the stream. `plain_body` is `body` without
    the request for that chunk where only the bridge asks for it, for providers that refuse to be asked; else None.
    """

    body: bytes
    client_model: str
    stream: bool
    wants_usage: bool
    plain_body: bytes | None = None


_BLOCKED = "a control field"


def is_control_field(name: str) -> bool:
    """Whether a top-level request field steers the bridge, its transport or its runtime instead of the model (E34)."""
    return name in CONTROL_FIELDS or name.startswith(CONTROL_PREFIXES)


def shape_request(
    body: bytes, *, model: str, model_path: str, kind: ProviderKind = ProviderKind.OPENAI_COMPATIBLE
) -> UpstreamRequest | Refusal:
    """Decide on one request body.

    `model` is the provider's name of the configured model, `model_path` the configured one with its provider, which a response
    echoes when the client named no model. Raises InvalidBody when `body` is not a JSON object (RFC 8259).
    """
    try:
        fields = decode_shallow(body)
    except DuplicateKeyError as error:
        return Refusal((Problem("", f"the request is ambiguous: {error}"),))
    except ValueError as error:
        raise InvalidBody(str(error)) from None
    if not isinstance(fields, dict):
        raise InvalidBody("not a JSON object")
    problems = tuple(_problems(fields, kind))
    return Refusal(problems) if problems else _shape(body, fields, model, model_path)


def _problems(fields: Mapping[str, Any], kind: ProviderKind) -> Iterator[Problem]:
    extra = fields.get(EXTRA)
    yield from _control_fields(fields, "")
    for name, accepts, rule in _ENVELOPE_RULES:
        if name in fields and not accepts(fields[name]):
            yield Problem(name, rule, name)
    if extra is None:
        extra = {}
    elif not isinstance(extra, dict):
        yield Problem(EXTRA, "must be an object or null", EXTRA)
        return
    yield from _control_fields(extra, f"{EXTRA}.")
    for name in (*ENVELOPE_FIELDS, EXTRA):
        if name in extra:
            yield Problem(f"{EXTRA}.{name}", "must not stand inside extra_body", name)
    merged = {**fields, **extra}
    if "metadata" in merged and (message := _METADATA_RULES[kind](merged["metadata"])):
        yield Problem("metadata", message, "metadata")


def _control_fields(fields: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name in fields:
        if is_control_field(name):
            yield Problem(f"{path}{name}", _BLOCKED, name)


def _is_one(value: object) -> bool:
    return value is None or (not isinstance(value, bool) and value == 1)


_ENVELOPE_RULES = (
    ("n", _is_one, "must be absent or 1: one call gives one completion"),
    ("model", lambda value: value is None or isinstance(value, str), "must be a string"),
    ("stream", lambda value: value is None or isinstance(value, bool), "must be true or false"),
    ("stream_options", lambda value: value is None or isinstance(value, dict), "must be an object"),
)


def _any_metadata(_: object) -> str | None:
    return None


def _anthropic_metadata(value: object) -> str | None:
    if isinstance(value, dict) and value.keys() <= {"user_id"}:
        return None
    return "this provider takes an object with user_id alone"


def _no_metadata(_: object) -> str | None:
    return "this provider takes no metadata; use the field that it documents for the purpose"


_METADATA_RULES = {
    ProviderKind.OPENAI_COMPATIBLE: _any_metadata,
    ProviderKind.AZURE: _any_metadata,
    ProviderKind.ANTHROPIC: _anthropic_metadata,
    ProviderKind.NATIVE: _no_metadata,
}


def _shape(body: bytes, fields: Mapping[str, Any], model: str, model_path: str) -> UpstreamRequest:
    values = read_members(body)
    extra = values.pop(EXTRA, None)
    if isinstance(fields.get(EXTRA), dict):
        assert extra is not None  # `values` has the keys of `fields`
        values |= read_members(extra)
    stream = fields.get("stream") is True
    options = fields.get("stream_options") or {}
    own_model = encode_value(model)
    upstream = {"model": own_model} | values | {"model": own_model}
    plain_body = None
    if stream:
        if "include_usage" not in options:
            plain_body = join_members(upstream)
        upstream["stream_options"] = encode_value({**options, "include_usage": True})
    return UpstreamRequest(
        body=join_members(upstream),
        client_model=fields.get("model") or model_path,
        stream=stream,
        wants_usage=options.get("include_usage") is True,
        plain_body=plain_body,
    )
