"""The rollout server as a child process: start, health, exit and stop (E20, E24; `rollout_protocol.md` 16).

It runs in the rollout's own environment, with its output in `logs.txt`. `server.json` records its pid and start time, so that a
later start can stop what a killed supervisor left behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.log_line import telling
from osmosis.pure.protocol import (
    INSTANCE_ID_HEADER,
    PORT_ENV,
    SDK_VERSION_HEADER,
    Health,
    RemoteProtocolError,
    decode_health,
)
from osmosis.shell.evaluation.child_process import exit_text, last_words
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.orphans import SERVER_RECORD
from osmosis.shell.evaluation.process_identity import ProcessRecord, start_token
from osmosis.shell.evaluation.run_log import RunLog
from osmosis.shell.evaluation.standby import Launch, Standby

if TYPE_CHECKING:
    import aiohttp

LISTEN_INTERVAL = 0.005
"""Seconds between looks whether anybody listens yet, which cost next to nothing."""
HEALTH_INTERVAL = 0.05
HEALTH_REQUEST_TIMEOUT = 5.0
_PORT_TRIES = 2
_LAST_LINES_TIMEOUT = 1.0
_LINES_QUOTED = 3
"""Last lines of a server that exited, in the reason why a run stopped."""
_UNAUTHORISED = frozenset({401, 403})


class RolloutProcess:
    """A started rollout server. `start` returns once it is healthy."""

    def __init__(self, launch: Launch, standby: Standby, log: RunLog, files: FileLayer) -> None:
        self.port = standby.port
        self.health = Health()
        self.sdk_version: str | None = None
        self._launch = launch
        self._process = standby.process
        self._instance_id = standby.instance_id
        self._files = files
        self._lifeline = standby.lifeline
        self._output = log.child("rollout-server")
        self._reader = asyncio.create_task(self._process.tee(self._output))
        self._exit = asyncio.create_task(self._wait())
        self._trouble = "it does not answer"
        self._kill_at: float | None = None
        self._stopping = False

    @property
    def trials(self) -> Path:
        """Where its rollouts keep their files."""
        return self._launch.trials

    @property
    def url(self) -> str:
        """Where the server answers, without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    @classmethod
    async def start(cls, launch: Launch, log: RunLog, files: FileLayer, standby: Standby | None = None) -> RolloutProcess:
        """Start the server and wait until it is healthy. Where somebody else took its port first, another one is tried.

        The port is chosen before the server is there to bind it, and the system may give it away meanwhile.

        A `standby` with the same start goes on instead of a new process, if it is still there. Raises OsmosisError that quotes
        the server's last lines; nothing is left running.
        """
        if launch.start.port is not None and not _is_free(launch.start.port):
            raise _taken(launch.start.port)
        for attempt in range(_PORT_TRIES):
            if attempt or standby is None or not standby.leave(launch.trials):
                standby = Standby.start(launch.start)
                standby.leave(launch.trials)
            server = await cls._adopt(launch, standby, log, files)
            try:
                await server._become_healthy()
            except _PortTaken as taken:
                await server.stop(0.0)
                if launch.start.port or attempt == _PORT_TRIES - 1:
                    raise _taken(taken.port, taken.words) from None
            except BaseException:
                await server.stop(0.0)
                raise
            else:
                return server
        raise AssertionError("unreachable")

    @classmethod
    async def _adopt(cls, launch: Launch, standby: Standby, log: RunLog, files: FileLayer) -> RolloutProcess:
        pid = standby.process.pid
        server = cls(launch, standby, log, files)
        record = ProcessRecord(pid, pid, start_token(pid) or "", standby.instance_id, standby.port, launch.created_at)
        try:
            files.replace(launch.run_directory / SERVER_RECORD, msgspec.json.encode(record), step="server_record")
        except BaseException:
            await server.stop(0.0)
            raise
        return server

    async def _wait(self) -> int:
        code = await self._process.wait()
        # A process that the server left behind may hold its output open; the last lines are not worth waiting for that.
        await asyncio.wait({self._reader}, timeout=_LAST_LINES_TIMEOUT)
        return code

    async def _become_healthy(self) -> None:
        import aiohttp  # noqa: PLC0415 - takes as long to import as the server takes to start, so that goes first

        deadline = time.monotonic() + self._launch.health_timeout
        timeout = aiohttp.ClientTimeout(total=HEALTH_REQUEST_TIMEOUT)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while not ((listening := await self._listening()) and await self._healthy(session)):
                if self._exit.done():
                    if not _is_free(self.port):
                        raise _PortTaken(self.port, last_words(self._output))
                    raise OsmosisError(
                        f"The rollout server ended before it was ready ({exit_text(self._exit.result())}).",
                        problems=last_words(self._output),
                        hint=f"Look at {self._launch.start.project / self._launch.start.entrypoint} and its dependencies.",
                    )
                if time.monotonic() > deadline:
                    raise OsmosisError(
                        f"The rollout server did not become healthy within {self._launch.health_timeout:.0f} s.",
                        problems=[Problem(f"{self.url}/health", self._trouble), *last_words(self._output)],
                        hint=f"It must serve /health on the port in ${PORT_ENV}.",
                    )
                await asyncio.wait({self._exit}, timeout=HEALTH_INTERVAL if listening else LISTEN_INTERVAL)

    async def _listening(self) -> bool:
        """Whether anybody may be listening on the port. Asking costs a fraction of a request."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(HEALTH_REQUEST_TIMEOUT):
                with socket.socket() as probe:
                    probe.setblocking(False)
                    await loop.sock_connect(probe, ("127.0.0.1", self.port))
        except ConnectionRefusedError:
            return False
        except (OSError, TimeoutError):
            pass  # a request will tell
        return True

    async def _healthy(self, session: aiohttp.ClientSession) -> bool:
        import aiohttp  # noqa: PLC0415

        try:
            async with session.get(f"{self.url}/health") as response:
                if response.status in _UNAUTHORISED:
                    raise OsmosisError(
                        f"The rollout server asks for credentials (status {response.status}), and a local run has none.",
                        hint="Leave api_key out of create_rollout_server for local runs.",
                    )
                if response.status >= 400:
                    self._trouble = f"it answers with status {response.status}"
                    return False
                health = decode_health(await response.read())
                headers = response.headers
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
        except RemoteProtocolError as error:
            self._trouble = str(error)
            return False
        if headers.get(INSTANCE_ID_HEADER, health.instance_id) != self._instance_id:
            raise _PortTaken(self.port)
        self.health = health
        self.sdk_version = headers.get(SDK_VERSION_HEADER)
        return True

    def on_exit(self, callback: Callable[[str], None]) -> None:
        """Call back with a line that says how, and the last lines that may tell why, when the server exits unasked."""

        def report(_: asyncio.Task[int]) -> None:
            if not self._stopping:
                lines = telling(self._output.last_lines, _LINES_QUOTED)
                callback("\n".join([f"the rollout server exited ({exit_text(self._exit.result())})", *lines]))

        self._exit.add_done_callback(report)

    async def exited_within(self, seconds: float) -> bool:
        """Whether the server has exited, waiting up to `seconds` to see it."""
        await asyncio.wait({self._exit}, timeout=seconds)
        return self._exit.done()

    async def stop(self, grace: float) -> None:
        """SIGTERM to the whole group, SIGKILL after `grace` seconds. Called again, it can only shorten the wait."""
        self._stopping = True
        kill_at = time.monotonic() + grace
        if self._kill_at is None or kill_at < self._kill_at:
            self._kill_at = kill_at
            if not self._exit.done():
                self._process.signal(signal.SIGTERM)
        while not self._exit.done() and (left := self._kill_at - time.monotonic()) > 0:
            await asyncio.wait({self._exit}, timeout=min(left, 0.1))
        self.kill()
        await self._exit
        self._close_lifeline()
        (self._launch.run_directory / SERVER_RECORD).unlink(missing_ok=True)

    def _close_lifeline(self) -> None:
        """Until this is closed, which the end of this process does too, the server knows that somebody is there."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def kill(self) -> None:
        """SIGKILL to what is left of the group, now."""
        self._stopping = True
        self._process.signal(signal.SIGKILL)


class _PortTaken(Exception):
    """Somebody else has the port."""

    def __init__(self, port: int, words: Iterable[Problem] = ()) -> None:
        super().__init__(port)
        self.port = port
        self.words = tuple(words)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers bind: a connection that is still closing does not keep a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _taken(port: int, words: Iterable[Problem] = ()) -> OsmosisError:
    return OsmosisError(
        f"Another process has port {port}.",
        code=ErrorCode.CONFLICT,
        problems=[Problem(f"127.0.0.1:{port}", "the port is taken"), *words],
        hint="Stop it, or name a free port with --rollout-port.",
    )
