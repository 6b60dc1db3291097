"""What a rollout server's application is made of, whichever application it is (ruling 23)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fastapi import FastAPI

    from osmosis.shell.rollout.endpoints import RolloutEndpoints

Lifespan = Callable[["FastAPI"], AbstractAsyncContextManager[Any]]


class ServerParts(NamedTuple):
    """The routes, what is entered before and left after serving, and the key that every request needs (None: none)."""

    endpoints: RolloutEndpoints
    lifespan: Lifespan
    api_key: str | None
