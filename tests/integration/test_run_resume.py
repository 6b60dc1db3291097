"""Named runs over several invocations: resume, retry, start over, look again, refuse (E19, E22, E35; issue 3)."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Workspace, eventually

pytestmark = pytest.mark.slow


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below `directory`: its bytes and when it was changed."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def without_accidents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Index lines without ids, durations and `resumed`."""
    return [{key: value for key, value in row.items() if key not in _ACCIDENTS} for row in rows]


async def remembered(workspace: Workspace, name: str, starts: int) -> None:
    """Wait until the journal knows of that many starts: the disk may be behind the model."""
    await eventually(lambda: len(workspace.records(name, "invocation.started")) == starts)


_ACCIDENTS = {"rollout_id", "duration_ms", "resumed", "id", "name", "started_at", "completed_at"}


async def test_killed_twice_and_finished(workspace: Workspace, model: StubModel) -> None:
    """Killed at 5 of 10, killed again before anything new is known, finished: ten results, five of them never run again.

    The whole run then tells what an uninterrupted one tells, but for ids, times, durations and `resumed`.
    """
    workspace.write_rows(*[f"echo {number}" for number in range(5)], *[f"held {number}" for number in range(5)])
    for starts in (1, 2):
        async with workspace.start("--name", "torn", "--max-in-flight", "10") as running:
            await model.wait_calls(5 * starts, "held")
            await eventually(lambda: len(workspace.records("torn", "result")) == 5)
            # The second never sees a result, and is remembered all the same.
            await remembered(workspace, "torn", starts)
            running.signal(signal.SIGKILL)
            assert (await running.end()).code == -signal.SIGKILL
    begun = workspace.records("torn", "invocation.started")
    model.release()
    ended = await workspace.run("--name", "torn", "--json")
    assert ended.code == 0
    assert (ended.resource["dispatched"], ended.resource["resumed"], ended.resource["succeeded"]) == (5, 5, 10)
    assert {prompt: count for prompt, count in model.calls.items() if prompt.startswith("echo")} == dict.fromkeys(
        [f"echo {number}" for number in range(5)], 1
    )
    assert workspace.metrics("torn")["eval_run"]["started_at"] == begun[0]["at"]

    assert (await workspace.run("--name", "whole")).code == 0
    assert [row.get("resumed", False) for row in workspace.index("torn")] == [True] * 5 + [False] * 5
    assert without_accidents(workspace.index("torn")) == without_accidents(workspace.index("whole"))
    torn, whole = workspace.metrics("torn"), workspace.metrics("whole")
    assert torn["summary"] == whole["summary"]
    assert without_accidents([torn["eval_run"]]) == without_accidents([whole["eval_run"]])
    rows = [(workspace.run_directory(name) / "dataset_rows.jsonl").read_bytes() for name in ("torn", "whole")]
    assert rows[0] == rows[1]


async def test_a_finished_run_is_only_looked_at(workspace: Workspace, model: StubModel) -> None:
    """A script that repeats a finished run changes no byte and no time of any file, and is told what it could do."""
    assert (await workspace.run("--name", "done")).code == 0
    before, asked = files(workspace.runs), model.calls.total()
    ended = await workspace.run("--name", "done", "--plain")
    assert ended.code == 0
    assert "already finished" in ended.out
    assert "--fresh" in ended.out
    assert files(workspace.runs) == before
    assert model.calls.total() == asked


async def test_retry_runs_failures_again_and_nothing_else(workspace: Workspace, model: StubModel) -> None:
    """`--retry-failed` runs failed and skipped items again and keeps every success, below the threshold too."""
    workspace.write_rows(
        "echo right", "echo wrong", "echo gone", "broken one", labels={"echo wrong": "x", "echo gone": "discard"}
    )
    ended = await workspace.run("--name", "mixed", "--json")
    assert ended.code == 0
    assert [ended.resource[key] for key in ("succeeded", "failed", "skipped")] == [2, 1, 1]
    before = model.calls.copy()
    ended = await workspace.run("--name", "mixed", "--json", "--retry-failed")
    assert ended.code == 0
    assert ended.resource["dispatched"] == 2
    again = model.calls - before
    assert again["echo right"] == again["echo wrong"] == 0
    assert again["echo gone"] == 1
    assert again["broken one"] >= 1
    assert [row.get("resumed", False) for row in workspace.index("mixed")] == [False] * 4


