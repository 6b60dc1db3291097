"""A chat completion request as a request to OpenAI's Responses API (ruling 20, contract `eval_local.md` section 8.6).

Messages become input items, and the few parameters that have another name or shape there are renamed; every other field is
carried over as the bytes that it came in. A parameter that the Responses API does not have is an error that names it: left
out, it would change what is measured. Where the two interfaces differ in a default, the chat default is spelled out: answers
are not stored, and tools are not strict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osmosis.pure.canonical import decode_json
from osmosis.pure.errors import Problem
from osmosis.pure.members import encode_value, join_members, read_members
from osmosis.pure.request_policy import Refusal

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

REASONING_ITEMS = "reasoning_items"
"""The member of an assistant message that holds its reasoning items: a client that sends the message back loses none."""

_NOT_THERE = (
    *("audio", "frequency_penalty", "function_call", "functions", "logit_bias", "modalities", "prediction"),
    *("presence_penalty", "seed", "stop", "web_search_options"),
)
"""Chat parameters that the Responses API does not have."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_CONVERTED = frozenset(
    {"messages", "n", "stream_options", "response_format", "verbosity", "text", "reasoning_effort", "reasoning", "tools"}
    | {"tool_choice", "logprobs", "include", "store", *_LIMITS}
)


class _Problems:
    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, name: str, message: str) -> None:
        self.found.append(Problem(name, message, name.partition(".")[0].partition("[")[0]))


def responses_request(body: bytes) -> bytes | Refusal:
    """The body for `/responses`, or everything in `body` (an already shaped chat request) that has no equal there."""
    fields: dict[str, Any] = decode_json(body)
    problems = _Problems()
    for name in _NOT_THERE:
        if fields.get(name) is not None:
            problems.add(name, "the Responses API, which this model needs, has no such parameter")
    converted: dict[str, Any] = {"input": list(_items(fields.get("messages"), problems))}
    for convert in (_limit, _reasoning, _text, _tools, _tool_choice, _include, _store, _stream_options):
        converted |= convert(fields, problems)
    if problems.found:
        return Refusal(tuple(problems.found))
    carried = {name: value for name, value in read_members(body).items() if name not in _CONVERTED and value != b"null"}
    return join_members(carried | {name: encode_value(value) for name, value in converted.items()})


# --- Messages ------------------------------------------------------------------------------------------------------------


def _items(messages: object, problems: _Problems) -> Iterator[dict[str, Any]]:
    if not isinstance(messages, list):
        problems.add("messages", "must be a list")
        return
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        converter = _ROLES.get(role) if isinstance(role, str) else None
        if converter is None:
            problems.add(where, f"a message with role {role!r} has no equal in the Responses API")
        else:
            yield from converter(message, where, problems)


def _spoken(message: dict[str, Any], where: str, problems: _Problems) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    others = {name: value for name, value in message.items() if name not in ("role", "content")}
    if isinstance(content, list):
        content = [_part(part, f"{where}.content[{index}]", problems) for index, part in enumerate(content)]
    yield {"role": message["role"], "content": "" if content is None else content, **others}


def _part(part: object, where: str, problems: _Problems) -> Any:
    if not isinstance(part, dict):
        problems.add(where, "must be an object")
        return part
    match part.get("type"):
        case "text":
            return {**part, "type": "input_text"}
        case "image_url":
            image = part.get("image_url")
            image = {"url": image} if isinstance(image, str) else image if isinstance(image, dict) else {}
            others = {name: value for name, value in image.items() if name != "url"}
            return {"type": "input_image", "image_url": image.get("url"), "detail": "auto", **others}
        case "file":
            file = part.get("file")
            return {"type": "input_file", **(file if isinstance(file, dict) else {})}
        case _:
            return part


def _answered(message: dict[str, Any], where: str, problems: _Problems) -> Iterator[dict[str, Any]]:
    yield from message.get(REASONING_ITEMS) or ()
    parts = list(_answer_parts(message, where, problems))
    calls = message.get("tool_calls") or []
    if parts or not calls:
        yield {"type": "message", "role": "assistant", "content": parts or ""}
    if message.get("function_call") is not None:
        problems.add(f"{where}.function_call", "is out of date; use tool_calls")
    for index, call in enumerate(calls):
        yield from _call(call, f"{where}.tool_calls[{index}]", problems)


def _answer_parts(message: dict[str, Any], where: str, problems: _Problems) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield {"type": "output_text", "text": content}
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text":
            yield {"type": "output_text", "text": part.get("text")}
        elif kind == "refusal":
            yield {"type": "refusal", "refusal": part.get("refusal")}
        else:
            problems.add(f"{where}.content[{index}]", f"an assistant's part of type {kind!r} has no equal in the Responses API")
    if refusal := message.get("refusal"):
        yield {"type": "refusal", "refusal": refusal}


