"""Running the tools that a model asks for (contract `legacy_api.md` section 8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from osmosis.shell.remote_rollout.errors import ToolArgumentError
from osmosis.shell.remote_rollout.schemas import MessageDict


def serialize_tool_result(result: object) -> str:
    """A tool's result as text: strings as they are, numbers as `str` has them, everything else as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, int | float) and not isinstance(result, bool):
        return str(result)
    return json.dumps(result, ensure_ascii=False, default=str)


def create_tool_result(tool_call_id: str, content: object) -> MessageDict:
    """The message that answers a tool call."""
    return {"role": "tool", "content": serialize_tool_result(content), "tool_call_id": tool_call_id}


def create_tool_error_result(tool_call_id: str, error: object) -> MessageDict:
    """The message that tells the model of a failed tool call."""
    return create_tool_result(tool_call_id, f"Error: {error}")


def parse_tool_arguments(arguments: object) -> dict[str, Any]:
    """The arguments of a tool call, from an object or its JSON text. Raises ToolArgumentError for anything else."""
    if isinstance(arguments, dict):
        return arguments
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else None
    except (ValueError, RecursionError) as error:
        raise ToolArgumentError(f"the arguments are not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ToolArgumentError("the arguments are not a JSON object")
    return parsed


def get_tool_call_info(tool_call: MessageDict) -> tuple[str, str, dict[str, Any]]:
    """(id or `unknown`, name or empty, arguments) of a tool call. Raises ToolArgumentError that says which call it was."""
    function = tool_call.get("function")
    function = function if isinstance(function, dict) else {}
    identity, name = str(tool_call.get("id") or "unknown"), str(function.get("name") or "")
    try:
        return identity, name, parse_tool_arguments(function.get("arguments", {}))
    except ToolArgumentError as error:
        raise ToolArgumentError(str(error), tool_call_id=identity, tool_name=name) from None


async def execute_tool_calls(
    tool_calls: Iterable[MessageDict], executor: Callable[[MessageDict], Awaitable[MessageDict]]
) -> list[MessageDict]:
    """Run all tool calls at once; the results stand in the order of the calls. Raises what `executor` raises."""
    return list(await asyncio.gather(*(executor(call) for call in tool_calls)))
