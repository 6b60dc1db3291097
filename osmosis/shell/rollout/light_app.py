"""The rollout server as an application that becomes a FastAPI application when somebody wants one (ruling 23, decision 0061).

Importing FastAPI takes a third of what a rollout server needs before its first rollout, and the protocol's four routes can do
without. So they are served by themselves. Whoever asks this object for anything else (an attribute, an assignment, another
path, what class it is where such classes are known) finds the FastAPI application: the same object, of that class from then on.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import traceback
from typing import TYPE_CHECKING, Any, cast

from osmosis.shell.rollout.server_parts import ServerParts

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

_FRAMEWORK_APP = "osmosis.shell.rollout.framework_app"
_FRAMEWORK = "starlette.applications"
_CLASS_OF_OBJECT = vars(object)["__class__"]


class LightApp:
    """An ASGI application of the protocol's routes. Its one attribute of its own is `parts`, until it has changed its class."""

    def __init__(self, parts: ServerParts) -> None:
        vars(self)["parts"] = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        parts: ServerParts = vars(self)["parts"]
        if scope["type"] == "lifespan":
            await _live(parts.lifespan(cast("FastAPI", self)), receive, send)
            return
        direct = scope["type"] == "http" and not scope.get("root_path")
        if direct and (endpoint := parts.endpoints.find(scope)) is not None:
            await endpoint(scope, receive, send)
            return
        # Rollouts are at work on this loop meanwhile.
        await asyncio.to_thread(importlib.import_module, _FRAMEWORK_APP)
        become_framework_app(self)
        await self(scope, receive, send)

    @property
    def __class__(self) -> Any:
        """As long as nobody has a class of the framework to compare with, the plain truth will do.

        The class does not change here: `isinstance` looks at it before and after, and would take a change for a no.
        """
        return _framework_app() if _FRAMEWORK in sys.modules else type(self)

    @__class__.setter
    def __class__(self, value: type) -> None:
        become_framework_app(self)
        self.__class__ = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Questions that Python asks of any object; the framework answers none of them.
            raise AttributeError(name)
        become_framework_app(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        become_framework_app(self)
        setattr(self, name, value)

    def __delattr__(self, name: str) -> None:
        become_framework_app(self)
        delattr(self, name)

    def __dir__(self) -> list[str]:
        become_framework_app(self)
        return dir(self)


def become_framework_app(app: object) -> None:
    """Make `app` the FastAPI application of the same parts, unless it is one already."""
    if type(app) is not LightApp:
        return
    framework_app = _framework_app()
    parts = vars(app).pop("parts")
    _CLASS_OF_OBJECT.__set__(app, framework_app)
    framework_app.__init__(app, parts)


def _framework_app() -> Any:
    return importlib.import_module(_FRAMEWORK_APP).FrameworkApp


async def _live(lifespan: Any, receive: Receive, send: Send) -> None:
    """The ASGI lifespan protocol around `lifespan`."""
    phase = "startup"
    await receive()
    try:
        async with lifespan:
            await send({"type": "lifespan.startup.complete"})
            phase = "shutdown"
            await receive()
    except BaseException:
        await send({"type": f"lifespan.{phase}.failed", "message": traceback.format_exc()})
        raise
    await send({"type": "lifespan.shutdown.complete"})