def _call(call: object, where: str, problems: _Problems) -> Iterator[dict[str, Any]]:
    kind = call.get("type", "function") if isinstance(call, dict) else None
    inner = call.get(kind) if isinstance(call, dict) and isinstance(kind, str) else None
    if not isinstance(call, dict) or not isinstance(inner, dict) or kind not in ("function", "custom"):
        problems.add(where, "must be a call of type function or custom")
    elif kind == "custom":
        yield {"type": "custom_tool_call", "call_id": call.get("id"), "name": inner.get("name"), "input": inner.get("input")}
    else:
        arguments = inner.get("arguments")
        text = arguments if isinstance(arguments, str) else encode_value(arguments).decode()
        yield {"type": "function_call", "call_id": call.get("id"), "name": inner.get("name"), "arguments": text}


def _returned(message: dict[str, Any], where: str, problems: _Problems) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, list):
        output: Any = [_part(part, f"{where}.content[{index}]", problems) for index, part in enumerate(content)]
    else:
        output = content if isinstance(content, str) else encode_value(content).decode()
    yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output}


_ROLES: dict[str, Callable[[dict[str, Any], str, _Problems], Iterator[dict[str, Any]]]] = {
    "system": _spoken,
    "developer": _spoken,
    "user": _spoken,
    "assistant": _answered,
    "tool": _returned,
}


# --- Parameters ----------------------------------------------------------------------------------------------------------


def _limit(fields: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    given = {name: fields[name] for name in _LIMITS if fields.get(name) is not None}
    if len(set(map(repr, given.values()))) > 1:
        problems.add(", ".join(given), "name the same limit with different values; send one of them")
    return {"max_output_tokens": next(iter(given.values()))} if given else {}


def _joined(fields: Mapping[str, Any], problems: _Problems, name: str, member: str, source: str) -> dict[str, Any]:
    """The object `name` with `member` taken from the field `source`."""
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        problems.add(name, "must be an object")
        return {}
    given = fields.get(source)
    if given is None:
        return value or {}
    if value and value.get(member) not in (None, given):
        problems.add(f"{source}, {name}.{member}", "contradict each other; send one of them")
    return {**(value or {}), member: given}


def _reasoning(fields: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    value = _joined(fields, problems, "reasoning", "effort", "reasoning_effort")
    return {"reasoning": value} if value else {}


def _text(fields: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    value = _joined(fields, problems, "text", "verbosity", "verbosity")
    given = fields.get("response_format")
    if given is None:
        return {"text": value} if value else {}
    if not isinstance(given, dict):
        problems.add("response_format", "must be an object")
        return {}
    schema = given.get("json_schema")
    flat = {"type": given.get("type"), **schema} if isinstance(schema, dict) else given
    if value.get("format") not in (None, flat):
        problems.add("response_format, text.format", "contradict each other; send one of them")
    return {"text": {**value, "format": flat}}


def _tools(fields: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    tools = fields.get("tools")
    if tools is None:
        return {}
    if not isinstance(tools, list):
        problems.add("tools", "must be a list")
        return {}
    return {"tools": [_tool(tool) for tool in tools]}


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    kind = tool.get("type")
    inner = tool.get(kind) if isinstance(kind, str) else None
    if kind not in ("function", "custom") or not isinstance(inner, dict):
        return tool
    others = {name: value for name, value in tool.items() if name not in ("type", kind)}
    if kind == "function":
        return {"type": kind, **inner, "strict": inner.get("strict") or False, **others}
    form = inner.get("format")
    if isinstance(form, dict) and isinstance(form.get("grammar"), dict):
        inner = {**inner, "format": {"type": form.get("type"), **form["grammar"]}}
    return {"type": kind, **inner, **others}


def _tool_choice(fields: Mapping[str, Any], _: _Problems) -> dict[str, Any]:
    choice = fields.get("tool_choice")
    if choice is None:
        return {}
    kind = choice.get("type") if isinstance(choice, dict) else None
    inner = choice.get(kind) if isinstance(choice, dict) and isinstance(kind, str) else None
    if not isinstance(inner, dict):
        return {"tool_choice": choice}
    flat = {"type": kind, **inner}
    if kind == "allowed_tools" and isinstance(inner.get("tools"), list):
        flat["tools"] = [_tool_choice({"tool_choice": tool}, _)["tool_choice"] for tool in inner["tools"]]
    return {"tool_choice": flat}


def _include(fields: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    include = fields.get("include") or []
    if not isinstance(include, list):
        problems.add("include", "must be a list")
        return {}
    own = [LOGPROBS] if fields.get("logprobs") is True else []
    if not fields.get("store"):
        # What is not stored can be sent back only if it comes along.
        own.append(ENCRYPTED_REASONING)
    return {"include": [*include, *(name for name in own if name not in include)]}


def _store(fields: Mapping[str, Any], _: _Problems) -> dict[str, Any]:
    store = fields.get("store")
    return {"store": False if store is None else store}


def _stream_options(fields: Mapping[str, Any], _: _Problems) -> dict[str, Any]:
    # Usage comes with every stream there.
    options = {name: value for name, value in (fields.get("stream_options") or {}).items() if name != "include_usage"}
    return {"stream_options": options} if options else {}
