"""What an item may cost, in calls that do not depend on the machine (issue 6)."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory

AT = "2026-11-30T12:35:44.521865Z"
ITEMS = 20


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


def trial_result(row: int) -> Result:
    """The result of a trial that is gone."""
    return Result(WorkItem(row, 0), row, f"{row:032x}", Status.SUCCESS, AT, 1.5, reward=1.0)
