"""The grader: what an author writes to score a sample (contract: rollout_protocol section 4; E28)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from osmosis.shell.rollout.context import GraderContext
from osmosis.shell.rollout.types.config import GraderConfig


class Grader(ABC):
    """Subclass and implement `grade`. A new instance is made for each rollout."""

    def __init__(self, config: GraderConfig | None = None) -> None:
        """Keep the configuration as `self.config`."""
        self.config = config

    @abstractmethod
    async def grade(self, ctx: GraderContext) -> None:
        """Score `ctx.sample` through `ctx.set_reward`, or set `ctx.sample.remove_sample = True` to skip it.

        May also change `ctx.sample.metrics` and `ctx.sample.extra_fields`. What is returned does not matter.
        """
