"""The body of a judge's call, and what to leave out when a model refuses a part of it (contract `legacy_api.md` section 4.6).

A judge asks for a JSON schema and for temperature 0. Which models take both is in no table that stays true, so the model itself
is asked: a refusal (400 or 422) that names one of the judge's own settings takes that setting back by one step, schema to plain
JSON object to nothing, and the call is made again. A refusal that names none of them stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import msgspec

from osmosis.pure.rubric import Prompt

SCHEMA_NAME = "reward_rubric_response"

_WITHOUT_TEMPERATURE = ("gpt-5", "o1", "o3", "o4")
"""Beginnings of model names that are known to refuse a temperature: it saves them the first refusal, nothing else."""

_REFUSALS = (400, 422)


class ReplyFormat(IntEnum):
    """How the reply's form is asked for, the strictest first."""

    SCHEMA = 0
    JSON_OBJECT = 1
    TEXT = 2


class Form(msgspec.Struct, frozen=True):
    """What a call asks for besides its messages."""

    reply: ReplyFormat = ReplyFormat.SCHEMA
    temperature: bool = True
    effort: bool = True


_RESPONSE_FORMATS: dict[ReplyFormat, dict[str, Any] | None] = {
    ReplyFormat.SCHEMA: {
        "type": "json_schema",
        "json_schema": {
            "name": SCHEMA_NAME,
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"score": {"type": "number"}, "explanation": {"type": "string"}},
                "required": ["score", "explanation"],
                "additionalProperties": False,
            },
        },
    },
    ReplyFormat.JSON_OBJECT: {"type": "json_object"},
    ReplyFormat.TEXT: None,
}
_NAMED_BY = (
    ("effort", ("reasoning_effort", "reasoning effort", "reasoning.effort")),
    ("temperature", ("temperature",)),
    ("reply", ("response_format", "response format", "json_schema", "json schema", "json_object", "structured output")),
)


def first_form(model: str, reasoning_effort: str | None) -> Form:
    """The form to begin with."""
    # Gateways put the vendor before the name: openrouter's `openai/gpt-5.2`.
    name = model.lower().rpartition("/")[2]
    return Form(temperature=not name.startswith(_WITHOUT_TEMPERATURE), effort=reasoning_effort is not None)


def weaker_form(form: Form, status: int | None, message: str) -> Form | None:
    """The form to try after a refusal, or None when the refusal is about something else."""
    if status not in _REFUSALS:
        return None
    text = message.lower()
    setting = next((name for name, words in _NAMED_BY if _asked(form, name) and any(word in text for word in words)), None)
    match setting:
        case "effort":
            return msgspec.structs.replace(form, effort=False)
        case "temperature":
            return msgspec.structs.replace(form, temperature=False)
        case "reply":
            return msgspec.structs.replace(form, reply=ReplyFormat(form.reply + 1))
        case _:
            return None


def _asked(form: Form, setting: str) -> bool:
    return form.reply is not ReplyFormat.TEXT if setting == "reply" else bool(getattr(form, setting))


def all_forms(first: Form) -> Iterator[Form]:
    """`first` and everything weaker: the forms under which a cassette may hold the answer."""
    for reply, temperature, effort in itertools.product(
        ReplyFormat, {first.temperature: None, False: None}, {first.effort: None, False: None}
    ):
        yield Form(reply, temperature, effort)


def judge_body(prompt: Prompt, model: str, form: Form, reasoning_effort: str | None = None) -> bytes:
    """The JSON to post. `model` is the provider's name of the model."""
    fields: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
    }
    if form.temperature:
        fields["temperature"] = 0
    if (response_format := _RESPONSE_FORMATS[form.reply]) is not None:
        fields["response_format"] = response_format
    if form.effort and reasoning_effort is not None:
        fields["reasoning_effort"] = reasoning_effort
    return msgspec.json.encode(fields)


def reply_text(choices: bytes) -> object:
    """The text of the first choice's message, from the JSON bytes of `choices`; None when there is none."""
    try:
        return _choices.decode(choices)[0].message.content
    except (msgspec.DecodeError, msgspec.ValidationError, IndexError, RecursionError):
        return None


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)


_choices = msgspec.json.Decoder(list[_Choice])
