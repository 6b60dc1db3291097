"""A running bubblewrap sandbox: started, entered, stopped (issue 5, BubblewrapEnvironment; E24).

Nothing of it outlives the server: bubblewrap dies with its parent, the kernel kills a process namespace with its first process,
and an overlay in memory goes with the last of them. What the sandbox asks for is planned by `pure.sandbox_plan`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import signal
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from osmosis.pure.sandbox_plan import (
    CAPABILITIES,
    PATH,
    Entry,
    LaunchPlan,
    Limits,
    SandboxSpec,
    launch_plan,
    processors,
    resource_limits,
)
from osmosis.shell.rollout.harbor import sandbox_enter, sandbox_launcher
from osmosis.shell.rollout.harbor.sandbox_cgroup import ControlGroups
from osmosis.shell.rollout.harbor.sandbox_files import SandboxFiles
from osmosis.shell.rollout.harbor.sandbox_relay import Relay

OnOutput = Callable[[str, str], Awaitable[None]]

MANY_USERS = 65_536
OUTPUT_LIMIT = 16 << 20
"""Bytes of each stream of one command that are kept; the rest is read and dropped."""

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LAST_WORDS_SECONDS = 1.0
_REMOVE_TRIES = 40
_CHUNK = 1 << 16
_RESOURCES = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}


class SandboxError(RuntimeError):
    """A sandbox that could not be made or entered; the message says what the system refused."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class CommandTimeoutError(RuntimeError):
    """A command took longer than it may; it and its process group were killed."""


