"""Errors of the remote rollout API (contract `legacy_api.md` section 5.5)."""

from __future__ import annotations

from collections.abc import Iterable


class OsmosisRolloutError(Exception):
    """Whatever goes wrong with a remote rollout."""


class OsmosisTransportError(OsmosisRolloutError):
    """No connection to the trainer, or it broke off."""


class OsmosisTimeoutError(OsmosisRolloutError):
    """The trainer did not answer in time."""


class OsmosisServerError(OsmosisRolloutError):
    """The trainer failed (5xx)."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class OsmosisValidationError(OsmosisRolloutError):
    """The trainer refused a request, or answered with something that the protocol does not foresee."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class AgentLoopNotFoundError(OsmosisRolloutError):
    """No agent loop is registered under a name."""

    def __init__(self, name: str, available: Iterable[str]) -> None:
        self.name = name
        self.available = sorted(available)
        known = ", ".join(self.available) or "none"
        super().__init__(f"There is no agent loop {name!r}. Registered are: {known}")


class ToolExecutionError(OsmosisRolloutError):
    """A tool failed. `tool_call_id` and `tool_name` say which call it was."""

    def __init__(self, message: str, tool_call_id: str = "", tool_name: str = "") -> None:
        super().__init__(message)
        self.tool_call_id = tool_call_id
        self.tool_name = tool_name


class ToolArgumentError(ToolExecutionError):
    """The model's arguments of a tool call are no JSON object."""
