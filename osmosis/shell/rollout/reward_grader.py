"""A reward function as a grader (issue 7): the same function scores rollouts, trains, and runs in a notebook.

The function gets the last text of the assistant, the row's label (or `ground_truth` in its metadata) and the metadata. A
function that is not async may block, on a judge for example, so it runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from inspect import iscoroutinefunction
from typing import Any

from osmosis.pure.reward_signature import Decorator
from osmosis.pure.rubric_records import last_assistant_text
from osmosis.shell.rewards import MARK, is_reward_function
from osmosis.shell.rollout.context import GraderContext
from osmosis.shell.rollout.grader import Grader

GRADER_THREADS = 64
"""Blocking reward functions that may run at once; more than a machine's cores, since most of them wait for a judge."""


def reward_grader(function: Callable[..., Any]) -> type[Grader]:
    """A `Grader` that scores with `function`, which came from `osmosis_reward` or `osmosis_rubric`. Raises TypeError if not."""
    if not is_reward_function(function):
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(f"'{name}' is no reward function: decorate it with osmosis_reward or osmosis_rubric")

    class RewardFunctionGrader(Grader):
        """Scores with one reward function."""

        async def grade(self, ctx: GraderContext) -> None:
            """Set the reward that the function returns; what it raises is this grading's failure."""
            ctx.set_reward(await _scored(function, *_arguments(function, ctx)))

    RewardFunctionGrader.__name__ = RewardFunctionGrader.__qualname__ = f"{function.__name__}_grader"
    return RewardFunctionGrader


def as_grader(grader: Any) -> Any:
    """A grader class as it is, a reward function as a grader class."""
    return reward_grader(grader) if is_reward_function(grader) else grader


def _arguments(function: Callable[..., Any], ctx: GraderContext) -> tuple[str, str | None, dict[str, Any]]:
    if ctx.sample is None:
        raise ValueError("There is no sample to reward")
    metadata = dict(ctx.metadata or {})
    truth = ctx.label if ctx.label is not None else metadata.get("ground_truth")
    if truth is not None and not isinstance(truth, str):
        raise TypeError(f"the row's ground_truth must be text, got {type(truth).__name__}")
    if truth is None and getattr(function, MARK) is Decorator.REWARD:
        raise ValueError(f"'{function.__name__}' needs a ground truth, and the row has no label")
    return last_assistant_text(list(ctx.sample.messages)) or "", truth, metadata


async def _scored(function: Callable[..., Any], *arguments: Any) -> float:
    if iscoroutinefunction(function):
        return float(await function(*arguments))
    call = partial(contextvars.copy_context().run, function, *arguments)
    return float(await asyncio.get_running_loop().run_in_executor(_threads(), call))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(GRADER_THREADS, thread_name_prefix="osmosis-reward")