async def test_an_interrupted_retry_is_not_a_success(workspace: Workspace, model: StubModel) -> None:
    """An interrupted `--retry-failed` exits with 130 and counts what it did not run again as pending."""
    workspace.write_rows("echo one", "raise two", "raise three")
    assert (await workspace.run("--name", "half")).code == 0
    async with workspace.start("--name", "half", "--retry-failed", "--json", HOLD_RAISE="1") as running:
        await model.wait_calls(2, "raise")
        running.signal()
        ended = await running.end()
    assert ended.code == 130
    assert ended.envelope["status"] == "interrupted"
    assert (ended.resource["pending"], ended.resource["failed"]) == (2, 2)


async def test_fresh_archives_and_never_collides(workspace: Workspace) -> None:
    """Starting over twice within a second keeps both earlier runs, whole."""
    workspace.write_rows("echo one")
    for flags in ((), ("--fresh",), ("--fresh",)):
        assert (await workspace.run("--name", "again", *flags)).code == 0
    archives = [path for path in workspace.runs.iterdir() if path.name.startswith("again.archive-")]
    assert len(archives) == 2
    for archive in archives:
        assert re.fullmatch(r"again\.archive-\d{8}T\d{6}Z(-\d+)?", archive.name)
        assert (archive / "metrics.json").exists()
    assert len(workspace.index("again")) == 1


async def test_runs_without_a_name_get_one(workspace: Workspace) -> None:
    """Two runs without a name lie beside each other under adjective-animal-number names."""
    workspace.write_rows("echo one")
    names = [(await workspace.run("--json")).resource["run_name"] for _ in range(2)]
    assert names[0] != names[1]
    assert all(re.fullmatch(r"[a-z]+-[a-z]+-\d+", name) for name in names)
    assert all((workspace.run_directory(name) / "metrics.json").exists() for name in names)


async def test_changed_inputs_are_refused_by_name(workspace: Workspace, model: StubModel) -> None:
    """Resume and retry refuse changed inputs, name the groups and the files, and change nothing; a new name just works."""
    workspace.write_rows("echo one", "raise two")
    assert (await workspace.run("--name", "locked")).code == 0
    before, asked = files(workspace.run_directory("locked")), model.calls.total()
    workspace.write_rows("echo one", "raise two", "echo three")
    workspace.write_config(n=2, evaluation="pass_threshold = 0.5")
    (workspace.project / "prompt.txt").write_text("new")
    with (workspace.project / "main.py").open("a") as main:
        main.write("\n# edited\n")
    for flags in ((), ("--retry-failed",)):
        ended = await workspace.run("--name", "locked", "--plain", *flags)
        assert ended.code == 1
        for text in ("Changed: dataset, n, pass_threshold, rollout", "added prompt.txt", "edited main.py", "0.5"):
            assert text in ended.err
    assert files(workspace.run_directory("locked")) == before
    assert model.calls.total() == asked


async def test_one_name_has_one_worker(workspace: Workspace, model: StubModel) -> None:
    """Of two processes on one name one runs and the other is told who does; after a kill the next start just works."""
    workspace.write_rows("held one", "echo two")
    async with workspace.start("--name", "shared") as first, workspace.start("--name", "shared", "--json") as second:
        commands = {first.process.pid: first, second.process.pid: second}
        await eventually(lambda: any(command.process.returncode is not None for command in commands.values()))
        loser = next(command for command in commands.values() if command.process.returncode is not None)
        winner = first if loser is second else second
        refused = await loser.end()
        assert refused.code == 1
        assert f"process {winner.process.pid} " in refused.err
        await model.wait_calls(1, "held")
        await eventually(lambda: len(workspace.records("shared", "result")) == 1)
        winner.signal(signal.SIGKILL)
        await winner.end()
    model.release()
    ended = await workspace.run("--name", "shared", "--json")
    assert ended.code == 0
    assert (ended.resource["succeeded"], ended.resource["resumed"]) == (2, 1)
    assert model.count("echo") == 1


async def test_damage_before_the_end_is_refused(workspace: Workspace) -> None:
    """A flipped bit in the middle of the journal is named with its line and byte; nothing is overwritten."""
    workspace.write_rows("echo one", "raise two")
    assert (await workspace.run("--name", "bitten")).code == 0
    journal = workspace.run_directory("bitten") / "events.jsonl"
    data = journal.read_bytes()
    second = data.index(b"\n") + 1
    journal.write_bytes(data[: second + 20] + b"#" + data[second + 21 :])
    before = files(workspace.run_directory("bitten"))
    ended = await workspace.run("--name", "bitten", "--retry-failed", "--plain")
    assert ended.code == 1
    assert "events.jsonl:2" in ended.err
    assert f"byte {second}" in ended.err
    assert files(workspace.run_directory("bitten")) == before


