"""Arguments of the documented functions, checked in the documented order before anything is called (`legacy_api.md` 4.2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from osmosis.pure.judge_model import JudgeModel, find_key, read_model_id, read_model_info
from osmosis.pure.rubric import Question, check_range, check_text
from osmosis.shell.rollout.optional import lazy_names


class DefaultScore(float):
    """A default that can be told from the same number given by the caller, since `model_info` overrides only the default."""


SCORE_MIN = DefaultScore(0.0)
SCORE_MAX = DefaultScore(1.0)

load_judge = lazy_names(
    "osmosis.shell.judge.call",
    feature="judging with a model",
    extra="rubric",
    names={
        "open_judge": "osmosis.shell.judge.call",
        "BATCH_PATIENCE_SECONDS": "osmosis.shell.judge.call",
        "judge_all": "osmosis.shell.judge.batch",
        "Task": "osmosis.shell.judge.batch",
    },
)
"""What calls models, loaded with the first call: importing the documented names must not bring an HTTP client."""


def judge_by_info(model_info: object, timeout: object, *, key_needed: bool = True) -> JudgeModel:
    """The judge of `model_info`. Raises TypeError, ValueError, and MissingAPIKeyError if a key is needed and not found."""
    judge = read_model_info(model_info, timeout)
    if key_needed:
        find_key(judge, os.environ)
    return judge


def judge_by_id(model: object, api_key: str | None, timeout: object, system_prompt: str | None) -> JudgeModel:
    """The judge named `provider/model`. Raises TypeError, ValueError, MissingAPIKeyError, ProviderRequestError."""
    judge = read_model_id(model, api_key=api_key, timeout=timeout, system_prompt=system_prompt)
    find_key(judge, os.environ)
    return judge


def ensure_api_key_available(model_info: object) -> None:
    """Only the check for the key. Raises TypeError for a `model_info` that makes no sense, MissingAPIKeyError without a key."""
    judge_by_info(model_info, None)


def read_question(
    judge: JudgeModel,
    rubric: object,
    solution_str: object,
    ground_truth: object,
    original_input: object,
    metadata: object,
    score_min: object,
    score_max: object,
) -> Question:
    """The question that the arguments ask. Raises TypeError for what is not the documented type, ValueError for a bad range."""
    text = check_text("rubric", rubric)
    candidate = check_text("solution_str", solution_str)
    low, high = read_range(judge, score_min, score_max)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"'metadata' must be a dict or None, got {type(metadata).__name__}")
    return Question(
        rubric=text,
        solution_str=candidate,
        ground_truth=_optional_text("ground_truth", ground_truth),
        original_input=_optional_text("original_input", original_input) or judge.original_input,
        metadata=metadata,
        score_min=low,
        score_max=high,
        system_prompt=judge.system_prompt,
    )


def read_range(judge: JudgeModel, score_min: object, score_max: object) -> tuple[float, float]:
    """The range: what the caller gave, else what `model_info` says, else the default."""
    low: Any = judge.score_min if isinstance(score_min, DefaultScore) and judge.score_min is not None else score_min
    high: Any = judge.score_max if isinstance(score_max, DefaultScore) and judge.score_max is not None else score_max
    return check_range(low, high)


def _optional_text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"'{name}' must be a str or None, got {type(value).__name__}")
    return value if value is not None and value.strip() else None
