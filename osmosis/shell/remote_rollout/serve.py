"""Serving an agent loop with uvicorn (contract `legacy_api.md` section 8). Registers with no platform."""

from __future__ import annotations

import secrets
import socket
import sys
import time
from pathlib import Path

import uvicorn

from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop
from osmosis.shell.remote_rollout.app import create_app
from osmosis.shell.remote_rollout.loop_check import ValidationResult, validate_agent_loop
from osmosis.shell.remote_rollout.settings import RolloutSettings

DEFAULT_HOST = "0.0.0.0"
"""Trainers are on other machines, and a key is required of them."""

DEFAULT_PORT = 9000
LOCAL_HOST = "127.0.0.1"


class ServeError(Exception):
    """The server cannot begin."""


def generate_api_key() -> str:
    """A new key for a server: `osm_rollout_` and 43 characters."""
    return f"osm_rollout_{secrets.token_urlsafe(32)}"


def validate_and_report(loop: RolloutAgentLoop) -> ValidationResult:
    """Validate a loop. Raises AgentLoopValidationError with everything that is wrong."""
    result = validate_agent_loop(loop)
    result.raise_if_invalid()
    return result


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 takes any free one. Raises ServeError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1024)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ServeError(f"Cannot listen on {host}:{port}: {reason}") from None
    return listener


def debug_directory(root: str | None) -> str | None:
    """A directory below `root` for this server's events, named after the time. Raises ServeError."""
    if root is None:
        return None
    path = Path(root) / str(int(time.time()))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServeError(f"Cannot write events to {path}: {error.strerror or error}") from None
    return str(path)


def serve_agent_loop(
    loop: RolloutAgentLoop,
    *,
    host: str | None = None,
    port: int = DEFAULT_PORT,
    validate: bool = True,
    log_level: str = "info",
    settings: RolloutSettings | None = None,
    api_key: str | None = None,
    local_debug: bool = False,
    debug_dir: str | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve `loop` until the process is asked to stop.

    A key is required of trainers: `api_key`, or a new one that is written to standard error. With `local_debug` none is, and
    the server listens on this machine alone unless `host` says otherwise. A `listener` that is bound already wins over `host`
    and `port`. Raises ServeError, and AgentLoopValidationError for a loop that cannot be served.
    """
    if local_debug and api_key is not None:
        raise ServeError("local_debug turns authentication off; it excludes api_key")
    if validate:
        validate_and_report(loop)
    key = None if local_debug else api_key or generate_api_key()
    sockets = [listener or bind(host or (LOCAL_HOST if local_debug else DEFAULT_HOST), port)]
    try:
        app = create_app(loop, settings=settings, api_key=key, debug_dir=debug_directory(debug_dir))
        if key is not None and api_key is None:
            sys.stderr.write(f"API key of this server: {key}\n")
            sys.stderr.flush()
        uvicorn.Server(uvicorn.Config(app, log_level=log_level)).run(sockets=sockets)
    finally:
        for one in sockets:
            one.close()
