"""Configuration of the managed gateway for native agents (contract: rollout_protocol section 2.7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PrewarmMode = Literal["auto", "full", "healthcheck", "off"]


class HarborHealthcheckConfig(BaseModel):
    """How to see that a sandbox is ready: a command and its times in seconds, as container engines have them."""

    model_config = ConfigDict(extra="forbid")

    command: Annotated[str, Field(min_length=1)]
    interval_sec: float = 5
    timeout_sec: float = 30
    start_period_sec: float = 0
    start_interval_sec: float = 5
    retries: int = 3


class HarborGatewayConfig(BaseModel):
    """Which native agent a gateway runs, how many at once, and in what environment."""

    model_config = ConfigDict(extra="forbid")

    agent: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] = "opencode"
    native_agent_kwargs: dict[str, Any] = Field(default_factory=dict)
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    environment_kwargs: dict[str, Any] = Field(default_factory=dict)
    environment_healthcheck: HarborHealthcheckConfig | None = None
    cleanup_successful_trials: bool = True
    prewarm: PrewarmMode | bool = "auto"
