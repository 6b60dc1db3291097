"""The rollouts of a HarborBackend that are in flight, and what became of recent ones (contract: rollout_protocol 13.2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from osmosis.pure.protocol import Disposition, RolloutStatus
from osmosis.shell.rollout.context import RolloutContext
from osmosis.shell.rollout.harbor.trial_loop import TrialTask
from osmosis.shell.rollout.types.execution import ExecutionOutcome

RETENTION_SEC = 900.0


@dataclass(eq=False)
class Flight:
    """One rollout in flight. `loop` is the server's, on which its context lives."""

    rollout_id: str
    trial_name: str
    loop: asyncio.AbstractEventLoop
    context: RolloutContext | None = None
    task: TrialTask | None = None
    started: bool = False
    verifying: bool = False
    cancelled: bool = False

    @property
    def status(self) -> RolloutStatus:
        """As `rollout_status` has it."""
        if self.verifying:
            return RolloutStatus.GRADING
        return RolloutStatus.RUNNING if self.started else RolloutStatus.QUEUED

    def cancel(self) -> str:
        """Ask for the end, once; what becomes of the rollout."""
        if self.task is not None and self.task.done:
            return Disposition.NOT_FOUND
        if not self.cancelled:
            self.cancelled = True
            if self.task is not None:
                self.task.cancel()
        return Disposition.CANCELLED_RUNNING if self.started else Disposition.CANCELLED_QUEUED


class Flights:
    """All of them, by rollout id."""

    def __init__(self) -> None:
        self._flying: dict[str, Flight] = {}
        self._landed: dict[str, tuple[float, dict[str, Any]]] = {}

    @property
    def pending(self) -> int:
        """How many have not ended."""
        return len(self._flying)

    @property
    def running(self) -> int:
        """How many trials have begun."""
        return sum(flight.started for flight in self._flying.values())

    @property
    def queued(self) -> int:
        """How many wait for their trial to begin."""
        return max(0, self.pending - self.running)

    def enter(self, flight: Flight) -> None:
        """Take a rollout in. Raises ValueError if its id is in flight already."""
        if flight.rollout_id in self._flying:
            raise ValueError(f"rollout {flight.rollout_id!r} is already running")
        self._flying[flight.rollout_id] = flight

    def leave(self, flight: Flight) -> None:
        """Forget a rollout that has ended."""
        del self._flying[flight.rollout_id]

    def remember(self, rollout_id: str, outcome: ExecutionOutcome) -> None:
        """Keep what became of a rollout for 15 minutes."""
        self._forget_old()
        result = outcome.result
        reward = None if result.sample is None else result.sample.reward
        record = {"status": result.status, "reward": reward, "err_message": result.err_message}
        self._landed[rollout_id] = (time.monotonic() + RETENTION_SEC, record)

    def status(self, rollout_id: str) -> dict[str, Any] | None:
        """What is known of a rollout."""
        flight = self._flying.get(rollout_id)
        if flight is not None:
            return {"status": flight.status}
        self._forget_old()
        record = self._landed.get(rollout_id)
        return None if record is None else record[1]

    def of_trial(self, trial_name: str) -> Flight | None:
        """The rollout of a trial."""
        return next((flight for flight in list(self._flying.values()) if flight.trial_name == trial_name), None)

    def cancel(self, ids: Sequence[str] | None, prefix: str | None, everything: bool) -> dict[str, str]:
        """Cancel by exactly one selector. Raises ValueError for none or several."""
        if (ids is not None) + (prefix is not None) + bool(everything) != 1:
            raise ValueError("pass exactly one selector: ids, prefix, or all")
        wanted = ids if ids is not None else [known for known in self._flying if known.startswith(prefix or "")]
        found = {rollout_id: self._flying.get(rollout_id) for rollout_id in wanted}
        return {name: Disposition.NOT_FOUND if flight is None else flight.cancel() for name, flight in found.items()}

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._landed and next(iter(self._landed.values()))[0] < now:
            del self._landed[next(iter(self._landed))]
