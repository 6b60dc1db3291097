"""Removes the containers of a server that was killed (E24: two interrupts leave it five seconds).

Containers belong to an engine, so unlike a sandbox of ours they outlive the server. With the first trial in containers a small
process is started in a session of its own. It reads from a pipe which compose projects are at work, and when the pipe ends
without a farewell, removes what is left of them and ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FAREWELL = "bye"


class Guardian:
    """The server's end of the pipe. Without an engine it does nothing."""

    def __init__(self, engine: str | None) -> None:
        self._engine = engine
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def watching(self, project: str) -> Iterator[None]:
        """Watch over a compose project while the context lasts."""
        if self._engine is None:
            yield
            return
        self._tell(f"+{project}")
        try:
            yield
        finally:
            self._tell(f"-{project}")

    async def close(self) -> None:
        """Say farewell: nothing is at work any more."""
        if self._process is not None:
            self._tell(_FAREWELL)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.poll() is not None:
            assert self._engine is not None
            self._process = subprocess.Popen(
                [sys.executable, "-m", "osmosis.shell.rollout.harbor.guardian", self._engine],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()


def main() -> None:
    """Keep watch until the pipe ends."""
    from osmosis.shell.rollout.harbor.engine import sweep_now  # noqa: PLC0415 - not needed by the server's end

    engine = sys.argv[1]
    at_work: set[str] = set()
    for line in sys.stdin:
        word = line.strip()
        if word == _FAREWELL:
            return
        (at_work.add if word.startswith("+") else at_work.discard)(word[1:])
    # The engine's own clients died with the server; what they had begun may still arrive.
    for _ in range(2):
        for project in sorted(at_work):
            sweep_now(engine, project)
    os._exit(0)


if __name__ == "__main__":
    main()
