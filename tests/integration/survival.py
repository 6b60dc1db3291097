"""What has to hold of a run that somebody killed (ruling 28): its name, what it had finished, and how it has to end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Ended, Workspace, eventually

NAME = "survivor"


def durable(workspace: Workspace) -> set[int]:
    """The rows that have a result in the journal now."""
    return {record["item"][0] for record in workspace.records(NAME, "result")}


def living_below(root: Path) -> list[int]:
    """The processes that work in a directory below `root`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink().is_relative_to(root):
                found.append(int(path.name))
        except OSError:
            continue
    return found


async def verified(workspace: Workspace) -> None:
    """`eval verify` finds nothing."""
    ended = await workspace.run(words=["eval", "verify", NAME, "--json"])
    assert (ended.code, ended.resource["findings"]) == (0, []), ended


async def finish_and_check(workspace: Workspace, model: StubModel, rows: int, *flags: str) -> Ended:
    """Run on to the end: every row has one result, none that had one ran again, `eval verify` finds nothing, and no process is
    left behind."""
    # A call that the dead had made just then counts as theirs.
    await model.provider.wait_alone()
    known, calls = durable(workspace), Counter(model.calls)
    model.release()
    ended = await workspace.run("--name", NAME, "--json", *flags)
    assert ended.code == 0, ended
    if ended.envelope["status"] != "noop":
        assert ended.resource["dispatched"] == rows - len(known)
    again = model.calls - calls
    assert {prompt for prompt in again if int(prompt.split()[1]) in known} == set()
    assert all(count == 1 for count in again.values())
    assert [(row["row_index"], row["run_index"], row["status"]) for row in workspace.index(NAME)] == [
        (row, 0, "success") for row in range(rows)
    ]
    assert workspace.metrics(NAME)["eval_run"]["status"] == "finished"
    await verified(workspace)
    await eventually(lambda: not living_below(workspace.root))
    return ended
