"""An answer of OpenAI's Responses API as a chat completion, whole or streamed (ruling 20, `eval_local.md` section 8.6).

Output items become one message: texts joined, refusals kept, function calls as tool calls, summaries of reasoning as
`reasoning_content`. The reasoning items themselves travel along as `reasoning_items`, so that a client that sends its
messages back hands them to the model again. Usage keeps its details under the names of chat completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from osmosis.pure.completion import BAD_GATEWAY
from osmosis.pure.event_stream import StreamEvent
from osmosis.pure.members import decode_member, encode_value
from osmosis.pure.nesting import decode_shallow
from osmosis.pure.responses_request import REASONING_ITEMS

_STATUSES = {"rate_limit_exceeded": 429, "invalid_prompt": 400, "invalid_request_error": 400, "invalid_image": 400}
_CARRIED = ("service_tier", "metadata", "safety_identifier", "prompt_cache_key")
DONE = b"data: [DONE]\n\n"


def chat_answer(body: bytes) -> bytes:
    """The chat completion for a whole Response. What is no Response, or one that failed, becomes an object with `error`."""
    try:
        response = decode_shallow(body)
    except ValueError:
        return body
    if not isinstance(response, dict) or not isinstance(response.get("output"), list):
        return body
    if response.get("status") not in ("completed", "incomplete"):
        return encode_value({"error": _failure(response)})
    message, logprobs = _message(response["output"])
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(response, message), "logprobs": logprobs}
    answer = {**_head(response, "chat.completion"), "choices": [choice]}
    if (usage := chat_usage(response.get("usage"))) is not None:
        answer["usage"] = usage
    return encode_value(answer)


def chat_usage(usage: object) -> dict[str, Any] | None:
    """Token counts under the names of chat completions; members that are not known there keep theirs."""
    if not isinstance(usage, dict):
        return None
    return {_USAGE_NAMES.get(str(name), str(name)): value for name, value in usage.items()}


_USAGE_NAMES = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


def _head(response: dict[str, Any], kind: str) -> dict[str, Any]:
    head: dict[str, Any] = {
        "id": response.get("id"),
        "object": kind,
        "created": response.get("created_at"),
        "model": response.get("model"),
    }
    return head | {name: response[name] for name in _CARRIED if response.get(name) is not None}


def _failure(response: dict[str, Any]) -> dict[str, Any]:
    error = response.get("error")
    if not isinstance(error, dict):
        error = {"message": f"the response ended with status {response.get('status')!r}"}
    # A number in `code` is what the rollout gets as its HTTP status.
    return {**error, "code": _STATUSES.get(str(error.get("code")), BAD_GATEWAY), "reason": error.get("code")}


def _finish_reason(response: dict[str, Any], message: dict[str, Any]) -> str:
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if message.get("tool_calls") else "stop"


def _message(output: list[Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    items = [item for item in output if isinstance(item, dict)]
    parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
    texts = [part["text"] for part in parts if part.get("type") == "output_text" and isinstance(part.get("text"), str)]
    refusals = [part.get("refusal") or "" for part in parts if part.get("type") == "refusal"]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None}
    message["refusal"] = "".join(refusals) if refusals else None
    if annotations := [note for part in parts for note in part.get("annotations") or ()]:
        message["annotations"] = annotations
    reasoning = [item for item in items if item.get("type") == "reasoning"]
    if summary := "\n\n".join(part.get("text") or "" for item in reasoning for part in item.get("summary") or ()):
        message["reasoning_content"] = summary
    if reasoning:
        message[REASONING_ITEMS] = reasoning
    if calls := [call for item in items if (call := tool_call(item)) is not None]:
        message["tool_calls"] = calls
    logprobs = [entry for part in parts for entry in part.get("logprobs") or ()]
    return message, {"content": logprobs, "refusal": None} if logprobs else None


def tool_call(item: dict[str, Any]) -> dict[str, Any] | None:
    """The tool call of an output item, None when it is something else."""
    match item.get("type"):
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments") or ""}
            return {"id": item.get("call_id"), "type": "function", "function": function}
        case "custom_tool_call":
            custom = {"name": item.get("name"), "input": item.get("input") or ""}
            return {"id": item.get("call_id"), "type": "custom", "custom": custom}
        case _:
            return None


class StreamTranslation:
    """Turns the events of one streamed Response into those of a streamed chat completion, one by one."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._calls: dict[int, int] = {}
        self._argued: set[int] = set()
        self._begun = False
        self._summaries = 0

    def take(self, event: StreamEvent) -> bytes:
        """The chat events for `event`; none for most kinds. An error becomes an event with `error`, which ends the stream."""
        if event.members is None:
            return b""
        kind = decode_member(event.members, "type")
        handler = self._HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is None:
            return b""
        fields = {name: decode_member(event.members, name) for name in event.members}
        return b"".join(handler(self, fields))

    def _begin(self, fields: dict[str, Any]) -> Iterator[bytes]:
        if isinstance(response := fields.get("response"), dict):
            self._response = response
        yield from ()

    def _text(self, fields: dict[str, Any]) -> Iterator[bytes]:
        logprobs = {"content": fields["logprobs"], "refusal": None} if fields.get("logprobs") else None
        yield self._chunk({"content": fields.get("delta")}, logprobs=logprobs)

    def _refusal(self, fields: dict[str, Any]) -> Iterator[bytes]:
        yield self._chunk({"refusal": fields.get("delta")})

    def _summary_part(self, _: dict[str, Any]) -> Iterator[bytes]:
        self._summaries += 1
        if self._summaries > 1:
            yield self._chunk({"reasoning_content": "\n\n"})

    def _summary(self, fields: dict[str, Any]) -> Iterator[bytes]:
        yield self._chunk({"reasoning_content": fields.get("delta")})

    def _item_added(self, fields: dict[str, Any]) -> Iterator[bytes]:
        item, place = fields.get("item"), fields.get("output_index")
        call = tool_call(item) if isinstance(item, dict) else None
        if call is not None and isinstance(place, int):
            self._calls[place] = len(self._calls)
            yield self._chunk({"tool_calls": [{"index": self._calls[place], **call}]})
            if _argument(call):
                self._argued.add(place)

    def _arguments(self, fields: dict[str, Any], kind: str = "function", member: str = "arguments") -> Iterator[bytes]:
        place = fields.get("output_index")
        if isinstance(place, int) and place in self._calls:
            self._argued.add(place)
            yield self._chunk({"tool_calls": [{"index": self._calls[place], kind: {member: fields.get("delta")}}]})

    def _input(self, fields: dict[str, Any]) -> Iterator[bytes]:
        yield from self._arguments(fields, "custom", "input")

    def _item_done(self, fields: dict[str, Any]) -> Iterator[bytes]:
        item, place = fields.get("item"), fields.get("output_index")
        if not isinstance(item, dict) or not isinstance(place, int):
            return
        if item.get("type") == "reasoning":
            yield self._chunk({REASONING_ITEMS: [item]})
        call = tool_call(item)
        if call is None:
            return
        if place not in self._calls:
            yield from self._item_added(fields)
        elif place not in self._argued and (argument := _argument(call)):
            # Some servers send no deltas, only the whole.
            self._argued.add(place)
            kind, member = ("function", "arguments") if call["type"] == "function" else ("custom", "input")
            yield self._chunk({"tool_calls": [{"index": self._calls[place], kind: {member: argument}}]})

    def _end(self, fields: dict[str, Any]) -> Iterator[bytes]:
        response = fields.get("response")
        if not isinstance(response, dict):
            return
        self._response = response
        finish = _finish_reason(response, {"tool_calls": self._calls})
        yield self._chunk({}, finish=finish)
        if (usage := chat_usage(response.get("usage"))) is not None:
            yield self._event({**_head(response, "chat.completion.chunk"), "choices": [], "usage": usage})
        yield DONE

    def _failed(self, fields: dict[str, Any]) -> Iterator[bytes]:
        response = fields.get("response")
        yield self._event(
            {"error": _failure(response if isinstance(response, dict) else {"error": fields.get("error") or fields})}
        )

    def _chunk(self, delta: dict[str, Any], *, finish: str | None = None, logprobs: Any = None) -> bytes:
        if not self._begun:
            delta = {"role": "assistant", **delta}
            self._begun = True
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        if logprobs is not None:
            choice["logprobs"] = logprobs
        return self._event({**_head(self._response, "chat.completion.chunk"), "choices": [choice]})

    @staticmethod
    def _event(value: dict[str, Any]) -> bytes:
        return b"data: " + encode_value(value) + b"\n\n"

    _HANDLERS: ClassVar[dict[str, Callable[[Any, dict[str, Any]], Iterator[bytes]]]] = {
        "response.created": _begin,
        "response.in_progress": _begin,
        "response.output_text.delta": _text,
        "response.refusal.delta": _refusal,
        "response.reasoning_summary_part.added": _summary_part,
        "response.reasoning_summary_text.delta": _summary,
        "response.output_item.added": _item_added,
        "response.function_call_arguments.delta": _arguments,
        "response.custom_tool_call_input.delta": _input,
        "response.output_item.done": _item_done,
        "response.completed": _end,
        "response.incomplete": _end,
        "response.failed": _failed,
        "error": _failed,
    }


def _argument(call: dict[str, Any]) -> str:
    inner = call[call["type"]]
    value: str = inner.get("arguments") or inner.get("input") or ""
    return value
