"""What a server asks of whatever executes its rollouts (contract: rollout_protocol section 6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest


class ExecutionBackend(ABC):
    """Executes rollouts. Only `execute` must be implemented.

    A backend that cancels by itself and answers `not_found` for finished work must keep a terminal `rollout_status` for that id
    until `execute` has returned, or the server cancels its own task too.
    """

    @abstractmethod
    async def execute(self, request: ExecutionRequest) -> ExecutionOutcome:
        """Run one rollout to its end. The rollout's `RolloutContext` is active. An exception fails this rollout alone."""

    def has_capacity(self) -> bool:
        """Whether another rollout may be admitted now; the server answers 429 if not."""
        return True

    def rollout_status(self, rollout_id: str) -> dict[str, Any] | None:
        """What is known of a rollout, with its `status`; None if nothing is."""
        return None

    def cancel_rollouts(
        self,
        ids: Sequence[str] | None = None,
        prefix: str | None = None,
        all: bool = False,  # noqa: A002 - the name is part of the contract
    ) -> dict[str, str]:
        """Cancel by exactly one selector; returns what became of each id. An empty answer leaves it to the server."""
        return {}

    def health(self) -> dict[str, Any]:
        """The backend's part of the health report."""
        return {"status": "ok"}

    async def shutdown(self) -> None:  # noqa: B027 - most backends hold nothing
        """Release what the backend holds. Called once, when no rollout is running any more."""
