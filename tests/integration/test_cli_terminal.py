"""What a person sees: the live view, colours and questions, on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEADLINE = 300.0
"""Seconds after which a child that does not do what is waited for is taken for stuck, whatever else it shows."""

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07")
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])(?:;[0-9;]*)?m")


class Terminal:
    """A child on a pseudo-terminal; `seen` is everything it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, step: int) -> None:
        self.process = process
        self.seen = b""
        self._master = master
        self._step = step

    def go_on(self, steps: int = 1) -> None:
        """Let the child take its next steps."""
        os.write(self._step, b"x" * steps)

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str, *, since: int = 0) -> None:
        """Read until `text` was shown, escape sequences aside."""
        end = time.monotonic() + DEADLINE
        while text not in ESCAPES.sub(b"", self.seen[since:]).decode(errors="replace"):
            assert self._read(end), f"the child ended without showing {text!r}:\n{self.seen.decode(errors='replace')}"

    def wait_asleep(self) -> None:
        """Wait until the child waits for what is typed: a signal that comes just before is heard behind the answer."""
        while Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert self.process.poll() is None

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + DEADLINE
        while self._read(end):
            pass
        return self.process.wait(DEADLINE)

    def _read(self, end: float) -> bool:
        left = end - time.monotonic()
        shown = left > 0 and select.select([self._master], [], [], left)[0]
        assert shown, f"the child is stuck after {self.seen[-500:]!r}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.seen += data
        return bool(data)


@contextmanager
def terminal(*arguments: str, columns: int = 80, env: dict[str, str] | None = None) -> Iterator[Terminal]:
    """The driver on a terminal of `columns` by 24."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    steps, step = os.pipe()
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")}
    command = [sys.executable, "-m", "tests.integration.cli_run_driver", *arguments]
    environment = {**clean, "TERM": "xterm-256color", "DRIVER_STEP": str(steps), **(env or {})}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, pass_fds=[steps], start_new_session=True
    )
    os.close(slave)
    os.close(steps)
    try:
        yield Terminal(process, master, step)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE)
        os.close(master)
        os.close(step)


def test_the_live_view_follows_the_run_and_leaves_the_terminal_clean() -> None:
    """The counts appear as they change, log lines scroll by above, the line goes away, and the cursor comes back."""
    with terminal("rich", "3", columns=100) as screen:
        screen.wait_for("0/240 0%")
        screen.wait_for("pass \N{EN DASH}")
        screen.go_on(2)
        screen.wait_for("2/240 1%")
        screen.wait_for("pass 100% [34%, 100%]")
        screen.go_on()
        screen.wait_for("3/240 1%")
        screen.wait_for("pass 67% [21%, 94%] \N{MIDDLE DOT} failed 1")
        screen.wait_for("4 in flight \N{MIDDLE DOT} 233 queued \N{MIDDLE DOT} 3,702 tokens")
        screen.wait_for("failures  timeout 1")
        assert "rollouts \N{BOX DRAWINGS HEAVY HORIZONTAL}" in ESCAPES.sub(b"", screen.seen).decode()
        screen.go_on()
        screen.wait_for("child says hello")
        screen.go_on()
        assert screen.finish() == 0
    assert screen.seen.count(b"\x1b[?25l") == screen.seen.count(b"\x1b[?25h") == 1
    after = screen.seen[screen.seen.rindex(b"\x1b[?25h") :].decode()
    assert "3/240" not in after
    assert "Pass Rate" in after


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_live_view_fits_every_width(columns: int) -> None:
    """The line never wraps: a wrapped line cannot be redrawn and would litter the scrollback."""
    with terminal("rich", "1", columns=columns) as screen:
        screen.wait_for("0/240")
        shown = len(screen.seen)
        screen.go_on()
        screen.wait_for("1/240", since=shown)
        screen.go_on(2)
        assert screen.finish() == 0
    live = screen.seen[screen.seen.index(b"\x1b[?25l") : screen.seen.rindex(b"\x1b[?25h")]
    lines = re.split(r"[\r\n]+", ESCAPES.sub(b"", live).decode())
    frames = [line for line in lines if "/240" in line or line.startswith("  ")]
    assert frames
    assert all(len(line) <= columns for line in frames)


def test_no_color_is_honoured() -> None:
    """With NO_COLOR the live view still lives, without a single colour."""
    with terminal("rich", "1", env={"NO_COLOR": "1"}) as screen:
        screen.wait_for("0/240")
        screen.go_on(3)
        assert screen.finish() == 0
    assert not COLOUR.search(screen.seen)
    assert b"\x1b[?25l" in screen.seen


def test_colours_are_used_where_they_may_be() -> None:
    """The test above could fail: without NO_COLOR there are colours."""
    with terminal("rich", "1") as screen:
        screen.go_on(3)
        assert screen.finish() == 0
    assert COLOUR.search(screen.seen)


def test_a_dumb_terminal_gets_lines() -> None:
    """No cursor movement on a terminal that cannot move its cursor: one line an item, no escape sequence at all."""
    with terminal("rich", "2", env={"TERM": "dumb"}) as screen:
        screen.go_on(4)
        assert screen.finish() == 0
    assert b"\x1b" not in screen.seen
    assert "1/240 row 1 run 0 success" in screen.seen.decode()


@pytest.mark.parametrize(
    ("answers", "goes_on"), [(["y\n"], True), (["maybe\n", "YES\n"], True), (["\n"], False), (["\x04"], False)]
)
def test_a_question_waits_for_an_answer(answers: list[str], goes_on: bool) -> None:
    """Yes goes on; the default, no; end of input, no; anything else is asked again. A declined run exits with 0."""
    with terminal("rich", "1", "--ask") as screen:
        for answer in answers:
            asked = len(screen.seen)
            screen.wait_for("[y/N]", since=asked if answer == "YES\n" else 0)
            screen.type(answer)
        if goes_on:
            screen.go_on(3)
        assert screen.finish() == 0
    assert ("Cancelled." in screen.seen.decode()) != goes_on
    assert ("1/240" in screen.seen.decode()) == goes_on


def test_an_interrupted_view_gives_the_cursor_back() -> None:
    """Whatever ends the view, here Ctrl-C, the cursor is visible again."""
    with terminal("rich", "5") as screen:
        screen.wait_for("0/240")
        screen.process.send_signal(2)
        screen.finish()
    assert screen.seen.count(b"\x1b[?25h") == screen.seen.count(b"\x1b[?25l") == 1


def test_ctrl_c_at_a_question_ends_its_line() -> None:
    """What is said after an interrupted question begins on a line of its own."""
    with terminal("rich", "1", "--ask") as screen:
        screen.wait_for("[y/N]")
        screen.wait_asleep()
        screen.process.send_signal(2)
        screen.finish()
    _, _, after = ESCAPES.sub(b"", screen.seen).partition(b"[y/N]")
    assert after.strip(b" ").startswith(b"\r\n")
