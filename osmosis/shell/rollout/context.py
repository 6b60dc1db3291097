"""What a rollout knows about itself while it runs (contract: rollout_protocol section 3).

The active `RolloutContext` is a context variable, so concurrent rollouts in one process do not see each other. Unlike the
public package, leaving a context restores the one around it, and graders see it too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from osmosis.pure.protocol import RolloutStatus
from osmosis.shell.rollout.types.sample import MessageDict, RolloutSample

logger = logging.getLogger(__name__)

CHAT_COMPLETIONS_URL_ENV = "OSMOSIS_CHAT_COMPLETIONS_URL"
API_KEY_ENV = "OSMOSIS_API_KEY"
ROLLOUT_ID_ENV = "OSMOSIS_ROLLOUT_ID"

ConfigT = TypeVar("ConfigT")

rollout_contextvar: ContextVar[RolloutContext | None] = ContextVar("osmosis_rollout", default=None)


def get_rollout_context() -> RolloutContext | None:
    """The context of the rollout that is running here, or None outside of one."""
    return rollout_contextvar.get()


class SampleSource(ABC):
    """Where a rollout's sample comes from when its workflow returns none: a framework's session or memory."""

    @abstractmethod
    async def get_sample(self) -> RolloutSample:
        """The sample as it stands now."""

    async def get_preview(self, max_messages: int) -> RolloutSample | None:
        """The newest `max_messages` messages for a live preview; None for no preview."""
        return None


@dataclass
class RolloutProgress:
    """A rollout's status, and a way to wait for the next one. A terminal status is final."""

    status: RolloutStatus = RolloutStatus.QUEUED
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    on_status: Callable[[RolloutStatus], None] | None = None

    async def set_status(self, status: RolloutStatus) -> None:
        """Move to `status`, wake whoever waits and tell the callback; nothing happens if it is equal or the end was reached."""
        if status == self.status or self.status.terminal:
            return
        async with self.changed:
            self.status = status
            self.changed.notify_all()
        if self.on_status is not None:
            try:
                self.on_status(status)
            except Exception:
                logger.exception("The status callback of a rollout failed")

    async def wait_for_status_change(self) -> RolloutStatus:
        """Return the status once it differs from the present one; at once if it is terminal."""
        if self.status.terminal:
            return self.status
        before = self.status
        async with self.changed:
            await self.changed.wait_for(lambda: self.status != before)
        return self.status


@dataclass
class RolloutContext:
    """Where a rollout finds its model endpoint, key and id. Empty fields are filled from the environment."""

    chat_completions_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    rollout_id: str = ""
    sample_source: SampleSource | None = None
    progress: RolloutProgress | None = None
    process_id: str | None = None
    preview_path: Path | None = None
    preview_enabled: bool = True

    def __post_init__(self) -> None:
        self.chat_completions_url = self.chat_completions_url or os.environ.get(CHAT_COMPLETIONS_URL_ENV, "")
        self.api_key = self.api_key or os.environ.get(API_KEY_ENV)
        self.rollout_id = self.rollout_id or os.environ.get(ROLLOUT_ID_ENV, "")
        self._tokens: list[Token[RolloutContext | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(rollout_contextvar.set(self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        rollout_contextvar.reset(self._tokens.pop())

    def set_sample_source(self, source: SampleSource) -> None:
        """Name the source of this rollout's sample. Raises ValueError if there is one already."""
        if self.sample_source is not None:
            raise ValueError("A sample source is already registered for this rollout")
        self.sample_source = source

    async def get_sample(self) -> RolloutSample | None:
        """The sample as it stands now; None without a source."""
        return None if self.sample_source is None else await self.sample_source.get_sample()

    async def set_status(self, status: RolloutStatus) -> None:
        """Report a status to whoever follows this rollout."""
        if self.progress is not None:
            await self.progress.set_status(status)


@dataclass
class AgentWorkflowContext(Generic[ConfigT]):
    """What a workflow gets: the prompt (chat messages), its configuration, the row's metadata, a directory for files.

    The label stays with the grader. `artifacts_dir` is None when the directory could not be made.
    """

    prompt: list[MessageDict]
    config: ConfigT | None = None
    metadata: dict[str, Any] | None = None
    artifacts_dir: Path | None = None


@dataclass
class GraderContext:
    """What a grader gets: the ground truth, the sample to score, the row's metadata, a directory for files."""

    label: str | None = None
    sample: RolloutSample | None = None
    project_path: str | None = None
    metadata: dict[str, Any] | None = None
    artifacts_dir: Path | None = None

    def set_reward(self, reward: float) -> None:
        """Score the sample. Raises ValueError if there is no sample or the reward is not a finite number."""
        if self.sample is None:
            raise ValueError("There is no sample to reward")
        self.sample.reward = reward
