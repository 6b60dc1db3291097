"""The rollout server as a child process: environment, start, health, exit and stop (E20, E24; `rollout_protocol.md` 16).

It runs through `uv` in the rollout's own environment, in a process group of its own, with its output in `logs.txt`. Ownership
is proven both ways: the server's health report must carry the random instance id it was given, and `server.json` records pid
and start time, so that a later start can stop what a killed supervisor left behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.protocol import (
    ARTIFACT_ROOT_ENV,
    INSTANCE_ID_ENV,
    INSTANCE_ID_HEADER,
    LIFELINE_ENV,
    PORT_ENV,
    SDK_VERSION_HEADER,
    Health,
    RemoteProtocolError,
    decode_health,
)
from osmosis.shell.evaluation import server_bootstrap
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.orphans import SERVER_RECORD
from osmosis.shell.evaluation.process_identity import ProcessRecord, group_alive, signal_group, start_token
from osmosis.shell.evaluation.rollout_environment import activated, interpreter, is_synced, leave_stamp
from osmosis.shell.evaluation.run_log import ChildOutput, RunLog

if TYPE_CHECKING:
    import aiohttp

HEALTH_TIMEOUT = 90.0
HEALTH_INTERVAL = 0.05
HEALTH_REQUEST_TIMEOUT = 5.0
IMPORT_TIMEOUT = 90.0
_PORT_TRIES = 2
_LAST_LINES_TIMEOUT = 1.0
_CHUNK = 1 << 16
_UNAUTHORISED = frozenset({401, 403})
_SIGNAL_NUMBERS = frozenset(signal.valid_signals())


class Launch(msgspec.Struct, frozen=True):
    """How to start a rollout server. `environment` is complete but for the variables that are ours to set; `health_timeout` in
    seconds."""

    project: Path
    entrypoint: str
    environment: dict[str, str]
    run_directory: Path
    trials: Path
    instance_id: str
    created_at: str
    port: int | None = None
    health_timeout: float = HEALTH_TIMEOUT


def find_uv() -> str:
    """The `uv` beside this interpreter, else the one on the PATH. Raises OsmosisError when there is none."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise OsmosisError("uv was not found.", hint='Install it with: pip install "osmosis-ai[eval]"')
    return found


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would make `uv` use our virtual environment for the rollout."""
    return {name: value for name, value in environment.items() if name != "VIRTUAL_ENV"}


async def sync_environment(project: Path, environment: Mapping[str, str], log: RunLog) -> None:
    """`uv sync` the rollout's environment, unless nothing changed since the last time.

    Raises OsmosisError that quotes the last lines of uv.
    """
    if is_synced(project, environment, find_uv()):
        log.write("INFO", "deps", "nothing changed since the last uv sync")
        return
    code, output = await _run(["sync", "--project", str(project)], project, environment, log.child("deps"))
    if code != 0:
        raise OsmosisError(
            f"uv sync failed in {project} (exit code {code}).",
            problems=_quoted(output),
            hint="Mend the rollout's pyproject.toml, or run the same command there by hand: uv sync",
        )
    leave_stamp(project, environment, find_uv())


_IMPORT = (
    "import runpy, sys; sys.path[0] = sys.argv[1]; sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='rollout')"
)


async def import_entrypoint(
    project: Path, entrypoint: str, environment: Mapping[str, str], log: RunLog, timeout_sec: float = IMPORT_TIMEOUT
) -> None:
    """Import the entrypoint in the rollout's environment, without serving. Raises OsmosisError that quotes its last lines."""
    path = project / entrypoint
    arguments = ["run", "--no-sync", "--project", str(project), "python", "-c", _IMPORT, str(path.parent), str(path)]
    try:
        async with asyncio.timeout(timeout_sec):
            code, output = await _run(arguments, project, environment, log.child("import"))
    except TimeoutError:
        raise OsmosisError(
            f"Importing {entrypoint} did not end within {timeout_sec:.0f} s.",
            hint='Serve below `if __name__ == "__main__":`, so that the file can be imported.',
        ) from None
    if code != 0:
        raise OsmosisError(
            f"{entrypoint} cannot be imported (exit code {code}).",
            problems=_quoted(output),
            hint=f"Correct {entrypoint}, or add what it imports to the dependencies in {project.name}/pyproject.toml.",
        )


