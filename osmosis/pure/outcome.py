"""What a finished rollout means to an evaluation (contract: eval_local section 6; requirement E35; ruling 7)."""

from __future__ import annotations

import math
from typing import Final, NoReturn

import msgspec

from osmosis.pure.journal import Status
from osmosis.pure.protocol import ErrorCategory, LocalProtocolError, ResultResponse, RolloutStatus

ROLLOUT_FAILED: Final = "rollout_failed"


class Outcome(msgspec.Struct, frozen=True):
    """What a finished rollout means to the evaluation. `error_type` is set on failures only and is never empty there."""

    status: Status
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    has_sample: bool = False


def classify(response: ResultResponse) -> Outcome | None:
    """What a finished rollout means to the evaluation (eval_local section 6); None for a cancelled one, which stays pending.

    Raises LocalProtocolError if the rollout is not finished.
    """
    match response.status:
        case RolloutStatus.SUCCESS:
            return _classify_success(response)
        case RolloutStatus.FAILURE:
            return Outcome(
                status=Status.FAILED,
                error_type=response.err_category or response.err_message or ROLLOUT_FAILED,
                error_message=response.err_message,
                has_sample=response.sample is not None,
            )
        case RolloutStatus.CANCELLED:
            return None
        case _:
            return _not_finished(response)


def _classify_success(response: ResultResponse) -> Outcome:
    sample = response.sample
    if sample is None:
        return Outcome(status=Status.SUCCESS)
    if sample.remove_sample:
        return Outcome(status=Status.SKIPPED, has_sample=True)
    if sample.reward is not None and not math.isfinite(sample.reward):
        return Outcome(
            status=Status.FAILED,
            error_type=ErrorCategory.VALIDATION_ERROR,
            error_message=f"the reward is {sample.reward}, which is not a finite number",
            has_sample=True,
        )
    return Outcome(status=Status.SUCCESS, reward=sample.reward, has_sample=True)


def _not_finished(response: ResultResponse) -> NoReturn:
    raise LocalProtocolError(f"rollout {response.rollout_id!r} is {response.status}, not finished")
