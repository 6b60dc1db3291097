"""A run without a runner: shows a plan, progress and a report through the real terminal code, for tests that watch a terminal.

    python cli_run_driver.py MODE STEPS [--ask]

Between steps it waits for a line on the pipe named by DRIVER_STEP (a file descriptor), if given, so that a test decides when
the next thing happens; there is no sleep.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

import msgspec

from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.report import ItemFinished, Progress
from osmosis.shell.cli.invocation import next_steps
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.run_result import run_result
from osmosis.shell.cli.run_view import TerminalRunView
from tests.strategies.cli_reports import INVOCATION, PLAN, REPORTS, WORKSPACE

WOKEN, _WAKES = socket.socketpair()
"""Can be read once a signal has come."""
_WAKES.setblocking(False)
signal.set_wakeup_fd(_WAKES.fileno())


def counts(done: int, total: int) -> Progress:
    """Every third item fails."""
    failed = done // 3
    return Progress(total, done, done - failed, failed, 0, done, done - failed, min(4, total - done), done * 1234)


def finished(number: int) -> ItemFinished:
    """Item `number`, from 1."""
    failed = number % 3 == 0
    status = Status.FAILED if failed else Status.SUCCESS
    reward, reason = (None, "timeout") if failed else (1.0, None)
    return ItemFinished(WorkItem(number, 0), number, f"rollout-{number}", status, reward, reason, 834.0, passed=not failed)


def wait_for_step() -> None:
    """Wait until the test says go on.

    A signal that comes in the moment before the wait ends it, too: a plain read would be entered all the same, and the signal's
    handler would wait for the read.
    """
    if descriptor := os.environ.get("DRIVER_STEP"):
        select.select([int(descriptor), WOKEN.fileno()], [], [])
        os.read(int(descriptor), 1)


def main() -> int:
    """Show everything a run shows."""
    mode, steps = Mode(sys.argv[1]), int(sys.argv[2])
    output = Output.of_process(mode, os.environ)
    with TerminalRunView(output, working_directory=WORKSPACE, yes=False, verbose=True, stdin=sys.stdin) as view:
        view.plan(PLAN)
        view.warning("BRANCH_MISMATCH", "The config names branch main; the checkout is on demo.")
        if "--ask" in sys.argv and not view.confirm("240 rollouts x model openai/gpt-5-mini - continue?", default=False):
            output.result(run_result(REPORTS["cancelled"], WORKSPACE))
            return 0
        view.milestone("running 240 work items, up to 4 in flight")
        view.progress(counts(0, 240))
        for done in range(1, steps + 1):
            wait_for_step()
            view.item(finished(done))
            view.progress(counts(done, 240))
        wait_for_step()
        view.log_line("child says hello\n")
        wait_for_step()
    report = REPORTS["success"]
    output.result(run_result(msgspec.structs.replace(report, next_steps=next_steps(INVOCATION, report)), WORKSPACE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
