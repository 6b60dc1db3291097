"""Agent loops by name (contract `legacy_api.md` section 8)."""

from __future__ import annotations

from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop
from osmosis.shell.remote_rollout.errors import AgentLoopNotFoundError


class AgentLoopRegistry:
    """Names and loops. Raises ValueError for a name that is taken, AgentLoopNotFoundError for one that is not there."""

    def __init__(self) -> None:
        self._loops: dict[str, RolloutAgentLoop] = {}

    def register(self, loop: RolloutAgentLoop) -> None:
        """Add `loop` under its own name."""
        if loop.name in self._loops:
            raise ValueError(f"An agent loop named {loop.name!r} is registered already")
        self._loops[loop.name] = loop

    def unregister(self, name: str) -> bool:
        """Forget a loop. Whether there was one."""
        return self._loops.pop(name, None) is not None

    def get(self, name: str) -> RolloutAgentLoop:
        """The loop of that name."""
        if name not in self._loops:
            raise AgentLoopNotFoundError(name, self._loops)
        return self._loops[name]

    def list(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._loops)


_registry = AgentLoopRegistry()


def register_agent_loop(loop: RolloutAgentLoop) -> None:
    """Add a loop to the registry of this process."""
    _registry.register(loop)


def unregister_agent_loop(name: str) -> bool:
    """Take a loop out of the registry of this process. Whether there was one."""
    return _registry.unregister(name)


def get_agent_loop(name: str) -> RolloutAgentLoop:
    """A loop of the registry of this process."""
    return _registry.get(name)


def list_agent_loops() -> list[str]:
    """The names in the registry of this process."""
    return _registry.list()
