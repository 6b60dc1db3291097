"""Many judgements with bounded concurrency: workers that draw from one iterator, so memory depends on what is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from osmosis.pure.judge_errors import ProviderRequestError
from osmosis.pure.rubric import Question
from osmosis.shell.judge.call import Answer, Judge


class Task(msgspec.Struct, frozen=True):
    """One judgement to make: record `row` and its judgement number `run`, both from 0."""

    row: int
    run: int
    question: Question


Outcome = Answer | ProviderRequestError | ValueError


async def judge_all(
    judge: Judge, tasks: Iterable[Task], done: Callable[[Task, Outcome], Awaitable[None]], *, max_in_flight: int
) -> None:
    """Make every judgement, at most `max_in_flight` at once; `done` is awaited after each, before its worker goes on.

    A judgement that fails is an outcome; what `done` or the iterator raises ends the batch and is raised.
    """
    drawn = iter(tasks)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max_in_flight):
                group.create_task(_work(judge, drawn, done))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _work(judge: Judge, tasks: Iterator[Task], done: Callable[[Task, Outcome], Awaitable[None]]) -> None:
    for task in tasks:
        await done(task, await _outcome(judge, task))


async def _outcome(judge: Judge, task: Task) -> Outcome:
    try:
        return await judge.ask(task.question, row=task.row, run=task.run)
    except (ProviderRequestError, ValueError) as error:
        return error
