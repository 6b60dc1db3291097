"""The rollout server: protocol 0.4 over HTTP, as a FastAPI application (rollout_protocol section 7; E20; ruling 23).

FastAPI has to be installed and is imported only where it is used already or has something to do (decision 0061).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from osmosis.pure.protocol import (
    DEFAULT_POLLING_LEASE_TIMEOUT_SEC,
    DEFAULT_RESULT_RETENTION_SEC,
    DEFAULT_RESULT_WAIT_TIMEOUT_SEC,
    INSTANCE_ID_ENV,
    OTLP_ENDPOINT_ENV,
    POLLING_LEASE_HEADER,
)
from osmosis.shell.rollout.backend import ExecutionBackend
from osmosis.shell.rollout.endpoints import RolloutEndpoints
from osmosis.shell.rollout.light_app import LightApp, become_framework_app
from osmosis.shell.rollout.preview import Previews
from osmosis.shell.rollout.registry import Limits, RolloutRegistry
from osmosis.shell.rollout.server_parts import Lifespan, ServerParts

if TYPE_CHECKING:
    from fastapi import FastAPI

    from osmosis.shell.rollout.telemetry import OwnershipTelemetry

__all__ = [
    "DEFAULT_POLLING_LEASE_TIMEOUT_SEC",
    "DEFAULT_RESULT_RETENTION_SEC",
    "DEFAULT_RESULT_WAIT_TIMEOUT_SEC",
    "POLLING_LEASE_HEADER",
    "create_rollout_server",
]

DESCRIPTOR_LIMIT = 65_536
_FRAMEWORK = "fastapi"

if find_spec(_FRAMEWORK) is None:
    raise ModuleNotFoundError(f"No module named {_FRAMEWORK!r}", name=_FRAMEWORK)


def create_rollout_server(
    *,
    backend: ExecutionBackend,
    lifespan: Lifespan | None = None,
    configure_logging: bool = True,
    result_wait_timeout_sec: float = DEFAULT_RESULT_WAIT_TIMEOUT_SEC,
    polling_lease_timeout_sec: float = DEFAULT_POLLING_LEASE_TIMEOUT_SEC,
    result_retention_sec: float = DEFAULT_RESULT_RETENTION_SEC,
    api_key: str | None = None,
) -> FastAPI:
    """An ASGI application that serves rollouts of `backend`. All times are seconds.

    `lifespan` is entered before serving and left after the server's own shutdown. With `api_key` every request needs it as a
    bearer token. Raises ValueError for times that make no sense and for a blank `api_key`.
    """
    _check_times(result_wait_timeout_sec, polling_lease_timeout_sec, result_retention_sec)
    if api_key is not None and not api_key.strip():
        raise ValueError("api_key must not be blank; use None for no authentication")
    if configure_logging:
        _configure_logging()
    process_id = str(uuid.uuid4())
    limits = Limits(result_wait_timeout_sec, polling_lease_timeout_sec, result_retention_sec)
    registry = RolloutRegistry(
        backend, limits, process_id=process_id, previews=Previews.from_environment(), telemetry=_telemetry()
    )
    endpoints = RolloutEndpoints(
        registry, backend, instance_id=os.environ.get(INSTANCE_ID_ENV) or process_id, process_id=process_id
    )
    app = LightApp(ServerParts(endpoints, _lifespan(registry, lifespan), api_key))
    if lifespan is not None or api_key is not None or _FRAMEWORK in sys.modules:
        become_framework_app(app)
    return cast("FastAPI", app)


def _telemetry() -> OwnershipTelemetry | None:
    if not os.environ.get(OTLP_ENDPOINT_ENV):
        return None
    from osmosis.shell.rollout.telemetry import OwnershipTelemetry  # noqa: PLC0415 - brings an HTTP client

    return OwnershipTelemetry.from_environment()


def _check_times(wait: float, lease: float, retention: float) -> None:
    if not math.isfinite(wait) or wait <= 0:
        raise ValueError("result_wait_timeout_sec must be finite and above 0")
    if not math.isfinite(lease) or lease <= wait:
        raise ValueError("polling_lease_timeout_sec must be finite and above result_wait_timeout_sec")
    if not math.isfinite(retention) or retention < 0:
        raise ValueError("result_retention_sec must be finite and not negative")


def _configure_logging() -> None:
    root = logging.getLogger()
    if not root.handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def _lifespan(registry: RolloutRegistry, around: Lifespan | None) -> Lifespan:
    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[Any]:
        _allow_many_connections()
        if around is None:
            try:
                yield
            finally:
                await registry.shutdown()
            return
        async with around(app) as state:
            try:
                yield state
            finally:
                await registry.shutdown()

    return run


def _allow_many_connections() -> None:
    """Every long poll holds a connection, and the usual limit of 1024 descriptors was made for other times."""
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTOR_LIMIT if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTOR_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
