"""Runs a command on a pseudo-terminal and answers its questions: `typing_person.py QUESTION=ANSWER ... -- COMMAND ...`.

Each answer is typed once, when its question has been shown. What the terminal shows goes to standard output; the exit code is
the command's.
"""

from __future__ import annotations

import os
import pty
import sys


def main() -> int:
    """Command line: see the module docstring."""
    border = sys.argv.index("--")
    answers = dict(pair.split("=", 1) for pair in sys.argv[1:border])
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[border + 1], sys.argv[border + 1 :])  # noqa: S606 - what the test asks for, word by word
    shown = b""
    while data := _read(terminal):
        shown += data
        os.write(1, data)
        for question in [question for question in answers if question.encode() in shown]:
            os.write(terminal, answers.pop(question).encode() + b"\n")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


if __name__ == "__main__":
    sys.exit(main())
