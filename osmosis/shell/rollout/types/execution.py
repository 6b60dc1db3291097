"""What passes between the server and a backend (contract: rollout_protocol section 2.5)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, FiniteFloat

from osmosis.pure.protocol import INVALID_ROLLOUT_ID, ErrorCategory, RolloutStatus, is_path_segment
from osmosis.shell.rollout.types.sample import MessageDict, RolloutSample


def _path_segment(value: str) -> str:
    if not is_path_segment(value):
        raise ValueError(INVALID_ROLLOUT_ID)
    return value


RolloutId = Annotated[str, AfterValidator(_path_segment)]
"""A rollout id: one segment of a path."""


class ExecutionRequest(BaseModel):
    """One rollout to execute. Timeouts are seconds; zero and less mean that the time is already over."""

    id: RolloutId
    prompt: list[MessageDict]
    label: str | None = None
    metadata: dict[str, Any] | None = None
    agent_timeout_sec: FiniteFloat | None = None
    grader_timeout_sec: FiniteFloat | None = None
    grade: bool = True


class ExecutionResult(BaseModel):
    """How one phase ended. `extra_fields` are the backend's diagnostics: stored beside the trajectory, never sent."""

    status: RolloutStatus
    sample: RolloutSample | None = None
    err_message: str | None = None
    err_category: ErrorCategory | None = None
    extra_fields: dict[str, Any] | None = None


class ExecutionOutcome(BaseModel):
    """How a rollout ended: its workflow, and its grader if one ran."""

    workflow: ExecutionResult
    grader: ExecutionResult | None = None

    @property
    def result(self) -> ExecutionResult:
        """The result that counts: the workflow's failure, else the grader's result, else the workflow's."""
        if self.workflow.status is not RolloutStatus.SUCCESS:
            if self.workflow.sample is None and self.grader is not None and self.grader.sample is not None:
                return self.workflow.model_copy(update={"sample": self.grader.sample})
            return self.workflow
        return self.grader or self.workflow

    @property
    def result_to_save(self) -> ExecutionResult:
        """The result whose sample the trajectory tells: the grader's if it has one, else the workflow's."""
        return self.grader if self.grader is not None and self.grader.sample is not None else self.workflow
