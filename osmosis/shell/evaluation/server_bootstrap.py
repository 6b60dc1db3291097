"""Runs a rollout's entrypoint inside the rollout's own environment (E20, E24; contract: rollout_protocol section 16).

`uv run` starts this file by its path, so it imports nothing of this project: the rollout may have another Python, and this SDK,
the public one, or none. It does four things before it hands over to the entrypoint, which then runs as if started by itself:

- `/health` answers carry the instance id that the runner chose and the version of the SDK, whatever serves them.
- The directory of this file leaves `sys.path`, so that its modules never shadow the rollout's.
- Where the runner says so, it imports what the entrypoint will import of installed packages, and then waits for leave to go on.
  The runner gets ready meanwhile, and nothing of the rollout has run if it finds that it must not (decisions 0060 and 0061).
- When the runner dies, so does the server. The runner holds the write end of a pipe; `uv run` passes the read end on, which no
  signal on the death of a parent could do, since the parent is uv.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import os
import runpy
import signal
import stat
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

INSTANCE_ID_ENV = "_OSMOSIS_ROLLOUT_INSTANCE_ID"
LIFELINE_ENV = "_OSMOSIS_ROLLOUT_LIFELINE_FD"
LEAVE_ENV = "_OSMOSIS_ROLLOUT_LEAVE_FD"
ARTIFACT_ROOT_ENV = "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT"
INSTANCE_ID_HEADER = b"x-osmosis-rollout-instance-id"
SDK_VERSION_HEADER = b"x-osmosis-rollout-sdk-version"

SHUTDOWN_GRACE_SEC = 150.0
"""How long an orphaned server may take to shut down: the SDK's own limits, 10 s and 120 s and 10 s, and a little more."""

SIGNED = {"starlette.applications": "Starlette", "osmosis.shell.rollout.light_app": "LightApp"}
"""The modules and their classes whose instances answer `/health`: any Starlette application, FastAPI included, and ours."""

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
    sys.argv = [entrypoint]
    _await_leave(entrypoint)
    runpy.run_path(entrypoint, run_name="__main__")


def _leave_the_path(entrypoint: str) -> None:
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != own]
    sys.path.insert(0, os.path.dirname(entrypoint))


def _sign_health(instance_id: str) -> None:
    """Add our headers to `/health` answers of every application in `SIGNED`, once it is imported."""
    signing = _Signing(instance_id)
    sys.meta_path.insert(0, signing)
    for name in SIGNED.keys() & sys.modules.keys():
        signing.sign(sys.modules[name])


class _Signing:
    """A finder that lets the others find, and changes what they found once it has run. Importing it early would take time."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id
        self._headers: list[tuple[bytes, bytes]] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the other finders say; a module of `SIGNED` is signed when it has been executed."""
        if name not in SIGNED:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec: Any = next((spec for spec in found if spec is not None), None)
        if spec is not None:
            execute = spec.loader.exec_module

            def execute_and_sign(module: Any) -> None:
                execute(module)
                self.sign(module)

            spec.loader.exec_module = execute_and_sign
        return spec

    def sign(self, module: Any) -> None:
        """Have the module's application sign."""
        application = getattr(module, SIGNED[module.__name__])
        serve = application.__call__

        async def signed(app: Any, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/health":
                send = _adding(self._signature(), send)
            await serve(app, scope, receive, send)

        application.__call__ = signed

    def _signature(self) -> list[tuple[bytes, bytes]]:
        if not self._headers:
            version = _sdk_version().encode()
            self._headers += [(INSTANCE_ID_HEADER, self._instance_id.encode()), (SDK_VERSION_HEADER, version)]
        return self._headers


def _await_leave(entrypoint: str) -> None:
    """Get ready, and go on when the runner has said where rollouts keep their files; if it ends without a word, so do we."""
    descriptor = os.environ.pop(LEAVE_ENV, "")
    if not descriptor.isdecimal():
        return
    leave = int(descriptor)
    try:
        os.set_inheritable(leave, False)
        _import_packages(entrypoint)
        with open(leave, "rb") as words:
            artifact_root = words.read()
    except OSError:
        sys.exit(1)
    if not artifact_root:
        sys.exit(0)
    os.environ[ARTIFACT_ROOT_ENV] = os.fsdecode(artifact_root)


def _import_packages(entrypoint: str) -> None:
    """What the entrypoint imports first, and what serving will import. What cannot be imported is its to complain about."""
    # What is imported stays, so there is no garbage to look for, neither now nor later.
    gc.disable()
    for step in (*_imports_at_the_head(entrypoint), *_SERVING):
        try:
            exec(step, {"__name__": "__main__"})  # noqa: S102 - import statements, as the entrypoint will execute them
        except (Exception, SystemExit):  # noqa: BLE001 - whatever an import does wrong, it does again where it is asked for
            continue
    gc.freeze()
    gc.enable()


_SERVING = (
    "import asyncio",
    "import osmosis_ai.rollout.server.app",
    "import uvicorn.lifespan.on",
    "import uvloop",
    "import uvicorn.protocols.http.httptools_impl",
)


def _imports_at_the_head(entrypoint: str) -> Iterator[Any]:
    """The import statements that the entrypoint begins with, as far as they name installed packages.

    The first other statement ends them: it may decide what an import finds or does. So does the first module that lies in the
    rollout's own directory, which is the rollout.
    """
    try:
        with open(entrypoint, "rb") as file:
            statements = ast.parse(file.read(), entrypoint).body
    except (OSError, ValueError, SyntaxError):
        return
    for number, statement in enumerate(statements):
        if number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        match statement:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                return
        if not all(_installed(module.partition(".")[0]) for module in modules):
            return
        yield compile(ast.Module([statement], []), entrypoint, "exec")


def _installed(name: str) -> bool:
    """Whether a top-level module is part of Python, or lies elsewhere than in the rollout's own directory."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    places = spec.submodule_search_locations or ([spec.origin] if spec.has_location and spec.origin else [])
    return not any(_below(os.getcwd(), place) and not _below(sys.prefix, place) for place in places)


def _below(directory: str, path: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep)


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
