"""From an ATIF document back to chat messages: how a native agent's trial becomes a sample (contract: rollout_protocol 13.7).

The inverse of `trajectory_conversion` as far as the document goes: a step is a message, each result of its observation another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from osmosis.pure.canonical import canonical_json
from osmosis.pure.trajectory import ImagePart, Observation, Step, TextPart, Trajectory

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def messages_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The conversation that a document tells, as chat messages."""
    return [message for step in trajectory.steps for message in _messages(step)]


def _messages(step: Step) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {"role": _ROLES[step.source], "content": _content(step.message)}
    if step.reasoning_content:
        message["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.function_name, "arguments": canonical_json(call.arguments).decode()},
            }
            for call in step.tool_calls
        ]
    yield message
    if step.observation is not None:
        yield from _results(step.observation)


def _results(observation: Observation) -> Iterator[dict[str, Any]]:
    for result in observation.results:
        content = "" if result.content is None else _content(result.content)
        if result.source_call_id is None:
            yield {"role": "user", "content": content}
        else:
            yield {"role": "tool", "tool_call_id": result.source_call_id, "content": content}


def _content(content: str | list[TextPart | ImagePart]) -> str:
    """Text as it is. Parts become their texts on lines of their own; of an image its path remains."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else f"[image: {part.source.path}]" for part in content)
