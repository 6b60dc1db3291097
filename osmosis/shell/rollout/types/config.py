"""Configuration objects of workflows and graders (contract: rollout_protocol section 2.2)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ConcurrencyConfig(BaseModel):
    """How many rollouts run at once; None means no limit."""

    max_concurrent: int | None = Field(default=None, ge=1)


class BaseConfig(BaseModel):
    """A named configuration. Extra fields are kept as attributes and assignments are validated."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    name: str
    description: str | None = None


class AgentWorkflowConfig(BaseConfig):
    """Configuration of an `AgentWorkflow`. Subclass it to add fields of your own."""

    concurrency: ConcurrencyConfig = Field(default_factory=ConcurrencyConfig)


class GraderConfig(BaseConfig):
    """Configuration of a `Grader`. Subclass it to add fields of your own."""

    concurrency: ConcurrencyConfig = Field(default_factory=ConcurrencyConfig)
