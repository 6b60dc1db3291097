"""Settings of the remote rollout API, from `OSMOSIS_ROLLOUT_*` variables (contract `legacy_api.md` section 8).

What is given by name wins over the environment. A `.env` file is not read: loading one is the program's decision.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from osmosis.shell.remote_rollout.schemas import DEFAULT_MAX_METADATA_SIZE_BYTES, set_max_metadata_size_bytes


class _FromEnvironment(BaseModel):
    model_config = ConfigDict(extra="forbid")
    prefix: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _read_environment(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        names = (name for name in cls.model_fields if f"{cls.prefix}{name.upper()}" in os.environ)
        return {**{name: os.environ[f"{cls.prefix}{name.upper()}"] for name in names}, **given}


class RolloutClientSettings(_FromEnvironment):
    """How the trainer is called. Times are seconds."""

    prefix: ClassVar[str] = "OSMOSIS_ROLLOUT_CLIENT_"

    timeout_seconds: float = Field(default=300, ge=1, le=3600)
    max_retries: int = Field(default=3, ge=0, le=10)
    complete_rollout_retries: int = Field(default=2, ge=0, le=10)
    retry_base_delay: float = Field(default=1, ge=0.1, le=60)
    retry_max_delay: float = Field(default=30, ge=1, le=300)
    max_connections: int = Field(default=100, ge=1)
    max_keepalive_connections: int = Field(default=20, ge=0)


class RolloutServerSettings(_FromEnvironment):
    """How rollouts are served. Times are seconds. `record_ttl_seconds`: how long a repeated request finds its first answer."""

    prefix: ClassVar[str] = "OSMOSIS_ROLLOUT_SERVER_"

    max_concurrent_rollouts: int = Field(default=100, ge=1)
    record_ttl_seconds: float = Field(default=3600, ge=60, le=86400)


class RolloutSettings(_FromEnvironment):
    """All of them."""

    prefix: ClassVar[str] = "OSMOSIS_ROLLOUT_"

    client: RolloutClientSettings = Field(default_factory=RolloutClientSettings)
    server: RolloutServerSettings = Field(default_factory=RolloutServerSettings)
    max_metadata_size_bytes: int = Field(default=DEFAULT_MAX_METADATA_SIZE_BYTES, ge=1)

    def apply(self) -> Self:
        """Put the process-wide limit into force."""
        set_max_metadata_size_bytes(self.max_metadata_size_bytes)
        return self


class _Current:
    settings: RolloutSettings | None = None


def get_settings() -> RolloutSettings:
    """The settings in force; read from the environment when first asked for."""
    if _Current.settings is None:
        _Current.settings = RolloutSettings().apply()
    return _Current.settings


def configure(settings: RolloutSettings) -> None:
    """Put `settings` into force."""
    _Current.settings = settings.apply()


def reset_settings() -> None:
    """Forget the settings; the environment is read again when they are asked for."""
    _Current.settings = None
    set_max_metadata_size_bytes(DEFAULT_MAX_METADATA_SIZE_BYTES)
