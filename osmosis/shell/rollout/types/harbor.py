"""Configuration of the managed native gateway (contract: rollout_protocol section 2.7)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class HarborHealthcheckConfig(BaseModel):
    """A command that says whether a sandbox is ready; times in seconds."""

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


class HarborGatewayConfig(BaseModel):
    """Which native agent the gateway runs, how many at once, and in what kind of sandbox."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(default="opencode", pattern=r"^[a-z][a-z0-9-]*$")
    native_agent_kwargs: dict[str, Any] = Field(default_factory=dict)
    concurrency: int = Field(default=4, ge=1, le=256)
    environment_kwargs: dict[str, Any] = Field(default_factory=dict)
    environment_healthcheck: HarborHealthcheckConfig | None = None
    cleanup_successful_trials: bool = True
    prewarm: Literal["auto", "full", "healthcheck", "off"] | bool = "auto"