async def _run(
    arguments: list[str], project: Path, environment: Mapping[str, str], output: ChildOutput
) -> tuple[int, ChildOutput]:
    """Run `uv` to its end; whatever ends this early ends its whole group too."""
    process = await _start(arguments, project, environment)
    try:
        await _tee(process, output)
        return await process.wait(), output
    except BaseException:
        signal_group(process.pid, signal.SIGKILL)
        await process.wait()
        raise


async def _start(
    arguments: list[str],
    project: Path,
    environment: Mapping[str, str],
    inherited: tuple[int, ...] = (),
    program: str | None = None,
) -> asyncio.subprocess.Process:
    """Start `uv` (or `program`) in a session of its own, with its output in one pipe.

    Raises OsmosisError when the system refuses.
    """
    try:
        return await asyncio.create_subprocess_exec(
            program or find_uv(),
            *arguments,
            cwd=project,
            env=child_environment(environment) if program is None else environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            pass_fds=inherited,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise OsmosisError(
            f"{Path(program or 'uv').name} {arguments[0]} could not be started in {project}.",
            problems=[Problem("", reason)],
            hint="Free memory, processes or file descriptors, and look at the size of what [env] and the environment hold.",
        ) from None


async def _tee(process: asyncio.subprocess.Process, output: ChildOutput) -> ChildOutput:
    """Read to the end whatever happens: a child whose output nobody reads would stand still. A log that cannot be written is
    reported by whoever writes to it next; the last lines are kept all the same."""
    assert process.stdout is not None
    while chunk := await process.stdout.read(_CHUNK):
        with suppress(OSError):
            output.feed(chunk)
    with suppress(OSError):
        output.close()
    return output


def _quoted(output: ChildOutput) -> list[Problem]:
    return [Problem("", line) for line in output.last_lines]


class Standby:
    """A process that will be a rollout server: its frameworks are imported, and nothing of the rollout has run.

    It goes on when it gets `leave`, and ends when it is abandoned, or this process dies.
    """

    def __init__(self, launch: Launch, process: asyncio.subprocess.Process, port: int, lifeline: int, permission: int) -> None:
        self.launch = launch
        self.process = process
        self.port = port
        self.lifeline = lifeline
        self._permission = permission

    @classmethod
    async def start(cls, launch: Launch) -> Standby:
        """Start it, in the environment as it is. Raises OsmosisError when the system refuses."""
        port = launch.port or _free_port()
        lifeline, ours = os.pipe()
        leave, permission = os.pipe()
        environment = launch.environment | {
            PORT_ENV: str(port),
            ARTIFACT_ROOT_ENV: str(launch.trials),
            INSTANCE_ID_ENV: launch.instance_id,
            LIFELINE_ENV: str(lifeline),
            server_bootstrap.LEAVE_ENV: str(leave),
            "PYTHONUNBUFFERED": "1",
        }
        words = [str(Path(server_bootstrap.__file__)), str(launch.project / launch.entrypoint)]
        python = interpreter(launch.project, launch.environment)
        try:
            if python is None:
                uv = ["run", "--no-sync", "--project", str(launch.project), *words]
                process = await _start(uv, launch.project, environment, (lifeline, leave))
            else:
                # What `uv run` does, without the time that it takes.
                active = activated(environment, python)
                process = await _start(words, launch.project, active, (lifeline, leave), str(python))
        except BaseException:
            os.close(ours)
            os.close(permission)
            raise
        finally:
            os.close(lifeline)
            os.close(leave)
        return cls(launch, process, port, ours, permission)

    def leave(self) -> bool:
        """Let it go on. False when it has ended, and nothing is left of it; it can be told once."""
        if self._permission < 0:
            return False
        try:
            os.write(self._permission, b"g")
        except OSError:
            self._close(lifeline=True)
            return False
        self._close(lifeline=False)
        return True

    async def abandon(self) -> None:
        """End it, unless it went on: then it is somebody else's."""
        if self._permission >= 0:
            self._close(lifeline=True)
            signal_group(self.process.pid, signal.SIGKILL)
            await self.process.wait()

    def _close(self, *, lifeline: bool) -> None:
        os.close(self._permission)
        self._permission = -1
        if lifeline:
            os.close(self.lifeline)


class RolloutProcess:
    """A started rollout server. `start` returns once it is healthy."""

    def __init__(
        self, launch: Launch, process: asyncio.subprocess.Process, port: int, lifeline: int, log: RunLog, files: FileLayer
    ) -> None:
        self.port = port
        self.health = Health()
        self.sdk_version: str | None = None
        self._launch = launch
        self._process = process
        self._files = files
        self._lifeline = lifeline
        self._output = log.child("rollout-server")
        self._reader = asyncio.create_task(_tee(process, self._output))
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
        """Start the server and wait until it is healthy. A port that somebody else took first is tried once more.

        A `standby` of the same launch goes on instead of a new process, if it is still there. Raises OsmosisError that quotes
        the server's last lines; nothing is left running.
        """
        if launch.port is not None:
            _require_free(launch.port)
        for attempt in range(_PORT_TRIES):
            if attempt or standby is None or not standby.leave():
                standby = await Standby.start(launch)
                standby.leave()
            server = await cls._adopt(standby, log, files)
            try:
                await server._become_healthy()
            except _PortTaken as taken:
                await server.stop(0.0)
                if launch.port or attempt == _PORT_TRIES - 1:
                    raise _taken(taken.port) from None
            except BaseException:
                await server.stop(0.0)
                raise
            else:
                return server
        raise AssertionError("unreachable")

    @classmethod
    async def _adopt(cls, standby: Standby, log: RunLog, files: FileLayer) -> RolloutProcess:
        launch, process, port = standby.launch, standby.process, standby.port
        server = cls(launch, process, port, standby.lifeline, log, files)
        record = ProcessRecord(
            process.pid, process.pid, start_token(process.pid) or "", launch.instance_id, port, launch.created_at
        )
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
            while not await self._healthy(session):
                if self._exit.done():
                    raise OsmosisError(
                        f"The rollout server ended before it was ready ({_exit_text(self._exit.result())}).",
                        problems=_quoted(self._output),
                        hint=f"Look at {self._launch.project / self._launch.entrypoint} and its dependencies.",
                    )
                if time.monotonic() > deadline:
                    raise OsmosisError(
                        f"The rollout server did not become healthy within {self._launch.health_timeout:.0f} s.",
                        problems=[Problem(f"{self.url}/health", self._trouble), *_quoted(self._output)],
                        hint=f"It must serve /health on the port in ${PORT_ENV}.",
                    )
                await asyncio.wait({self._exit}, timeout=HEALTH_INTERVAL)

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
        if headers.get(INSTANCE_ID_HEADER, health.instance_id) != self._launch.instance_id:
            raise _PortTaken(self.port)
        self.health = health
        self.sdk_version = headers.get(SDK_VERSION_HEADER)
        return True

    def on_exit(self, callback: Callable[[str], None]) -> None:
        """Call back with a sentence that quotes the last lines when the server exits without having been asked to."""

        def report(_: asyncio.Task[int]) -> None:
            if not self._stopping:
                lines = "; ".join(self._output.last_lines[-3:])
                callback(f"the rollout server exited ({_exit_text(self._exit.result())})" + (f": {lines}" if lines else ""))

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
                signal_group(self._process.pid, signal.SIGTERM)
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
        if group_alive(self._process.pid):
            signal_group(self._process.pid, signal.SIGKILL)


class _PortTaken(Exception):
    """Somebody else answers on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.port = port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        # As servers bind: a connection that is still closing does not keep a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise _taken(port) from None


def _taken(port: int) -> OsmosisError:
    return OsmosisError(
        f"Another process is already listening on port {port}.",
        code=ErrorCode.CONFLICT,
        problems=[Problem(f"127.0.0.1:{port}", "the port is taken")],
        hint="Stop it, or name a free port with --rollout-port.",
    )


def _exit_text(code: int) -> str:
    """`exit code 3`, `killed by SIGKILL`. `uv run` reports a signal of its child as shells do: 128 and the number."""
    number = -code if code < 0 else code - 128
    if number in _SIGNAL_NUMBERS:
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {code}"
