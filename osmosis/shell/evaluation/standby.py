"""A process that will be a rollout server, started before anybody knows whether one is needed (decisions 0060 and 0061).

It imports packages and waits for leave: nothing of the rollout runs, and nothing is created, before a person agreed and the
model answered. Ownership is proven both ways: the server gets a random instance id that its health report must carry, and one
end of a pipe that tells it when this process is gone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, INSTANCE_ID_ENV, LEAVE_ENV, LIFELINE_ENV, PORT_ENV
from osmosis.shell.evaluation.child_process import ChildProcess
from osmosis.shell.evaluation.rollout_environment import activated, find_uv, for_uv, interpreter, is_synced

HEALTH_TIMEOUT = 90.0
_BOOTSTRAP = Path(__file__).with_name("server_bootstrap.py")


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


class Standby:
    """The waiting process. It goes on when it gets `leave`, and ends when it is abandoned, or this process dies."""

    def __init__(self, launch: Launch, process: ChildProcess, port: int, lifeline: int, permission: int) -> None:
        self.launch = launch
        self.process = process
        self.port = port
        self.lifeline = lifeline
        self._permission = permission

    @classmethod
    def start(cls, launch: Launch) -> Standby:
        """Start it, in the environment as it is. Raises OsmosisError when the system refuses."""
        port = launch.port or free_port()
        lifeline, ours = os.pipe()
        leave, permission = os.pipe()
        variables = {
            PORT_ENV: str(port),
            ARTIFACT_ROOT_ENV: str(launch.trials),
            INSTANCE_ID_ENV: launch.instance_id,
            LIFELINE_ENV: str(lifeline),
            LEAVE_ENV: str(leave),
            "PYTHONUNBUFFERED": "1",
        }
        program, arguments, environment = _command(launch, launch.environment | variables)
        try:
            process = ChildProcess.start(program, arguments, launch.project, environment, (lifeline, leave))
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
            self.abandon()
            return False
        self._close_permission()
        return True

    def abandon(self) -> None:
        """End it, unless it went on: then it is somebody else's."""
        if self._permission >= 0:
            self._close_permission()
            os.close(self.lifeline)
            self.process.end()

    def _close_permission(self) -> None:
        os.close(self._permission)
        self._permission = -1


@contextmanager
def standing_by(launch: Launch) -> Iterator[Standby | None]:
    """A standby while the context lasts, unless it went on; None where `uv` has the environment still to make."""
    if not is_synced(launch.project, launch.environment, find_uv()):
        yield None
        return
    standby = Standby.start(launch)
    try:
        yield standby
    finally:
        standby.abandon()


def free_port() -> int:
    """A port of the loopback that nobody listens on, a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _command(launch: Launch, environment: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """Program, arguments and environment: what `uv run` does, without the time that it takes; or `uv run`."""
    words = [str(_BOOTSTRAP), str(launch.project / launch.entrypoint)]
    python = interpreter(launch.project, launch.environment)
    if python is None:
        return find_uv(), ["run", "--no-sync", "--project", str(launch.project), *words], for_uv(environment)
    return str(python), words, activated(environment, python)
