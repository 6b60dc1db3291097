"""An admitted rollout, followed by a background task (contract: rollout_protocol section 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from osmosis.pure.protocol import RolloutStatus
from osmosis.shell.rollout.types.protocol import RolloutResultResponse


class RolloutHandle:
    """An admitted rollout. Await it for its final response."""

    def __init__(self, rollout_id: str, status: RolloutStatus) -> None:
        self.rollout_id = rollout_id
        self.status = status
        self.latest_result: RolloutResultResponse | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[RolloutResultResponse] | None = None

    @property
    def polling_finished(self) -> bool:
        """Whether polling has stopped, for whatever reason."""
        return self.done()

    def done(self) -> bool:
        """Whether polling has stopped, for whatever reason."""
        return self._task is not None and self._task.done()

    def cancel(self) -> bool:
        """Stop polling. The rollout itself goes on until its lease runs out."""
        return self._task is not None and self._task.cancel()

    async def wait_for_running(self) -> RolloutStatus:
        """Return once the rollout runs, or is further than that."""
        return await self._wait_beyond({RolloutStatus.QUEUED})

    async def wait_for_grading(self) -> RolloutStatus:
        """Return once the rollout is being graded, or is further than that."""
        return await self._wait_beyond({RolloutStatus.QUEUED, RolloutStatus.RUNNING})

    async def wait_for_completion(self) -> RolloutResultResponse:
        """The final response. Raises what stopped the polling."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    def __await__(self) -> Generator[Any, None, RolloutResultResponse]:
        return self.wait_for_completion().__await__()

    def follow(self, polling: Callable[[RolloutHandle], Awaitable[RolloutResultResponse]]) -> None:
        """Begin to poll, in a task of its own. For clients."""

        async def polled() -> RolloutResultResponse:
            return await polling(self)

        self._task = asyncio.create_task(polled(), name=f"polling {self.rollout_id}")
        self._task.add_done_callback(self._polling_ended)

    def _polling_ended(self, task: asyncio.Task[RolloutResultResponse]) -> None:
        self._changed.set()
        if not task.cancelled():
            task.exception()  # Looked at, so that a handle nobody awaits does not complain when it is collected.

    def take(self, response: RolloutResultResponse) -> None:
        """What the last poll said. For clients."""
        self.latest_result = response
        self.status = response.status
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_beyond(self, before: set[RolloutStatus]) -> RolloutStatus:
        while self.status in before and not self.done():
            await self._changed.wait()
        if self.status in before:
            await self.wait_for_completion()
        return self.status
