"""The wire's bodies as pydantic models, for authors and clients (contract: rollout_protocol section 2.6).

The server and the client use the msgspec records of `osmosis.pure.protocol` for every body that is in order; these models
are what users see, and the final word on a request that the strict records refuse.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from osmosis.pure.protocol import POLLING_LEASE_HEADER, ErrorCategory, RolloutStatus
from osmosis.shell.rollout.types.execution import RolloutId
from osmosis.shell.rollout.types.sample import MessageDict, RolloutSample

__all__ = [
    "POLLING_LEASE_HEADER",
    "CancelRolloutsRequest",
    "CancelRolloutsResponse",
    "RolloutErrorCategory",
    "RolloutInitRequest",
    "RolloutInitResponse",
    "RolloutLifecycle",
    "RolloutResultResponse",
    "RolloutStatus",
]

RolloutErrorCategory = ErrorCategory


class _Body(BaseModel):
    """Built at its first use: most servers never use one of them."""

    model_config = ConfigDict(defer_build=True)


class RolloutInitRequest(_Body):
    """Body of `POST /rollout`."""

    initial_messages: list[MessageDict]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    rollout_id: RolloutId
    chat_completions_url: str
    llm_api_key: Annotated[str, Field(min_length=1)] | None = None
    grade: bool = True
    agent_timeout_sec: FiniteFloat | None = None
    grader_timeout_sec: FiniteFloat | None = None
    extra_fields: dict[str, Any] | None = None


class RolloutInitResponse(_Body):
    """Answer 202 to `POST /rollout`."""

    rollout_id: RolloutId
    status: RolloutStatus
    polling_lease_token: Annotated[str, Field(min_length=1)]
    result_wait_timeout_sec: Annotated[FiniteFloat, Field(gt=0)]
    polling_lease_timeout_sec: FiniteFloat

    @model_validator(mode="after")
    def _lease_outlasts_wait(self) -> RolloutInitResponse:
        if self.polling_lease_timeout_sec <= self.result_wait_timeout_sec:
            raise ValueError("polling_lease_timeout_sec must be above result_wait_timeout_sec")
        return self


class RolloutResultResponse(_Body):
    """Answer to a poll."""

    rollout_id: RolloutId
    status: RolloutStatus
    sample: RolloutSample | None = None
    err_message: str | None = None
    err_category: ErrorCategory | None = None


class CancelRolloutsRequest(_Body):
    """Body of `POST /rollout/cancel`: exactly one selector."""

    ids: list[str] | None = None
    prefix: str | None = None
    all: bool = False


class CancelRolloutsResponse(_Body):
    """What became of each id."""

    dispositions: dict[str, str]


class RolloutLifecycle(_Body):
    """Object `lifecycle` of `GET /health`."""

    accepting_rollouts: bool
    active_rollouts: Annotated[int, Field(ge=0)]
