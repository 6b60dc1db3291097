"""`evaluate_rubric` and its relatives, as documented (A3; seed 004; ruling 25; contract `legacy_api.md` sections 4 and 9).

One name serves two APIs. With `model_info` it is synchronous and returns a float, or the details. With the keyword `model` and
no `model_info` it returns an awaitable with the result of the current public package.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Literal, overload

from osmosis.pure.judge_model import JudgeModel
from osmosis.pure.rubric import Question
from osmosis.shell.judge.background import background
from osmosis.shell.judge.preparation import SCORE_MAX, SCORE_MIN, judge_by_id, judge_by_info, load_judge, read_question
from osmosis.shell.judge.types import ModelInfo, RewardRubricRunResult, RubricResult

if TYPE_CHECKING:
    from osmosis.shell.judge.call import Answer

GivenModelInfo = ModelInfo | dict[str, Any]
"""`model_info` as the document has it: any dictionary; the TypedDict says what may stand in it."""


@overload
def evaluate_rubric(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    timeout: float | None = None,
    return_details: Literal[False] = False,
) -> float: ...


@overload
def evaluate_rubric(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    timeout: float | None = None,
    *,
    return_details: Literal[True],
) -> RewardRubricRunResult: ...


@overload
def evaluate_rubric(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None,
    original_input: str | None,
    metadata: dict[str, Any] | None,
    score_min: float,
    score_max: float,
    timeout: float | None,
    return_details: Literal[True],
) -> RewardRubricRunResult: ...


@overload
def evaluate_rubric(
    rubric: str,
    solution_str: str,
    model_info: None = None,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    timeout: float | None = None,
    return_details: Literal[False] = False,
    *,
    model: str,
    api_key: str | None = None,
    system_prompt: str | None = None,
) -> Awaitable[RubricResult]: ...


def evaluate_rubric(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo | None = None,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = SCORE_MIN,
    score_max: float = SCORE_MAX,
    timeout: float | None = None,
    return_details: bool = False,
    *,
    model: str | None = None,
    api_key: str | None = None,
    system_prompt: str | None = None,
) -> float | RewardRubricRunResult | Awaitable[RubricResult]:
    """Judge `solution_str` by `rubric` with the model of `model_info`: a float, or the details with `return_details`.

    Blocks until the judge has answered, also inside a running event loop; in coroutines `evaluate_rubric_async` is better. The
    score range comes from the arguments, else from `model_info`, else it is 0.0 to 1.0. `timeout` is in seconds, for each try.

    With `model="provider/model"` instead of `model_info` it returns an awaitable `RubricResult`.

    Raises TypeError and ValueError for arguments that make no sense, MissingAPIKeyError without a key, ModelNotFoundError for a
    model that the provider does not know, ProviderRequestError for every other failure of the call or the reply.
    """
    if model is not None:
        if model_info is not None or return_details:
            raise TypeError("'model' excludes 'model_info' and 'return_details'")
        texts = (rubric, solution_str, ground_truth, original_input, metadata, score_min, score_max)
        return _by_model_id(model, api_key, timeout, system_prompt, texts)
    if api_key is not None or system_prompt is not None:
        raise TypeError("'api_key' and 'system_prompt' go into 'model_info', or with 'model'")
    judge = judge_by_info(model_info, timeout)
    question = read_question(judge, rubric, solution_str, ground_truth, original_input, metadata, score_min, score_max)
    return _result(background.run(_answer(judge, question)), return_details)


@overload
async def evaluate_rubric_async(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    timeout: float | None = None,  # noqa: ASYNC109 - documented, and of each try
    return_details: Literal[False] = False,
) -> float: ...


@overload
async def evaluate_rubric_async(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = 0.0,
    score_max: float = 1.0,
    timeout: float | None = None,  # noqa: ASYNC109 - documented, and of each try
    *,
    return_details: Literal[True],
) -> RewardRubricRunResult: ...


@overload
async def evaluate_rubric_async(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None,
    original_input: str | None,
    metadata: dict[str, Any] | None,
    score_min: float,
    score_max: float,
    timeout: float | None,  # noqa: ASYNC109 - documented, and of each try
    return_details: Literal[True],
) -> RewardRubricRunResult: ...


async def evaluate_rubric_async(
    rubric: str,
    solution_str: str,
    model_info: GivenModelInfo,
    ground_truth: str | None = None,
    original_input: str | None = None,
    metadata: dict[str, Any] | None = None,
    score_min: float = SCORE_MIN,
    score_max: float = SCORE_MAX,
    timeout: float | None = None,  # noqa: ASYNC109 - documented, and of each try
    return_details: bool = False,
) -> float | RewardRubricRunResult:
    """`evaluate_rubric` for coroutines: the same arguments, result and errors, without blocking the event loop."""
    judge = judge_by_info(model_info, timeout)
    question = read_question(judge, rubric, solution_str, ground_truth, original_input, metadata, score_min, score_max)
    return _result(await _answer(judge, question), return_details)


async def _by_model_id(
    model: str,
    api_key: str | None,
    timeout: float | None,  # noqa: ASYNC109 - of each try
    system_prompt: str | None,
    texts: tuple[Any, ...],
) -> RubricResult:
    judge = judge_by_id(model, api_key, timeout, system_prompt)
    judgement = (await _answer(judge, read_question(judge, *texts))).judgement
    return RubricResult(judgement.score, judgement.explanation)


async def _answer(judge: JudgeModel, question: Question) -> Answer:
    async with load_judge("open_judge")(judge) as asked:
        answer: Answer = await asked.ask(question)
        return answer


def _result(answer: Answer, return_details: bool) -> float | RewardRubricRunResult:
    judgement = answer.judgement
    if not return_details:
        return judgement.score
    return RewardRubricRunResult(score=judgement.score, explanation=judgement.explanation, raw=answer.raw)
