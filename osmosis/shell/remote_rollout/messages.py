"""Looking at messages, well formed or not: models write them (contract `legacy_api.md` section 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def normalize_stop(stop: object) -> list[str] | None:
    """Stop sequences as a list: a string becomes a list of one; what is no sequence of strings is None."""
    if isinstance(stop, str):
        return [stop]
    return [str(item) for item in stop] if isinstance(stop, list | tuple) else None


def parse_tool_calls(message: object) -> list[dict[str, Any]]:
    """The tool calls of an assistant's message; empty when there are none."""
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def get_message_content(message: Mapping[str, Any]) -> str:
    """The text of a message; empty when it has none."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def get_message_role(message: Mapping[str, Any]) -> str:
    """The role of a message, `unknown` when it has none."""
    role = message.get("role")
    return role if isinstance(role, str) else "unknown"


def is_assistant_message(message: Mapping[str, Any]) -> bool:
    """Whether the model wrote it."""
    return get_message_role(message) == "assistant"


def is_tool_message(message: Mapping[str, Any]) -> bool:
    """Whether it is a tool's result."""
    return get_message_role(message) == "tool"


def is_user_message(message: Mapping[str, Any]) -> bool:
    """Whether the user wrote it."""
    return get_message_role(message) == "user"


def count_messages_by_role(messages: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many messages each role has."""
    return dict(Counter(map(get_message_role, messages)))
