"""An HTTP server on loopback in threads of its own, made of the standard library alone.

Synchronous and asynchronous code under test can both talk to it, and a test needs no event loop to wait for it.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

LONGEST_BODY = 64 * 1024 * 1024


class LoopbackServer(ABC):
    """A context manager: it serves at `url` (without trailing slash) while the context lasts."""

    def __init__(self) -> None:
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def respond(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        """(status, JSON value) for one request; called in a thread of that request. `body` is None without JSON."""

    @property
    def url(self) -> str:
        """Where it serves. Raises RuntimeError outside the context."""
        if self._server is None:
            raise RuntimeError("the server is not running; use it as a context manager")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def log_message(self, *_: object) -> None:
                """Tests want no access log."""

            def _answer(self) -> None:
                length = min(int(self.headers.get("Content-Length") or 0), LONGEST_BODY)
                raw = self.rfile.read(length)
                try:
                    body = json.loads(raw) if raw else None
                except ValueError:
                    body = None
                status, value = outer.respond(self.command, self.path, dict(self.headers.items()), body)
                content = json.dumps(value).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the client did not wait

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None