class Sandbox:
    """One sandbox. `start` returns once commands can be run in it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        pid: int,
        *,
        limits: Limits,
        groups: ControlGroups | None,
        relay: Relay | None,
        many_users: bool,
    ) -> None:
        self.files = SandboxFiles(os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        self.limited_as_a_whole = groups is not None
        self._process = process
        self._pid = pid
        self._first = os.pidfd_open(pid)
        self._groups = groups
        self._relay = relay
        self._many_users = many_users
        self._cpus = processors(sorted(os.sched_getaffinity(0)), limits.cpus, pid)
        self._rlimits = resource_limits(_RESOURCES, limits, enforced_memory=groups is not None)

    @classmethod
    async def start(cls, spec: SandboxSpec, limits: Limits, relay_to: tuple[str, int] | None = None) -> Sandbox:
        """Make a sandbox. `relay_to` is where its port leads. Raises SandboxError; nothing is left behind then."""
        groups = ControlGroups.create(f"osmosis-{uuid.uuid4().hex}", limits)
        ours, theirs = socket.socketpair()
        try:
            process = await _launch(launch_plan(spec), theirs)
        except BaseException:
            ours.close()
            _remove(groups)
            raise
        finally:
            theirs.close()
        relay = None
        try:
            ours.settimeout(_START_SECONDS)
            pid, listening, many_users = await _shake_hands(ours, process)
            if listening is not None:
                assert relay_to is not None
                relay = Relay(listening, *relay_to)
                await relay.start()
            return cls(process, pid, limits=limits, groups=groups, relay=relay, many_users=many_users)
        except BaseException:
            await _end(process)
            if relay is not None:
                await relay.stop()
            _remove(groups)
            raise
        finally:
            ours.close()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        user: str = "root",
        environment: Mapping[str, str] | None = None,
        timeout_sec: float | None = None,
        on_output: OnOutput | None = None,
    ) -> Finished:
        """Run a command in the sandbox. Its environment is `environment` and a PATH, nothing of the server's.

        What it leaves running stays until the sandbox ends. Raises CommandTimeoutError.
        """
        entry = Entry(
            pid=self._pid,
            argv=tuple(argv),
            cwd=cwd,
            user=user,
            environment={"PATH": PATH, **(environment or {})},
            capabilities=tuple(CAPABILITIES.values()),
            cgroups=self._groups.members if self._groups else (),
            cpus=self._cpus,
            rlimits=self._rlimits,
            many_users=self._many_users,
        )
        given = _file_with(msgspec.json.encode(entry))
        pipes = [os.pipe(), os.pipe()]
        try:
            process = await asyncio.create_subprocess_exec(
                *_python(sandbox_enter.__file__, given),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                env={},
                pass_fds=(given,),
            )
        except BaseException:
            for reading, _ in pipes:
                os.close(reading)
            raise
        finally:
            os.close(given)
            for _, writing in pipes:
                os.close(writing)
        streams = [_Stream(reading, name, on_output) for (reading, _), name in zip(pipes, ("stdout", "stderr"), strict=True)]
        try:
            for stream in streams:
                await stream.open()
            async with asyncio.timeout(timeout_sec):
                code = await process.wait()
        except TimeoutError:
            raise CommandTimeoutError(f"Command timed out after {timeout_sec} seconds") from None
        finally:
            await _stop_entering(process)
            for stream in streams:
                await stream.close()
        return Finished(code, *(stream.text for stream in streams))

    async def stop(self) -> None:
        """Kill every process of the sandbox and let go of everything. Stopping twice is harmless."""
        await _end(self._process)
        if self._first >= 0:
            # The kernel lets the first process of a process namespace go only when all the others are gone.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            await asyncio.to_thread(select.select, [self._first], [], [], _STOP_SECONDS)
            os.close(self._first)
            self._first = -1
            self.files.close()
        if self._relay is not None:
            await self._relay.stop()
            self._relay = None
        if self._groups is not None:
            for _ in range(_REMOVE_TRIES):
                if self._groups.remove():
                    break
                await asyncio.sleep(0.05)  # The kernel is still burying the dead.
            self._groups = None


class _Stream:
    """Reads one stream of a command to its end, whatever happens to it, and keeps its beginning."""

    def __init__(self, descriptor: int, name: str, on_output: OnOutput | None) -> None:
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._name = name
        self._on_output = on_output
        self._kept = bytearray()
        self._dropped = 0
        self._transport: asyncio.BaseTransport | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        note = f"\n[{self._dropped} more bytes were left out]\n" if self._dropped else ""
        return self._kept.decode(errors="replace") + note

    async def open(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._file)
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            room = max(0, OUTPUT_LIMIT - len(self._kept))
            self._kept += chunk[:room]
            self._dropped += max(0, len(chunk) - room)
            if self._on_output is not None:
                await self._on_output(chunk.decode(errors="replace"), self._name)

    async def close(self) -> None:
        if self._reading is not None:
            # What the command left running may hold the stream open; its last words are not worth waiting for that.
            await asyncio.wait({self._reading}, timeout=_LAST_WORDS_SECONDS)
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._transport is not None:
            self._transport.close()
        else:
            self._file.close()


def _python(script: str | None, *descriptors: int) -> list[str]:
    """The command line that runs one of our scripts with nothing but the standard library."""
    return [sys.executable, "-I", "-S", str(script), *map(str, descriptors)]


def _file_with(data: bytes) -> int:
    """The descriptor of a nameless file in memory with `data` in it: no length limit, and nothing for `ps` to show."""
    descriptor = os.memfd_create("osmosis", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _launch(plan: LaunchPlan, control: socket.socket) -> asyncio.subprocess.Process:
    given = _file_with(msgspec.json.encode(plan))
    try:
        return await asyncio.create_subprocess_exec(
            *_python(sandbox_launcher.__file__, given, control.fileno()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": PATH},
            pass_fds=(given, control.fileno()),
            start_new_session=True,
        )
    finally:
        os.close(given)


async def _shake_hands(control: socket.socket, process: asyncio.subprocess.Process) -> tuple[int, socket.socket | None, bool]:
    """Take the launcher through its steps: (process of the sandbox, its listening socket, whether it has many users)."""
    assert process.stdout is not None
    assert process.stderr is not None
    listening: socket.socket | None = None
    try:
        many_users, listening, news = await asyncio.to_thread(_talk, control, process.pid)
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
        if line.strip() != b"ready":
            raise EOFError
        return int(json.loads(news)["child-pid"]), listening, many_users
    except (EOFError, OSError, ValueError, KeyError, TimeoutError) as error:
        if listening is not None:
            listening.close()
        await _end(process)
        words = (await process.stderr.read()).decode(errors="replace").strip()
        raise SandboxError(words or f"the sandbox did not start: {error!r}") from None
    except BaseException:
        if listening is not None:
            listening.close()
        raise


def _talk(control: socket.socket, pid: int) -> tuple[bool, socket.socket | None, bytes]:
    if control.recv(1) != b"U":
        raise EOFError
    many_users = _write_maps(pid)
    control.send(b"M")
    said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    listening = socket.socket(fileno=descriptors[0]) if descriptors else None
    try:
        if said != b"L":
            raise EOFError
        news = b""
        while not news.rstrip().endswith(b"}"):
            chunk = control.recv(_CHUNK)
            if not chunk:
                raise EOFError
            news += chunk
    except BaseException:
        if listening is not None:
            listening.close()
        raise
    return many_users, listening, news


def _write_maps(pid: int) -> bool:
    """Who is who in the sandbox: all users for a server that may map them, else its own user as root. Whether all."""
    process = Path(f"/proc/{pid}")
    try:
        for name in ("uid_map", "gid_map"):
            (process / name).write_text(f"0 0 {MANY_USERS}\n")
        return True
    except PermissionError:
        (process / "setgroups").write_text("deny")
        (process / "uid_map").write_text(f"0 {os.geteuid()} 1\n")
        (process / "gid_map").write_text(f"0 {os.getegid()} 1\n")
        return False


async def _stop_entering(process: asyncio.subprocess.Process) -> None:
    """SIGTERM makes the entering program kill the command; after that it is waited for."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _remove(groups: ControlGroups | None) -> None:
    if groups is not None:
        groups.remove()
