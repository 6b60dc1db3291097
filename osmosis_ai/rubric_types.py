"""Types and errors of rubric judging."""

from osmosis.pure.judge_errors import MissingAPIKeyError, ModelNotFoundError, ProviderRequestError
from osmosis.shell.judge.types import ModelInfo, RewardRubricRunResult

__all__ = ["MissingAPIKeyError", "ModelInfo", "ModelNotFoundError", "ProviderRequestError", "RewardRubricRunResult"]
