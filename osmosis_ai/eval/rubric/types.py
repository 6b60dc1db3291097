"""Types and errors of rubric judging."""

from osmosis.pure.judge_errors import MissingAPIKeyError, ModelNotFoundError, ProviderRequestError
from osmosis.shell.judge.types import RubricResult

__all__ = ["MissingAPIKeyError", "ModelNotFoundError", "ProviderRequestError", "RubricResult"]
