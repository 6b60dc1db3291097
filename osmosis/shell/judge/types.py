"""The documented types of rubric judging (A5), and the records of its batches.

Annotations here are objects, not text: a TypedDict finds its required members in no other form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Required, TypedDict

import msgspec

from osmosis.pure.judge_usage import JudgeUsage


class ModelInfo(TypedDict, total=False):
    """Which model judges. `timeout` is in seconds; `api_key_env` names the variable that holds the key."""

    provider: Required[str]
    model: Required[str]
    api_key: str
    api_key_env: str
    timeout: float
    score_min: float
    score_max: float
    system_prompt: str | None
    original_input: str | None
    reasoning_effort: str | None


class RewardRubricRunResult(TypedDict):
    """What `evaluate_rubric` returns with `return_details=True`. `raw` is the provider's whole answer."""

    score: float
    explanation: str
    raw: Any


@dataclass(frozen=True)
class RubricResult:
    """What the awaitable form of `evaluate_rubric` gives."""

    score: float
    explanation: str


class RubricItem(msgspec.Struct, frozen=True):
    """One candidate of a batch."""

    solution_str: str
    ground_truth: str | None = None
    original_input: str | None = None
    metadata: Mapping[str, Any] | None = None


class RubricOutcome(msgspec.Struct, frozen=True):
    """What became of one candidate: a score and its explanation, or the error."""

    index: int
    score: float | None = None
    explanation: str | None = None
    error: Exception | None = None


class RubricProgress(msgspec.Struct, frozen=True):
    """How far a batch is. `total` is None while the candidates come from an iterator of unknown length."""

    done: int
    failed: int
    total: int | None
    usage: JudgeUsage


class RubricBatch(msgspec.Struct, frozen=True):
    """The outcomes in the order of the candidates, and what they used."""

    outcomes: tuple[RubricOutcome, ...]
    usage: JudgeUsage

    @property
    def scores(self) -> list[float | None]:
        """The scores, None where there is an error."""
        return [outcome.score for outcome in self.outcomes]

    @property
    def errors(self) -> list[RubricOutcome]:
        """The outcomes without a score."""
        return [outcome for outcome in self.outcomes if outcome.error is not None]
