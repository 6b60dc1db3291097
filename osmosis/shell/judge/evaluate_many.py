"""`evaluate_rubrics`: a batch of judgements with bounded concurrency (issue 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osmosis.pure.judge_model import JudgeModel
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.rubric import check_text
from osmosis.shell.judge.preparation import SCORE_MAX, SCORE_MIN, judge_by_info, load_judge, read_question, read_range
from osmosis.shell.judge.types import ModelInfo, RubricBatch, RubricItem, RubricOutcome, RubricProgress

if TYPE_CHECKING:
    from osmosis.shell.judge.batch import Outcome, Task

MAX_IN_FLIGHT = 8
"""Judgements that may be in flight at once unless the caller says otherwise (contract `cli.md` section 8)."""


async def evaluate_rubrics(
    rubric: str,
    candidates: Iterable[str | RubricItem],
    model_info: ModelInfo | dict[str, Any],
    *,
    score_min: float = SCORE_MIN,
    score_max: float = SCORE_MAX,
    timeout: float | None = None,  # noqa: ASYNC109 - of each try
    max_in_flight: int = MAX_IN_FLIGHT,
    on_progress: Callable[[RubricProgress], object] | None = None,
    record: str | Path | None = None,
    replay: str | Path | None = None,
) -> RubricBatch:
    """Judge many candidates, at most `max_in_flight` at once, over one connection pool.

    A candidate whose judgement fails has the error in its outcome; the others go on. Rate limits are waited out. `on_progress`
    is called after each judgement, in the event loop. `record` and `replay` name a cassette, whose rows are the positions of
    the candidates. `candidates` may be a generator: it is drawn from as judgements finish.

    Raises what `evaluate_rubric` raises for its arguments, a missing key and a model that cannot be called.
    """
    _check_bound(max_in_flight)
    judge = judge_by_info(model_info, timeout, key_needed=replay is None)
    check_text("rubric", rubric)
    low, high = read_range(judge, score_min, score_max)
    open_judge, judge_all = load_judge("open_judge"), load_judge("judge_all")
    patience = load_judge("BATCH_PATIENCE_SECONDS")
    cassettes = {"record": record and Path(record), "replay": replay and Path(replay)}
    async with open_judge(judge, patience=patience, **cassettes) as asked:
        total = len(candidates) if isinstance(candidates, Sized) else None
        collected = _Collected(total, on_progress, lambda: asked.usage)
        tasks = _tasks(judge, rubric, candidates, low, high, collected)
        await judge_all(asked, tasks, collected.finished, max_in_flight=max_in_flight)
        return RubricBatch(collected.in_order(), asked.usage)


def _check_bound(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"'max_in_flight' must be a whole number of at least 1, got {value!r}")


class _Collected:
    """The outcomes so far."""

    def __init__(
        self, total: int | None, on_progress: Callable[[RubricProgress], object] | None, usage: Callable[[], JudgeUsage]
    ) -> None:
        self._outcomes: dict[int, RubricOutcome] = {}
        self._failed = 0
        self._total = total
        self._on_progress = on_progress
        self._usage = usage

    async def finished(self, task: Task, outcome: Outcome) -> None:
        """One judgement was made, or failed."""
        if isinstance(outcome, Exception):
            self.keep(RubricOutcome(task.row, error=outcome))
        else:
            judgement = outcome.judgement
            self.keep(RubricOutcome(task.row, judgement.score, judgement.explanation))

    def keep(self, outcome: RubricOutcome) -> None:
        """Remember an outcome and report the progress."""
        self._outcomes[outcome.index] = outcome
        self._failed += outcome.error is not None
        if self._on_progress is not None:
            self._on_progress(RubricProgress(len(self._outcomes), self._failed, self._total, self._usage()))

    def in_order(self) -> tuple[RubricOutcome, ...]:
        """The outcomes in the order of the candidates."""
        return tuple(self._outcomes[index] for index in sorted(self._outcomes))


def _tasks(
    judge: JudgeModel, rubric: str, candidates: Iterable[str | RubricItem], low: float, high: float, collected: _Collected
) -> Iterator[Task]:
    make_task = load_judge("Task")
    for index, candidate in enumerate(candidates):
        item = candidate if isinstance(candidate, RubricItem) else RubricItem(candidate)
        try:
            question = read_question(
                judge, rubric, item.solution_str, item.ground_truth, item.original_input, item.metadata, low, high
            )
        except (TypeError, ValueError) as error:
            # One unusable candidate must not cost the judgements of all others.
            collected.keep(RubricOutcome(index, error=error))
            continue
        yield make_task(index, 0, question)
