"""Children that are started without an event loop and watched by one (decision 0061)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from osmosis.pure.errors import OsmosisError
from osmosis.pure.redaction import Redactor
from osmosis.shell.evaluation.child_process import ChildProcess, exit_text
from osmosis.shell.evaluation.run_log import RunLog

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
LINES = 20_000
"""Together more than a pipe holds."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    """A log for what children say."""
    with RunLog(tmp_path / "logs.txt", Redactor()) as opened:
        yield opened


def child(code: str, directory: Path) -> ChildProcess:
    """A running Python."""
    return ChildProcess.start(sys.executable, ["-c", code], directory, dict(os.environ))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("descriptors", [True, False], ids=["pidfd", "thread"])
def test_all_that_a_child_says_arrives_and_so_does_its_exit_code(
    log: RunLog, tmp_path: Path, loop: str, descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a pipe holds, both streams, also where the system has no descriptors for processes."""
    if not descriptors:
        monkeypatch.delattr(os, "pidfd_open")
    said = f"import sys\nfor number in range({LINES}):\n    print(number)\n"
    process = child(said + "sys.stdout.flush(); print('last', file=sys.stderr, flush=True); sys.exit(7)", tmp_path)

    async def watch() -> tuple[int, list[str]]:
        output = await process.tee(log.child("child"))
        return await process.wait(), output.last_lines

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        code, lines = runner.run(watch())
    assert code == 7
    assert lines[-2:] == [str(LINES - 1), "last"]
    assert log_lines(tmp_path) == LINES + 1


@pytest.mark.parametrize("loop", LOOPS)
def test_a_child_killed_by_a_signal_says_which(log: RunLog, tmp_path: Path, loop: str) -> None:
    """The whole group gets the signal, so that nothing holds the pipe open."""
    process = child("import os, signal\nos.fork()\nprint('up', flush=True)\nsignal.pause()", tmp_path)

    async def watch() -> int:
        said = asyncio.create_task(process.tee(log.child("child")))
        while log_lines(tmp_path) < 2:
            assert not said.done(), "the child has ended"
            await asyncio.wait({said}, timeout=0.01)
        process.signal(signal.SIGKILL)
        await said
        return await process.wait()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        code = runner.run(watch())
    assert (code, exit_text(code), exit_text(137), exit_text(3)) == (
        -9,
        "killed by SIGKILL",
        "killed by SIGKILL",
        "exit code 3",
    )


def log_lines(directory: Path) -> int:
    """How many lines the log has."""
    return (directory / "logs.txt").read_text().count("\n")


LEAVES_NOTHING = """
import os, signal, sys
from pathlib import Path
from osmosis.shell.evaluation.child_process import ChildProcess
from osmosis.shell.evaluation.process_identity import group_alive
before = sorted(os.listdir("/proc/self/fd"))
process = ChildProcess.start(sys.executable, ["-c", "import signal; signal.pause()"], Path.cwd(), dict(os.environ))
process.end()
assert not group_alive(process.pid)
assert sorted(os.listdir("/proc/self/fd")) == before
process.end()
process.signal(signal.SIGTERM)
"""


def test_a_child_that_no_loop_watches_is_ended_and_leaves_nothing(tmp_path: Path) -> None:
    """Neither a process nor a descriptor; what is over can be ended and signalled again.

    Looked at in a process of its own, where nothing else opens or closes anything.
    """
    done = subprocess.run([sys.executable, "-c", LEAVES_NOTHING], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("place", ["program", "directory", "environment"])
def test_a_child_that_cannot_be_started_is_an_error_with_its_reason(tmp_path: Path, place: str) -> None:
    """No such program, no such directory, an environment that no system takes."""
    program = str(tmp_path / "absent") if place == "program" else sys.executable
    directory = tmp_path / "absent" if place == "directory" else tmp_path
    environment = {"LARGE": "x" * (1 << 22)} if place == "environment" else {}
    with pytest.raises(OsmosisError) as caught:
        ChildProcess.start(program, ["-c", "pass"], directory, environment)
    assert f"{Path(program).name} -c could not be started in {directory}." in caught.value.message
    assert caught.value.problems