async def test_a_torn_tail_is_dropped_and_reported(workspace: Workspace, model: StubModel) -> None:
    """An incomplete last record is cut off, the log says so, and its item runs again."""
    workspace.write_rows("echo one", "echo two")
    assert (await workspace.run("--name", "torn", "--max-in-flight", "1")).code == 0
    journal = workspace.run_directory("torn") / "events.jsonl"
    lines = journal.read_bytes().split(b"\n")
    last = next(number for number, line in reversed(list(enumerate(lines))) if b'"kind":"result"' in line)
    journal.write_bytes(b"\n".join(lines[:last]) + b"\n" + lines[last][:-9])
    ended = await workspace.run("--name", "torn", "--json")
    assert ended.code == 0
    assert (ended.resource["dispatched"], ended.resource["succeeded"]) == (1, 2)
    assert "dropped an incomplete last record" in (workspace.run_directory("torn") / "logs.txt").read_text()
    assert [json.loads(line)["seq"] for line in journal.read_bytes().splitlines()] == list(
        range(1, len(journal.read_bytes().splitlines()) + 1)
    )


async def test_next_steps_work_when_pasted(workspace: Workspace, model: StubModel) -> None:
    """The command that an interrupted run offers finishes it."""
    workspace.write_rows("held one")
    async with workspace.start("--plain", "--name", "pasted") as running:
        await model.wait_calls(1)
        running.signal()
        ended = await running.end()
    assert ended.code == 130
    offered = next(line for line in ended.out.splitlines() if line.startswith("Resume: osmosis "))
    model.release()
    again = await workspace.run(words=offered.removeprefix("Resume: osmosis ").split())
    assert again.code == 0
    assert len(workspace.index("pasted")) == 1


async def test_a_moved_run_goes_on_under_the_name_it_has_now(workspace: Workspace) -> None:
    """What is said and offered afterwards means the directory at hand, not one of the name it had (decision 0054)."""
    workspace.write_rows("echo one", "fail two")
    made = await workspace.run("--name", "made", "--json")
    workspace.run_directory("made").rename(workspace.run_directory("moved"))
    again = await workspace.run("--name", "moved", "--json")
    assert (made.resource["run_name"], again.resource["run_name"]) == ("made", "moved")
    assert "moved" in again.envelope["message"]
    assert "made" not in " ".join(word for step in again.envelope["next_steps_structured"] for word in step["argv"])
    assert again.resource["output_path"] == str(workspace.run_directory("moved"))


async def test_dataset_rows_stay_where_they_are_sound(workspace: Workspace, model: StubModel) -> None:
    """An unfinished run that goes on leaves the file as the journal recorded it; damaged or gone, it is written again, the same
    bytes."""
    workspace.write_rows("echo one", "held two")
    path = workspace.run_directory("torn") / "dataset_rows.jsonl"
    kept: list[tuple[bytes, int]] = []
    for calls, spoil in ((1, None), (2, None), (3, path.unlink), (4, lambda: path.write_bytes(b"spoilt"))):
        if spoil is not None:
            spoil()
        async with workspace.start("--name", "torn") as running:
            await model.wait_calls(calls, "held")
            await remembered(workspace, "torn", calls)
            kept.append((path.read_bytes(), path.stat().st_ino))
            running.signal(signal.SIGKILL)
            await running.end()
    assert kept[0] == kept[1]
    assert [data for data, _ in kept] == [kept[0][0]] * 4
    model.release()
    assert (await workspace.run("--name", "torn")).code == 0
    assert path.read_bytes() == kept[0][0]


async def test_a_large_dataset_that_is_changed_in_place_halts_the_run(workspace: Workspace, model: StubModel) -> None:
    """What the run was locked to is gone, so no further row is dispatched; what is done stays, and with the file as it was the
    run is finished."""
    padding = "x" * 2_000_000
    prompts = ["held 0", *(f"echo {number}" for number in range(1, 12))]
    rows = [json.dumps({"user_prompt": prompt, "ground_truth": prompt, "notes": padding}) for prompt in prompts]
    sound = "".join(row + "\n" for row in rows).encode()
    workspace.dataset.write_bytes(sound)
    async with workspace.start("--name", "large", "--max-in-flight", "1", "--json") as running:
        await model.wait_calls(1, "held")
        with workspace.dataset.open("r+b") as file:
            file.seek(-10, 2)
            file.write(b"y")
        model.release()
        ended = await running.end()
    assert ended.code == 1, ended.said
    assert "was changed in place" in ended.resource["halt_reason"]
    assert ended.resource["succeeded"] == 11
    changed = await workspace.run("--name", "large", "--json")
    assert "Changed: dataset" in changed.said
    workspace.dataset.write_bytes(sound)
    finished = await workspace.run("--name", "large", "--json")
    assert finished.code == 0, finished.said
    assert (finished.resource["dispatched"], finished.resource["resumed"]) == (1, 11)
    assert model.calls.total() == 12
