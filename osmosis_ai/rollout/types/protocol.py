"""Bodies of rollout protocol 0.4."""

from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult
from osmosis.shell.rollout.types.protocol import (
    POLLING_LEASE_HEADER,
    CancelRolloutsRequest,
    CancelRolloutsResponse,
    RolloutErrorCategory,
    RolloutInitRequest,
    RolloutInitResponse,
    RolloutLifecycle,
    RolloutResultResponse,
    RolloutStatus,
)

__all__ = [
    "POLLING_LEASE_HEADER",
    "CancelRolloutsRequest",
    "CancelRolloutsResponse",
    "ExecutionOutcome",
    "ExecutionRequest",
    "ExecutionResult",
    "RolloutErrorCategory",
    "RolloutInitRequest",
    "RolloutInitResponse",
    "RolloutLifecycle",
    "RolloutResultResponse",
    "RolloutStatus",
]
