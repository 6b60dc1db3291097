"""Whether an agent loop can be served: everything that is wrong with it, by code (contract `legacy_api.md` section 8)."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop, discovery_request
from osmosis.shell.remote_rollout.schemas import RolloutRequest

WARNINGS: Final = frozenset({"UNKNOWN_TOOL_TYPE", "MISSING_FUNCTION_DESCRIPTION", "PARAMETERS_TYPE_NOT_OBJECT"})


@dataclasses.dataclass(frozen=True)
class ValidationError:
    """One thing wrong with an agent loop."""

    code: str
    message: str
    field: str | None = None
    details: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"[{self.code}] {self.field}: {self.message}" if self.field else f"[{self.code}] {self.message}"


class AgentLoopValidationError(Exception):
    """An agent loop cannot be served; `errors` says why."""

    def __init__(self, message: str, errors: list[ValidationError]) -> None:
        super().__init__(message)
        self.errors = errors


@dataclasses.dataclass(frozen=True)
class ValidationResult:
    """What was found. True in a condition when the loop can be served."""

    valid: bool
    errors: list[ValidationError]
    warnings: list[ValidationError]
    agent_name: str | None
    tool_count: int

    def __bool__(self) -> bool:
        return self.valid

    def raise_if_invalid(self) -> None:
        """Raise AgentLoopValidationError with every error, if there is any."""
        if not self.valid:
            listed = "; ".join(map(str, self.errors))
            raise AgentLoopValidationError(f"Agent loop {self.agent_name!r} cannot be served: {listed}", self.errors)


def validate_agent_loop(loop: RolloutAgentLoop, *, request: RolloutRequest | None = None) -> ValidationResult:
    """Look at name, tools and `run` of a loop. `request` is what `get_tools` is asked with."""
    problems = [*_name_problems(loop), *_run_problems(loop)]
    tools, tool_problems = _tools(loop, request)
    for index, tool in enumerate(tools):
        tool_problems += _tool_problems(tool, f"tools[{index}]")
    problems += tool_problems
    errors = [problem for problem in problems if problem.code not in WARNINGS]
    name = getattr(loop, "name", None)
    return ValidationResult(
        valid=not errors,
        errors=errors,
        warnings=[problem for problem in problems if problem.code in WARNINGS],
        agent_name=name if isinstance(name, str) else None,
        tool_count=len(tools),
    )


def _name_problems(loop: object) -> Iterator[ValidationError]:
    name = getattr(loop, "name", None)
    if name is None:
        yield ValidationError("MISSING_NAME", "the agent loop has no name", "name")
    elif not isinstance(name, str):
        yield ValidationError("INVALID_NAME_TYPE", f"must be a string, not {type(name).__name__}", "name")
    elif not name.strip():
        yield ValidationError("EMPTY_NAME", "must not be blank", "name")


def _run_problems(loop: object) -> Iterator[ValidationError]:
    run = getattr(loop, "run", None)
    if run is None:
        yield ValidationError("MISSING_RUN_METHOD", "the agent loop has no run method", "run")
    elif not callable(run):
        yield ValidationError("RUN_NOT_CALLABLE", "must be a method", "run")
    elif not inspect.iscoroutinefunction(run):
        yield ValidationError("RUN_NOT_ASYNC", "must be defined with async def", "run")


def _tools(loop: Any, request: RolloutRequest | None) -> tuple[list[Any], list[ValidationError]]:
    try:
        tools = loop.get_tools(discovery_request() if request is None else request)
    except Exception as error:  # noqa: BLE001 - whatever the author's code raises is what is reported
        details = {"exception_type": type(error).__name__}
        return [], [ValidationError("GET_TOOLS_EXCEPTION", f"{type(error).__name__}: {error}", "get_tools", details)]
    if tools is None:
        return [], [ValidationError("GET_TOOLS_RETURNS_NONE", "must return a list, an empty one for no tools", "get_tools")]
    if not isinstance(tools, list):
        return [], [ValidationError("GET_TOOLS_INVALID_TYPE", f"must return a list, not {type(tools).__name__}", "get_tools")]
    return tools, []


def _tool_problems(tool: object, where: str) -> Iterator[ValidationError]:
    fields = tool.model_dump() if isinstance(tool, BaseModel) else tool
    if not isinstance(fields, dict):
        yield ValidationError("INVALID_TOOL_TYPE", f"must be a tool schema, not {type(tool).__name__}", where)
        return
    if not fields.get("type"):
        yield ValidationError("MISSING_TOOL_TYPE", "is missing", f"{where}.type")
    elif fields["type"] != "function":
        yield ValidationError("UNKNOWN_TOOL_TYPE", f"{fields['type']!r} is not known to trainers", f"{where}.type")
    function = fields.get("function")
    if function is None:
        yield ValidationError("MISSING_FUNCTION", "is missing", f"{where}.function")
    elif not isinstance(function, dict):
        yield ValidationError("INVALID_FUNCTION_TYPE", f"must be an object, not {type(function).__name__}", f"{where}.function")
    else:
        yield from _function_problems(function, f"{where}.function")


def _function_problems(function: dict[str, Any], where: str) -> Iterator[ValidationError]:
    name = function.get("name")
    if name is None:
        yield ValidationError("MISSING_FUNCTION_NAME", "is missing", f"{where}.name")
    elif not isinstance(name, str) or not name.strip():
        yield ValidationError("INVALID_FUNCTION_NAME", "must be a string that is not blank", f"{where}.name")
    if not function.get("description"):
        yield ValidationError("MISSING_FUNCTION_DESCRIPTION", "the model is told nothing about it", f"{where}.description")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        kind = type(parameters).__name__
        yield ValidationError("INVALID_PARAMETERS_TYPE", f"must be an object, not {kind}", f"{where}.parameters")
    elif parameters is not None and parameters.get("type") != "object":
        yield ValidationError("PARAMETERS_TYPE_NOT_OBJECT", "is not 'object'", f"{where}.parameters.type")
