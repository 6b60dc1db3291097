"""From an outcome to the result that travels (contract: rollout_protocol section 7.6)."""

from __future__ import annotations

import logging
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from osmosis.pure.canonical import well_formed
from osmosis.pure.json_safe import is_plain_json, json_safe
from osmosis.pure.protocol import ErrorCategory, ResultResponse, RolloutStatus, Sample
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionResult
from osmosis.shell.rollout.types.sample import RolloutSample

logger = logging.getLogger(__name__)


def compose_result(rollout_id: str, outcome: ExecutionOutcome) -> ResultResponse:
    """The final answer to polls. A backend that ends with a status that is not final has failed, and the answer says so."""
    result = outcome.result
    if not result.status.terminal:
        return ResultResponse(
            rollout_id=rollout_id,
            status=RolloutStatus.FAILURE,
            sample=wire_sample(result),
            err_message=f"the backend ended the rollout with status {result.status.value!r}",
            err_category=ErrorCategory.INTERNAL_ERROR,
        )
    return ResultResponse(
        rollout_id=rollout_id,
        status=result.status,
        sample=wire_sample(result),
        err_message=None if result.err_message is None else well_formed(result.err_message),
        err_category=result.err_category,
    )


def wire_sample(result: ExecutionResult) -> Sample | None:
    """The sample as it travels: plain JSON, with a reward only if it counts."""
    if result.sample is None:
        return None
    sample = result.sample.json_safe_copy()
    scored = result.status is RolloutStatus.SUCCESS and not sample.remove_sample
    messages = _plain_messages(sample)
    return Sample(
        messages=messages or [],
        label=None if sample.label is None else well_formed(sample.label),
        reward=sample.reward if scored else None,
        remove_sample=sample.remove_sample,
        metrics={} if messages is None else sample.metrics,
        extra_fields={} if messages is None else sample.extra_fields,
    )


def _plain_messages(sample: RolloutSample) -> list[Any] | None:
    """The messages as plain JSON; None if they hold something that cannot be written."""
    messages = list(sample.messages)
    if is_plain_json(messages):
        return messages
    try:
        jsonable = to_jsonable_python(messages)
    except (PydanticSerializationError, UnicodeEncodeError, ValueError, RecursionError) as error:
        logger.warning("The messages cannot be written as JSON and were left out of the result: %s", error)
        return None
    return list(json_safe({"messages": jsonable})[0]["messages"])
