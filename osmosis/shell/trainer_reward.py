"""A reward function as a trainer's reward callable: completions and columns in, a list of floats out (issue 7).

The shape is the one that trainers share: `reward(prompts=..., completions=..., **columns)`, where every column of the dataset
is a list as long as `completions`. A completion is a text, or the messages of a conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutinefunction
from typing import Any

from osmosis.pure.reward_signature import Decorator
from osmosis.pure.rubric_records import last_assistant_text
from osmosis.shell.judge.background import background
from osmosis.shell.rewards import MARK, is_reward_function

MAX_IN_FLIGHT = 32
"""Calls of a rubric function, or of an async one, that may run at once."""

Arguments = tuple[str, str | None, dict[str, Any]]


def trainer_reward(
    function: Callable[..., Any], *, ground_truth: str = "ground_truth", max_in_flight: int = MAX_IN_FLIGHT
) -> Callable[..., list[float]]:
    """`function` (from `osmosis_reward` or `osmosis_rubric`) as `reward(completions, prompts=None, **columns) -> list[float]`.

    `ground_truth` names the column with the reference answers. All other columns, and `prompts` as `prompt`, reach the function
    in `extra_info`; arguments that are no columns are left out. Rubric functions and async ones run up to `max_in_flight` at a
    time, others one after another. The callable has the function's name, under which trainers log it.

    Raises TypeError for a function that is not decorated. The callable raises ValueError for columns that do not fit, TypeError
    for a ground truth that is no text, and whatever the function raises, with the row in a note.
    """
    if not is_reward_function(function):
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(f"'{name}' is no reward function: decorate it with osmosis_reward or osmosis_rubric")
    if max_in_flight < 1:
        raise ValueError(f"'max_in_flight' must be at least 1, got {max_in_flight!r}")

    def reward(completions: Sequence[Any], prompts: Sequence[Any] | None = None, **columns: Any) -> list[float]:
        if prompts is not None:
            columns["prompt"] = prompts
        calls = _calls(function, completions, columns, ground_truth)
        return _scores(function, calls, max_in_flight)

    reward.__name__ = reward.__qualname__ = function.__name__
    reward.__doc__ = function.__doc__
    return reward


def _calls(
    function: Callable[..., Any], completions: Sequence[Any], columns: dict[str, Any], ground_truth: str
) -> list[Arguments]:
    per_row = {name: list(values) for name, values in columns.items() if isinstance(values, list | tuple)}
    if wrong := {name: len(values) for name, values in per_row.items() if len(values) != len(completions)}:
        listed = ", ".join(f"{name} ({length})" for name, length in wrong.items())
        raise ValueError(f"columns that are not as long as the {len(completions)} completions: {listed}")
    truths = per_row.pop(ground_truth, None)
    if truths is None and getattr(function, MARK) is Decorator.REWARD:
        raise ValueError(f"there is no column {ground_truth!r}; name the one with the reference answers as ground_truth=")
    return [
        (
            _text(completion),
            None if truths is None else _truth(truths[row], row, ground_truth),
            {name: values[row] for name, values in per_row.items()},
        )
        for row, completion in enumerate(completions)
    ]


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else last_assistant_text(completion) or ""


def _truth(value: Any, row: int, column: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"column {column!r} must hold text, row {row} has {type(value).__name__}")
    return value


def _scores(function: Callable[..., Any], calls: list[Arguments], max_in_flight: int) -> list[float]:
    if iscoroutinefunction(function):
        return background.run(_scores_async(function, calls, max_in_flight))
    numbered = list(enumerate(calls))
    if getattr(function, MARK) is Decorator.REWARD or len(calls) < 2:
        return [_score(function, row, arguments) for row, arguments in numbered]
    with ThreadPoolExecutor(min(max_in_flight, len(calls)), thread_name_prefix="osmosis-reward") as threads:
        return list(threads.map(lambda call: _score(function, *call), numbered))


def _score(function: Callable[..., Any], row: int, arguments: Arguments) -> float:
    try:
        return float(function(*arguments))
    except Exception as error:
        error.add_note(f"row {row} of the batch")
        raise


async def _scores_async(function: Callable[..., Any], calls: list[Arguments], max_in_flight: int) -> list[float]:
    slots = asyncio.Semaphore(max_in_flight)

    async def score(row: int, arguments: Arguments) -> float:
        async with slots:
            try:
                return float(await function(*arguments))
            except Exception as error:
                error.add_note(f"row {row} of the batch")
                raise

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(score(row, arguments)) for row, arguments in enumerate(calls)]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
