"""What a run shows while it goes on, and that one item costs the same however long the run is (issue 3)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from osmosis.pure.journal import Attempt, InvocationStarted, Result, RunHistory, Status, WorkItem
from osmosis.pure.supervisor import rollout_id
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.journal_file import JournalReading, JournalWriter, read_journal
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_evidence import RunEvidence
from tests.integration.stub_model import StubModel
from tests.integration.workspaces import PATIENCE, Workspace, eventually

AT = "2026-11-30T12:35:44.521865Z"


@pytest.mark.slow
async def test_waiting_on_a_rate_limit_is_visible(workspace: Workspace, model: StubModel) -> None:
    """On a terminal the live line counts the calls that a provider asked to wait, and when the next one tries again.

    They wait for as long as the bridge waits itself, and once that was seen, Ctrl-C need not.
    """
    workspace.write_rows("busy 20 beside one", "busy 20 beside two")
    terminal, side = os.openpty()
    seen = bytearray()
    loop = asyncio.get_running_loop()
    loop.add_reader(terminal, lambda: seen.extend(os.read(terminal, 1 << 16)))
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "osmosis.shell.cli.main",
            *workspace.arguments(),
            cwd=workspace.root,
            env=workspace.environment | {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"},
            stdin=side,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=side,
        )
        await eventually(lambda: b"2 waiting on rate limit, next try in " in seen or process.returncode is not None)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 130, seen.decode(errors="replace")
    finally:
        loop.remove_reader(terminal)
        os.close(terminal)
        os.close(side)
    assert model.count("busy") == 2


class CountingDisk(FileLayer):
    """The real disk, counting what is asked of it."""

    def __init__(self) -> None:
        self.work: Counter[str] = Counter()

    def write(self, descriptor: int, data: bytes, *, step: str) -> None:
        """Count the call and its bytes."""
        self.work[f"{step} calls"] += 1
        self.work[f"{step} bytes"] += len(data)
        super().write(descriptor, data, step=step)

    def sync(self, descriptor: int, *, step: str) -> None:
        """Count; waiting for a real disk two thousand times would prove nothing more."""
        self.work[f"{step} calls"] += 1

    def rename(self, source: Path, target: Path, *, step: str, durable: bool = True) -> None:
        """Count the call."""
        self.work[f"{step} calls"] += 1
        super().rename(source, target, step=step, durable=durable)


async def finish_item(journal: JournalWriter, projector: Projector, committed: asyncio.Queue[None], row: int) -> None:
    """One item's life on the disk: attempt, durable result, projection."""
    item = WorkItem(row, 0)
    name = rollout_id("flat", item, 1)
    result = Result(item, row, name, Status.SUCCESS, AT, 1.5, reward=1.0)
    journal.append(Attempt(item, name, 1, AT))
    journal.commit(result)
    async with asyncio.timeout(PATIENCE):
        await committed.get()
    projector.publish(result)


@pytest.mark.slow
async def test_the_cost_of_an_item_does_not_grow(tmp_path: Path) -> None:
    """The last thousand of ten thousand items cost the calls of the first, and the bytes but for longer numbers; memory holds
    a small record an item, not the run."""
    disk = CountingDisk()
    directory = RunDirectory(tmp_path, "flat")
    directory.path.mkdir()
    committed: asyncio.Queue[None] = asyncio.Queue()
    failures: list[Exception] = []
    journal = JournalWriter(
        disk,
        directory.journal,
        JournalReading(RunHistory(20_000)),
        evidence=RunEvidence(directory),
        on_committed=lambda _: committed.put_nowait(None),
        on_failed=failures.append,
    )
    projector = Projector(disk, directory, pytest.fail)
    journal.append(InvocationStarted("flat", AT, "0.3.10"))
    costs: list[dict[str, int]] = []
    tracemalloc.start()
    try:
        for row in range(10_000, 20_000):
            if row % 1000 == 0:
                disk.work.clear()
            await finish_item(journal, projector, committed, row)
            if row % 1000 == 999:
                costs.append(dict(disk.work))
            if row == 10_999:
                early, _ = tracemalloc.get_traced_memory()
        late, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await journal.close()
    projector.close()
    assert failures == []
    first, last = costs[0], costs[-1]
    assert first["journal.sync calls"] == last["journal.sync calls"] == 1000
    assert first["index.append calls"] == last["index.append calls"] == 1000
    assert 1000 <= last["journal.write calls"] <= 2000
    for counted in ("journal.write bytes", "index.append bytes"):
        assert last[counted] <= first[counted] * 1.02
    assert (late - early) / 9000 < 2000, "bytes that each item leaves in memory"
    assert len(read_journal(directory.journal, 20_000).history.results) == 10_000


async def test_a_record_that_cannot_be_written_is_a_failure_and_not_a_silence(tmp_path: Path) -> None:
    """Whatever goes wrong while a group is written, the run hears of it; results before it stay."""
    directory = RunDirectory(tmp_path, "odd")
    directory.path.mkdir()
    heard: asyncio.Queue[tuple[str, ...] | Exception] = asyncio.Queue()
    journal = JournalWriter(
        FileLayer(),
        directory.journal,
        JournalReading(RunHistory(2)),
        evidence=RunEvidence(directory),
        on_committed=heard.put_nowait,
        on_failed=heard.put_nowait,
    )
    names = [rollout_id("odd", WorkItem(row, 0), 1) for row in range(2)]
    for row, duration in enumerate((1.0, float("nan"))):
        journal.commit(Result(WorkItem(row, 0), row, names[row], Status.SUCCESS, AT, duration))
        async with asyncio.timeout(PATIENCE):
            outcome = await heard.get()
        assert outcome == (names[0],) if row == 0 else isinstance(outcome, ValueError)
    await journal.close()
    assert [item.row_index for item in read_journal(directory.journal, 2).history.results] == [0]
