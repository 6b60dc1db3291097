"""What real runs say, to the word, in every mode: only what no two runs share is masked (issue 9, must-show 3)."""

from __future__ import annotations

import re

import pytest

from tests.golden.conftest import golden  # noqa: F401 - the fixture that compares with golden files
from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Ended, Workspace

pytestmark = pytest.mark.slow

MASKS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\bport \d+", "port PORT"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b(?:\d+\.\ds|\d+m \d+s|\d+h \d+m)\b", "SECONDS"),
    (r'("duration_ms": )[0-9.]+', r"\1MS"),
    (r"(\N{BOX DRAWINGS LIGHT VERTICAL} (?:Duration|Output) .*?) +(?=\N{BOX DRAWINGS LIGHT VERTICAL}\n)", r"\1 "),
)
"""What differs from run to run: times, ids, ports, durations, and the blanks that follow some of them in a table."""


def masked(ended: Ended, workspace: Workspace) -> bytes:
    """Everything that was shown, and the exit code."""
    text = f"exit code {ended.code}\n--- standard output\n{ended.out}--- standard error\n{ended.err}"
    text = text.replace(str(workspace.root), "/home/ada/workspace")
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text.encode()


@pytest.mark.parametrize("mode", ["rich", "plain", "json"])
async def test_a_run_from_its_plan_to_its_next_steps(
    mode: str,
    workspace: Workspace,
    model: StubModel,
    golden,  # noqa: F811
) -> None:
    """A success, two wrong answers, a failure and a skipped row; then nothing to do; then the failure tried again, in vain.

    The bootstrap's seed is of the manifest, which no two of these runs share. With three rows an end of its interval is a
    matter of chance (all rows drawn alike: 1 in 27, where 1 in 40 decides); with four, odds of one to millions.
    """
    wrong = {"echo two": "2", "echo three": "3", "echo four": "discard"}
    workspace.write_rows("echo one", "echo two", "raise no luck", "echo four", "echo three", labels=wrong)
    flags = ["--name", "calm-otter-7", "--max-in-flight", "1", *([] if mode == "rich" else [f"--{mode}"])]
    for number, further in enumerate(([], [], ["--retry-failed"]), 1):
        ended = await workspace.run(*flags, *further, COLUMNS="80", OSMOSIS_DEBUG="")
        golden(f"real/{number}.{mode}.txt", masked(ended, workspace))


@pytest.mark.parametrize("mode", ["rich", "plain", "json"])
async def test_a_server_that_dies_of_a_row(
    mode: str,
    workspace: Workspace,
    model: StubModel,
    golden,  # noqa: F811
) -> None:
    """Twice the run stops and says what comes next; then the row is found out."""
    workspace.write_rows("kill the server", "echo two")
    flags = ["--name", "calm-otter-7", "--max-in-flight", "1", *([] if mode == "rich" else [f"--{mode}"])]
    for number in (1, 2, 3):
        ended = await workspace.run(*flags, COLUMNS="80", OSMOSIS_DEBUG="")
        golden(f"real/crash_{number}.{mode}.txt", masked(ended, workspace))
