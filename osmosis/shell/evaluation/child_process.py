"""A child process that can be started before there is an event loop, and is watched by one afterwards (decision 0061).

It has a session of its own, so that Ctrl-C in the terminal reaches it only through us, and one pipe for all that it says.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from osmosis.pure.errors import OsmosisError, Problem
from osmosis.shell.evaluation.process_identity import group_alive, signal_group

if TYPE_CHECKING:
    import asyncio

    from osmosis.shell.evaluation.run_log import ChildOutput

_CHUNK = 1 << 16
_SIGNAL_NUMBERS = frozenset(signal.valid_signals())


class ChildProcess:
    """A running child, the leader of its process group. `wait` and `tee` are for one task each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    def start(
        cls,
        program: str,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        inherited: Sequence[int] = (),
    ) -> ChildProcess:
        """Start `program` in `directory`; it inherits the descriptors `inherited`.

        Raises OsmosisError when the system refuses.
        """
        try:
            process = subprocess.Popen(
                [program, *arguments],
                bufsize=0,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(inherited),
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise OsmosisError(
                f"{Path(program).name} {arguments[0]} could not be started in {directory}.",
                problems=[Problem("", reason)],
                hint="Free memory, processes or file descriptors, and look at the size of what [env] and the environment hold.",
            ) from None
        return cls(process)

    async def tee(self, output: ChildOutput) -> ChildOutput:
        """Hand on all that it says, until it and its children have said everything.

        Read to the end whatever happens: a child whose output nobody reads would stand still. A log that cannot be written is
        reported by whoever writes to it next; the last lines are kept all the same.
        """
        import asyncio  # noqa: PLC0415 - the child is started before this is imported

        assert self._process.stdout is not None
        descriptor, loop, readable = self._process.stdout.fileno(), asyncio.get_running_loop(), asyncio.Event()
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, readable.set)
        try:
            while (chunk := await _read(descriptor, readable)) != b"":
                with suppress(OSError):
                    output.feed(chunk)
        finally:
            loop.remove_reader(descriptor)
            self._process.stdout.close()
        with suppress(OSError):
            output.close()
        return output

    async def wait(self) -> int:
        """Its exit code, once it has ended; that of a signal is negative."""
        import asyncio  # noqa: PLC0415 - like above

        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return await asyncio.to_thread(self._process.wait)
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to what is left of the group."""
        if group_alive(self.pid):
            signal_group(self.pid, number)

    def end(self) -> None:
        """Kill the group and wait for the child, for a child that no loop watches."""
        self.signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


async def _read(descriptor: int, readable: asyncio.Event) -> bytes:
    """What there is to read, once there is something; nothing at the end."""
    while True:
        await readable.wait()
        readable.clear()
        with suppress(BlockingIOError):
            return os.read(descriptor, _CHUNK)


def last_words(output: ChildOutput) -> list[Problem]:
    """A child's last lines, for an error to quote."""
    return [Problem("", line) for line in output.last_lines]


def exit_text(code: int) -> str:
    """`exit code 3`, `killed by SIGKILL`. `uv run` reports a signal of its child as shells do: 128 and the number."""
    number = -code if code < 0 else code - 128
    if number in _SIGNAL_NUMBERS:
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {code}"
