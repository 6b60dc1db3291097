"""What a rollout plants in its trial directory is never followed and never published."""

from __future__ import annotations

from pathlib import Path

from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory

ROLLOUT = "a" * 32
RESULT = Result(WorkItem(0, 0), 0, ROLLOUT, Status.SUCCESS, "2026-11-30T12:35:44.521865Z", 1.0)


def test_a_trial_that_became_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    """A rollout that replaces its own directory by a link gets nothing from behind the link into the run, and is told of."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "artifacts").mkdir(parents=True)
    (elsewhere / "artifacts" / "private.txt").write_text("not yours")
    (elsewhere / "trajectory.json").write_text(f'{{"session_id": "{ROLLOUT}"}}')
    directory = RunDirectory(tmp_path, "run")
    directory.trials.mkdir(parents=True)
    directory.trial(ROLLOUT).symlink_to(elsewhere)
    warnings: list[str] = []
    projector = Projector(FileLayer(), directory, warnings.append)
    row = projector.publish(RESULT)
    projector.close()
    assert row.trajectory_filename is None
    assert not (directory.path / "artifacts").exists()
    assert not (directory.path / "trajectories").exists()
    assert ROLLOUT in warnings[0]
