"""What an item may cost, in calls that do not depend on the machine (issue 6)."""

from __future__ import annotations

import gc
import json
import shutil
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from osmosis.pure.journal import Result, RunHistory, Status, WorkItem
from osmosis.pure.selection import RowRange, RowSelection
from osmosis.pure.tally import Tally
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory
from tests.strategies.run import plan_of

AT = "2026-11-30T12:35:44.521865Z"
ITEMS = 20
MANY = 1000


class SyncCounter(FileLayer):
    """The real disk, counting syncs by step."""

    def __init__(self) -> None:
        self.syncs: Counter[str] = Counter()

    def sync(self, descriptor: int, *, step: str) -> None:
        """Count."""
        self.syncs[step] += 1

    def sync_file(self, path: Path | str, *, step: str) -> None:
        """Count."""
        self.syncs[step] += 1

    def sync_directory(self, path: Path | str, *, step: str) -> None:
        """Count."""
        self.syncs[step] += 1


def trial(directory: RunDirectory, row: int) -> Result:
    """The files of a finished rollout, and its result."""
    name = f"{row:032x}"
    path = directory.trial(name)
    path.mkdir(parents=True)
    document = {"schema_version": "ATIF-v1.7", "session_id": name, "agent": {"name": "a", "version": "1"}, "steps": []}
    (path / "trajectory.json").write_text(json.dumps(document | {"extra": {"osmosis": {"rollout_id": name}}}))
    return Result(WorkItem(row, 0), row, name, Status.SUCCESS, AT, 1.5, reward=1.0)


def test_a_projection_waits_for_the_disk_once_a_directory_and_not_once_an_item(tmp_path):
    """Copies of trajectories are synced when the run ends; while it goes on, only the journal and its evidence are."""
    disk, directory = SyncCounter(), RunDirectory(tmp_path, "cheap")
    directory.path.mkdir()
    projector = Projector(disk, directory, pytest.fail)
    projector.publish(trial(directory, 0))
    first = sum(disk.syncs.values())
    for row in range(1, ITEMS):
        projector.publish(trial(directory, row))
    projector.close()
    assert len(list((directory.path / "trajectories").iterdir())) == ITEMS
    assert sum(disk.syncs.values()) == first <= 3


def test_evidence_is_synced_once_a_file_and_once_a_directory(tmp_path):
    """A trial of one file in one directory costs two syncs, whatever else lies beside it."""
    disk, directory = SyncCounter(), RunDirectory(tmp_path, "evidence")
    result = trial(directory, 0)
    disk.sync_tree(directory.trial(result.rollout_id), step="trial")
    assert disk.syncs == {"trial": 2}


def test_what_was_projected_is_not_read_again_at_the_end(tmp_path):
    """The final projections use what this process already knows of its own items."""
    directory = RunDirectory(tmp_path, "known")
    directory.path.mkdir()
    projector = Projector(FileLayer(), directory, pytest.fail)
    rows = [projector.publish(trial(directory, row)) for row in range(ITEMS)]
    projector.close()
    shutil.rmtree(directory.trials)
    later = Projector(FileLayer(), directory, pytest.fail, projector)
    assert [later._final_row(trial_result(row), resumed=False) for row in range(ITEMS)] == rows


def test_what_is_kept_of_an_item_while_a_run_goes_on_is_little(tmp_path):
    """Of what was projected the end needs to know what the journal does not say: less than a hundred bytes an item, in what
    Python allocates."""
    directory = RunDirectory(tmp_path, "little")
    directory.path.mkdir()
    results = [trial(directory, row) for row in range(MANY)]
    manifest = plan_of(RowSelection((RowRange(0, MANY - 1),)), 1).manifest
    projector = Projector(FileLayer(), directory, pytest.fail)
    projector.begin(manifest, RunHistory(MANY), Tally(1.0))
    projector.publish(results[0])
    gc.collect()
    tracemalloc.start()
    try:
        for result in results[1:]:
            projector.publish(result)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        projector.close()
    assert held / MANY < 100
    shutil.rmtree(directory.trials)
    assert all(projector._final_row(result, resumed=False).trajectory_filename for result in results)


def trial_result(row: int) -> Result:
    """The result of a trial that is gone."""
    return Result(WorkItem(row, 0), row, f"{row:032x}", Status.SUCCESS, AT, 1.5, reward=1.0)
