"""`logs.txt` on a real disk, and the output of real children in it (E8)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from osmosis.pure.redaction import Redactor
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.run_log import RunLog
from tests.strategies.secrets import AWKWARD

AT = "2026-11-30T12:35:44.521865Z"


def open_log(path, secrets=(), **options):
    """A log with a clock that stands still."""
    return RunLog(path, Redactor(secrets), now=lambda: AT, **options)


def test_created_private_and_appended(tmp_path):
    """The file is 0600 from its first moment, and a second invocation adds to it."""
    path = tmp_path / "logs.txt"
    for message in ("one", "two"):
        with open_log(path) as log:
            log.write("INFO", "run", message)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == f"{AT} INFO [run] one\n{AT} INFO [run] two\n"


def test_on_disk_when_write_returns(tmp_path):
    """Nothing waits in a buffer: a process that is killed after a line has left the line behind."""
    log = open_log(tmp_path / "logs.txt")
    log.write("WARNING", "run", "now")
    assert (tmp_path / "logs.txt").read_text() == f"{AT} WARNING [run] now\n"
    log.close()
    log.close()


def test_unfinished_last_line_is_ended(tmp_path):
    """A line that a crash cut short does not swallow the next one."""
    path = tmp_path / "logs.txt"
    path.write_text("torn")
    with open_log(path) as log:
        log.write("ERROR", "run", "next")
    assert path.read_text() == f"torn\n{AT} ERROR [run] next\n"


class FullDisk(FileLayer):
    """A disk with room for a few more bytes; the last write that fits only in part is cut."""

    def __init__(self) -> None:
        self.room = 1 << 20

    def write(self, descriptor: int, data: bytes, *, step: str) -> None:
        """Write what fits, then report that the disk is full."""
        super().write(descriptor, data[: self.room], step=step)
        if len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_disk_errors_reach_the_caller(tmp_path):
    """A full disk is the caller's to hear; once there is room again, lines are whole lines."""
    disk = FullDisk()
    with open_log(tmp_path / "logs.txt", files=disk) as log:
        disk.room = 5
        with pytest.raises(OSError, match="No space"):
            log.write("INFO", "run", "cut short")
        disk.room = 1 << 20
        log.write("INFO", "run", "whole")
    assert (tmp_path / "logs.txt").read_text() == f"{AT[:5]}\n{AT} INFO [run] whole\n"


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("size", [1, 7, 65536])
def test_child_output_never_tells_a_secret(tmp_path, secret, size):
    """A real child prints a secret raw, quoted and over several lines; in pieces of any size, the log has no trace of it."""
    program = "import sys; v = sys.argv[1]; sys.stdout.write(f'a {v} b\\n\\n{v!r}\\n{v}'); sys.stderr.write(v)"
    value = secret.replace("\0", "")
    child = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program, value], stdout=-1, stderr=subprocess.STDOUT, check=True, timeout=300
    )
    with open_log(tmp_path / "logs.txt", [value]) as log:
        output = log.child("rollout-server")
        for start in range(0, len(child.stdout), size):
            output.feed(child.stdout[start : start + size])
        output.close()
        last = output.last_lines
    text = (tmp_path / "logs.txt").read_text()
    assert "[REDACTED]" in text
    for word in {line.strip() for line in value.split("\n")} - {""}:
        assert word not in text.replace("[REDACTED]", "")
        assert not any(word in line.replace("[REDACTED]", "") for line in last)


def test_child_lines(tmp_path):
    """One line of the log for each line of the child, empty ones too, whatever its bytes; the last are kept."""
    echoed: list[str] = []
    with open_log(tmp_path / "logs.txt", echo=echoed.append) as log:
        output = log.child("deps")
        for byte in "eins\r\n\n\x1b[1mzwei\x1b[0m\x07 ü\n".encode() + b"\xff" + b"z" * 20_000:
            output.feed(bytes([byte]))
        output.close()
    prefix = f"{AT} INFO [deps] "
    lines = (tmp_path / "logs.txt").read_text().splitlines()
    assert lines == echoed
    assert [line.removeprefix(prefix) for line in lines[:3]] == ["eins", "", "zwei\\x07 ü"]
    assert lines[3] == prefix + "\N{REPLACEMENT CHARACTER}" + "z" * 16_383 + " [... 3617 more characters]"
    assert output.last_lines == ["eins", "zwei\\x07 ü", lines[3].removeprefix(prefix)]


def test_values_protected_later(tmp_path):
    """Secrets that become known after the log was opened are redacted from then on, in lines of earlier children too."""
    with open_log(tmp_path / "logs.txt", ["first"]) as log:
        output = log.child("server")
        log.protect(["second"])
        output.feed(b"first second\n")
        log.write("INFO", "run", "second first")
    assert (tmp_path / "logs.txt").read_text() == (
        f"{AT} INFO [server] [REDACTED] [REDACTED]\n{AT} INFO [run] [REDACTED] [REDACTED]\n"
    )


def test_threads_do_not_mix_lines(tmp_path: Path):
    """Lines from several threads stay whole, and none is lost."""
    with open_log(tmp_path / "logs.txt") as log:
        threads = [Thread(target=lambda n=n: [log.write("INFO", "run", f"{n}" * 200) for _ in range(50)]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = (tmp_path / "logs.txt").read_text().splitlines()
    assert sorted(lines) == sorted(f"{AT} INFO [run] {f'{n}' * 200}" for n in range(4) for _ in range(50))
