"""A process that will be a rollout server, started before anybody knows whether one is needed (decisions 0060 and 0061).

It imports packages and waits for leave: nothing of the rollout runs, and nothing is created, before a person agreed and the
model answered. Which run it serves is said with the leave. Ownership is proven both ways: the server gets a random instance id
that its health report must carry, and one end of a pipe that tells it when this process is gone.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from osmosis.pure.protocol import INSTANCE_ID_ENV, LEAVE_ENV, LIFELINE_ENV, PORT_ENV
from osmosis.shell.evaluation.child_process import ChildProcess
from osmosis.shell.evaluation.rollout_environment import activated, find_uv, for_uv, interpreter, is_synced

HEALTH_TIMEOUT = 90.0
_BOOTSTRAP = Path(__file__).with_name("server_bootstrap.py")


class Start(msgspec.Struct, frozen=True):
    """What a server's process begins with, and cannot be changed later. `environment` is complete but for the variables that
    are ours to set; without `port` it gets a free one."""

    project: Path
    entrypoint: str
    environment: dict[str, str]
    port: int | None = None


class Launch(msgspec.Struct, frozen=True):
    """How to start the rollout server of a run, whose rollouts keep their files in `trials`; `health_timeout` in seconds."""

    start: Start
    run_directory: Path
    trials: Path
    created_at: str
    health_timeout: float = HEALTH_TIMEOUT


class Standby:
    """The waiting process. It goes on when it gets `leave`, and ends when it is abandoned, or this process dies."""

    def __init__(
        self, begun: Start, process: ChildProcess, instance_id: str, port: int, lifeline: int, permission: int
    ) -> None:
        self.begun = begun
        self.process = process
        self.instance_id = instance_id
        self.port = port
        self.lifeline = lifeline
        self._permission = permission

    @classmethod
    def start(cls, start: Start) -> Standby:
        """Start it, in the environment as it is. Raises OsmosisError when the system refuses."""
        port, instance_id = start.port or free_port(), uuid.uuid4().hex
        lifeline, ours = os.pipe()
        leave, permission = os.pipe()
        variables = {
            PORT_ENV: str(port),
            INSTANCE_ID_ENV: instance_id,
            LIFELINE_ENV: str(lifeline),
            LEAVE_ENV: str(leave),
            "PYTHONUNBUFFERED": "1",
        }
        program, arguments, environment = _command(start, start.environment | variables)
        try:
            process = ChildProcess.start(program, arguments, start.project, environment, (lifeline, leave))
        except BaseException:
            os.close(ours)
            os.close(permission)
            raise
        finally:
            os.close(lifeline)
            os.close(leave)
        return cls(start, process, instance_id, port, ours, permission)

    def leave(self, trials: Path) -> bool:
        """Let it go on, for rollouts that keep their files in `trials`. False when it has ended, and nothing is left of it; it
        can be told once."""
        if self._permission < 0:
            return False
        try:
            os.write(self._permission, os.fsencode(trials))
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
def standing_by(start: Start, ahead: Standby | None = None) -> Iterator[Standby | None]:
    """A standby, which may be `ahead` already, while the context lasts, unless it went on; None where `uv` has the environment
    still to make."""
    if ahead is None and not is_synced(start.project, start.environment, find_uv()):
        yield None
        return
    standby = ahead or Standby.start(start)
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


def _command(start: Start, environment: Mapping[str, str]) -> tuple[str, list[str], dict[str, str]]:
    """Program, arguments and environment: what `uv run` does, without the time that it takes; or `uv run`."""
    words = [str(_BOOTSTRAP), str(start.project / start.entrypoint)]
    python = interpreter(start.project, start.environment)
    if python is None:
        return find_uv(), ["run", "--no-sync", "--project", str(start.project), *words], for_uv(environment)
    return str(python), words, activated(environment, python)
