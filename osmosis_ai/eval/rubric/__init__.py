"""Judging by a rubric."""

from osmosis.pure.judge_errors import MissingAPIKeyError, ModelNotFoundError, ProviderRequestError
from osmosis.shell.judge.evaluate import evaluate_rubric
from osmosis.shell.judge.types import RubricResult

__all__ = ["MissingAPIKeyError", "ModelNotFoundError", "ProviderRequestError", "RubricResult", "evaluate_rubric"]
