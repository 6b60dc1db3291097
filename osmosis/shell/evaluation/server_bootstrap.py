"""Runs a rollout's entrypoint inside the rollout's own environment (E20, E24; contract: rollout_protocol section 16).

`uv run` starts this file by its path, so it imports nothing of this project: the rollout may have another Python, and this SDK,
the public one, or none. It does four things before it hands over to the entrypoint, which then runs as if started by itself:

- `/health` answers carry the instance id that the runner chose and the version of the SDK, whatever serves them.
- The directory of this file leaves `sys.path`, so that its modules never shadow the rollout's.
- Where the runner says so, it imports the frameworks and then waits for leave to go on. The runner gets ready meanwhile, and
  nothing of the rollout has run if it finds that it must not (decision 0060).
- When the runner dies, so does the server. The runner holds the write end of a pipe; `uv run` passes the read end on, which no
  signal on the death of a parent could do, since the parent is uv.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import stat
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

INSTANCE_ID_ENV = "_OSMOSIS_ROLLOUT_INSTANCE_ID"
LIFELINE_ENV = "_OSMOSIS_ROLLOUT_LIFELINE_FD"
LEAVE_ENV = "_OSMOSIS_ROLLOUT_LEAVE_FD"
INSTANCE_ID_HEADER = b"x-osmosis-rollout-instance-id"
SDK_VERSION_HEADER = b"x-osmosis-rollout-sdk-version"

SHUTDOWN_GRACE_SEC = 150.0
"""How long an orphaned server may take to shut down: the SDK's own limits, 10 s and 120 s and 10 s, and a little more."""

AsgiSend = Callable[[Any], Awaitable[None]]


def main() -> None:
    """Run the entrypoint named by the one argument as `__main__`, in its own directory's name space."""
    instance_id = os.environ.get(INSTANCE_ID_ENV)
    if len(sys.argv) != 2 or not instance_id:
        sys.exit(f"usage: {INSTANCE_ID_ENV}=ID server_bootstrap.py ENTRYPOINT")
    entrypoint = os.path.abspath(sys.argv[1])
    _end_with_the_runner()
    _leave_the_path(entrypoint)
    _sign_health(instance_id)
    _await_leave()
    sys.argv = [entrypoint]
    runpy.run_path(entrypoint, run_name="__main__")


def _leave_the_path(entrypoint: str) -> None:
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != own]
    sys.path.insert(0, os.path.dirname(entrypoint))


def _sign_health(instance_id: str) -> None:
    """Add our headers to `/health` answers of every Starlette application, FastAPI included."""
    try:
        from starlette.applications import Starlette  # noqa: PLC0415 - only the rollout's environment has it
    except ImportError:
        return
    application: Any = Starlette
    serve = application.__call__
    headers: list[tuple[bytes, bytes]] = []

    async def signed(app: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/health":
            await serve(app, scope, receive, send)
            return
        if not headers:
            headers.extend(((INSTANCE_ID_HEADER, instance_id.encode()), (SDK_VERSION_HEADER, _sdk_version().encode())))
        await serve(app, scope, receive, _adding(headers, send))

    application.__call__ = signed


def _await_leave() -> None:
    """Get ready, and go on when the runner has written a byte; without one before it closes its end, there is nothing to do."""
    descriptor = os.environ.pop(LEAVE_ENV, "")
    if not descriptor.isdecimal():
        return
    leave = int(descriptor)
    try:
        os.set_inheritable(leave, False)
        _import_frameworks()
        if not os.read(leave, 1):
            sys.exit(0)
        os.close(leave)
    except OSError:
        sys.exit(1)


def _import_frameworks() -> None:
    """What practically every entrypoint imports. One that cannot be imported is the entrypoint's to complain about."""
    for name in ("asyncio", "uvicorn", "uvloop", "httptools", "osmosis_ai.rollout.server"):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - whatever an import does wrong, it does again where it is asked for
            continue


def _adding(headers: list[tuple[bytes, bytes]], send: AsgiSend) -> AsgiSend:
    names = {name for name, _ in headers}

    async def send_signed(message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [line for line in message.get("headers", ()) if line[0].lower() not in names]
            message = {**message, "headers": [*kept, *headers]}
        await send(message)

    return send_signed


def _sdk_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow, and needed only once

    try:
        return version("osmosis-ai")
    except PackageNotFoundError:
        return "unknown"


def _end_with_the_runner() -> None:
    """Watch the runner's pipe, if there is one. The entrypoint and its children do not inherit it."""
    descriptor = os.environ.pop(LIFELINE_ENV, "")
    if not descriptor.isdecimal():
        return
    lifeline = int(descriptor)
    try:
        if not stat.S_ISFIFO(os.fstat(lifeline).st_mode):
            return
        os.set_inheritable(lifeline, False)
    except OSError:
        return
    threading.Thread(target=_watch, args=(lifeline,), name="osmosis-lifeline", daemon=True).start()


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_GRACE_SEC)
    os._exit(1)


if __name__ == "__main__":
    main()
