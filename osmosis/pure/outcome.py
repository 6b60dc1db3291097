"""What a finished rollout means to an evaluation (contract: eval_local section 6; requirement E35; ruling 7)."""

from __future__ import annotations

import math
from typing import Final, NoReturn

import msgspec

from osmosis.pure.canonical import truncate
from osmosis.pure.journal import Status
from osmosis.pure.protocol import ErrorCategory, LocalProtocolError, ResultResponse, RolloutStatus

ROLLOUT_FAILED: Final = "rollout_failed"

MESSAGE_LENGTH: Final = 16_384
"""Code points of an error message that are kept. It goes to the journal and the log; an exception may quote a whole answer."""


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
            message = response.err_message and _bounded(response.err_message)
            return Outcome(
                status=Status.FAILED,
                error_type=response.err_category or message or ROLLOUT_FAILED,
                error_message=message,
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


def _bounded(message: str) -> str:
    return (
        message if len(message) <= MESSAGE_LENGTH else f"{truncate(message, MESSAGE_LENGTH)}... ({len(message):,} characters)"
    )


def _not_finished(response: ResultResponse) -> NoReturn:
    raise LocalProtocolError(f"rollout {response.rollout_id!r} is {response.status}, not finished")
