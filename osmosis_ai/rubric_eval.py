"""Judging by a rubric, under the name that older code imports from."""

from osmosis.pure.judge_errors import MissingAPIKeyError, ModelNotFoundError, ProviderRequestError
from osmosis.pure.judge_model import DEFAULT_TIMEOUT as DEFAULT_REQUEST_TIMEOUT_SECONDS
from osmosis.shell.judge.evaluate import evaluate_rubric
from osmosis.shell.judge.preparation import ensure_api_key_available
from osmosis.shell.judge.types import ModelInfo, RewardRubricRunResult

__all__ = [
    "DEFAULT_REQUEST_TIMEOUT_SECONDS",
    "MissingAPIKeyError",
    "ModelInfo",
    "ModelNotFoundError",
    "ProviderRequestError",
    "RewardRubricRunResult",
    "ensure_api_key_available",
    "evaluate_rubric",
]
