"""HTTP/1.1 to a server on this machine, with nothing that a wider network needs (decision 0062).

The rollout server is asked twice for each item of a run, so what a question costs is most of what an item costs the runner. No
proxies, redirects, cookies, encryption or compression; kept connections, a parser in C (llhttp), one write a request. Answers
may come whole or in chunks, in pieces of any size; their length is bounded. An answer whose request was given up never reaches
anybody else: its connection is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, cast
from urllib.parse import urlsplit

import httptools
import msgspec

LONGEST_ANSWER: Final = 256 << 20
_LONGEST_HEAD: Final = 64 << 10
CONNECT_SECONDS: Final = 5.0

IDLE_SECONDS: Final = 4.0
"""Below the 5 s after which uvicorn closes idle connections, so that no request meets a connection that is being closed."""

_INFORMATIONAL: Final = 200
_BODY_ENDS: Final = frozenset({b"content-length", b"transfer-encoding"})


class NoAnswer(Exception):
    """There is no whole answer: nobody listens, the connection broke, time ran out, or it is not HTTP. Says which."""


class StaleConnection(NoAnswer):
    """A kept connection was closed before a byte of the answer: the server may never have seen the request."""


class Answer(msgspec.Struct, frozen=True):
    """An answer. `retry_after` is the header of that name."""

    status: int
    body: bytes
    retry_after: str | None = None


def field_value(text: str) -> str:
    """`text`, if it may stand in a header. Raises ValueError: what breaks a line could pass for another request."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError("it is not a header value: only printable ASCII may be in one")
    return text


class LoopbackHttp:
    """A client of the server at `url` (`http://host:port`). Use on one event loop; `close` ends every connection.

    Connections that were idle for `idle` seconds are not used again; answers have at most `longest` bytes.
    """

    def __init__(self, url: str, *, idle: float = IDLE_SECONDS, longest: int = LONGEST_ANSWER) -> None:
        self.url = url
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._authority = parts.netloc
        self._idle_seconds = idle
        self._longest = longest
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()

    async def get(self, path: str, *, headers: str = "", within: float) -> Answer:
        """Ask for `path`; once more on a new connection if a kept one turns out to be closed. Raises NoAnswer.

        `headers` are whole lines, each with its CRLF. The answer has to be there `within` so many seconds.
        """
        request = self._head("GET", path) + headers.encode("ascii") + b"\r\n"
        try:
            return await self._ask(request, within)
        except StaleConnection:
            return await self._ask(request, within)

    async def post(self, path: str, body: bytes, *, within: float) -> Answer:
        """Send JSON to `path`. Raises NoAnswer, a StaleConnection where the caller may know that a second time does no harm."""
        entity = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._ask(self._head("POST", path) + entity.encode("ascii") + body, within)

    def close(self) -> None:
        """Close every connection; requests on their way find no answer."""
        for connection in tuple(self._open):
            connection.abort("the client was closed")

    def _head(self, method: str, path: str) -> bytes:
        return f"{method} {path} HTTP/1.1\r\nHost: {self._authority}\r\nAccept-Encoding: identity\r\n".encode("ascii")

    async def _ask(self, request: bytes, within: float) -> Answer:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        connection = self._kept(loop.time()) or await self._connect(min(CONNECT_SECONDS, within))
        timer = loop.call_at(deadline, connection.abort, f"no answer within {within:g} s")
        try:
            answer = await connection.ask(request)
        except asyncio.CancelledError:
            connection.abort("the request was given up")
            raise
        finally:
            timer.cancel()
        if connection.reusable:
            connection.idle_since = loop.time()
            self._idle.append(connection)
        return answer

    def _kept(self, now: float) -> Connection | None:
        # The one that was used last, so that those that are not needed grow old.
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < self._idle_seconds:
                return connection
            connection.abort("it was idle for too long")
        return None

    async def _connect(self, within: float) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._open, self._longest), self._host, self._port
                )
        except TimeoutError:
            raise NoAnswer(f"no connection to {self._authority} within {within:g} s") from None
        except OSError as error:
            raise NoAnswer(f"no connection to {self._authority}: {error.strerror or error}") from error
        return connection


class Connection(asyncio.Protocol):
    """One connection, with at most one request at a time. It is in `register` while it is open."""

    def __init__(self, register: set[Connection], longest: int = LONGEST_ANSWER) -> None:
        self.idle_since = 0.0
        self._longest = longest
        self._register = register
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer] | None = None
        self._asked_before = False
        self._answering = False
        self._unasked = False
        self._forget()

    def _forget(self) -> None:
        """Be ready for the next answer."""
        self._size = 0
        self._in_body = False
        self._until_end = True
        self._pieces: list[bytes] = []
        self._retry_after: str | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and self._waiting is None

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer. Raises NoAnswer."""
        if self._transport is None:
            raise StaleConnection("the server closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            self._asked_before = True

    def abort(self, reason: str) -> None:
        """End the connection at once."""
        self._fail(NoAnswer(reason))
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _fail(self, trouble: NoAnswer) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(trouble)

    # --- What the transport says -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._register.add(self)

    def data_received(self, data: bytes) -> None:
        """More of the answer."""
        if self._waiting is None:
            self.abort("the server spoke without being asked")
            return
        self._answering = True
        self._size += len(data)
        if self._size > (self._longest if self._in_body else _LONGEST_HEAD + len(data)):
            self.abort("the answer is too long")
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(f"the answer is not HTTP: {error}")
        if self._unasked:
            self.abort("the server said more than it was asked")

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed, by whomever."""
        self._register.discard(self)
        self._transport = None
        if self._waiting is None:
            return
        if error is None and self._in_body and self._until_end:
            self._complete()
        elif self._answering:
            self._fail(NoAnswer("the server closed the connection within its answer"))
        else:
            self._fail(
                (StaleConnection if self._asked_before else NoAnswer)("the server closed the connection without an answer")
            )

    # --- What the parser says ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins, or what would be one to nobody."""
        self._unasked = self._waiting is None

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name in _BODY_ENDS:
            self._until_end = False

    def on_headers_complete(self) -> None:
        """The body follows."""
        self._in_body = True

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The answer is whole, unless it only says that one is to come."""
        if self._parser.get_status_code() < _INFORMATIONAL:
            self._forget()
        elif self._waiting is not None:
            self._complete()

    def _complete(self) -> None:
        answer = Answer(self._parser.get_status_code(), b"".join(self._pieces), self._retry_after)
        waiting, self._waiting = self._waiting, None
        self._answering = False
        self._forget()
        if self._transport is not None and not self._parser.should_keep_alive():
            self._transport.close()
            self._transport = None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
