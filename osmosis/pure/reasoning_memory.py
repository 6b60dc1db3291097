"""Reasoning that a client leaves out when it sends an answer back (contract `eval_local.md` section 8.3).

Providers with hidden reasoning want it back with the tool calls that it led to: Anthropic's thinking blocks, OpenAI's reasoning
items. Most clients keep only the fields of a chat message that they know. So the bridge remembers, for each rollout, what came
with which tool call, and puts it back where a message with that call lacks it. What a client sends itself always wins.

This is for models that are translated for. To an OpenAI-compatible endpoint requests go as they came (E31).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osmosis.pure.canonical import decode_json
from osmosis.pure.members import encode_value, join_members, read_members
from osmosis.pure.responses_request import REASONING_ITEMS

REMEMBERED = ("reasoning_content", "thinking_blocks", "reasoning_details", REASONING_ITEMS)
"""Members of an assistant message that carry reasoning."""

Memory = dict[str, dict[str, Any]]
"""Reasoning members by the id of the tool call that they came with."""


def remembered(message: Mapping[str, Any]) -> Memory:
    """What an answer's `message` leaves to remember: nothing unless it has both tool calls and reasoning."""
    reasoning = {name: message[name] for name in REMEMBERED if message.get(name)}
    calls = message.get("tool_calls")
    if not reasoning or not isinstance(calls, list):
        return {}
    ids = (call.get("id") for call in calls if isinstance(call, dict))
    return {identity: reasoning for identity in ids if isinstance(identity, str) and identity}


def with_reasoning(body: bytes, memory: Memory) -> bytes:
    """`body`, a shaped request, with the reasoning that its assistant messages lack. The same bytes if they lack none."""
    if not memory:
        return body
    messages = decode_json(body).get("messages")
    if not isinstance(messages, list):
        return body
    completed = [_completed(message, memory) for message in messages]
    if completed == messages:
        return body
    return join_members(read_members(body) | {"messages": encode_value(completed)})


def _completed(message: Any, memory: Memory) -> Any:
    if not isinstance(message, dict) or message.get("role") != "assistant" or not isinstance(message.get("tool_calls"), list):
        return message
    ids = (call.get("id") for call in message["tool_calls"] if isinstance(call, dict))
    known = next((memory[identity] for identity in ids if isinstance(identity, str) and identity in memory), {})
    return message | {name: value for name, value in known.items() if not message.get(name)}
