"""What the trials of a run left: files of somebody else's, read without following what lies in their place (issues 8 and 9)."""

from __future__ import annotations

from collections.abc import Iterable

from osmosis.pure.index import IndexRow
from osmosis.pure.journal import WorkItem
from osmosis.pure.protocol import is_path_segment
from osmosis.pure.sample_details import SampleDetails, sample_details
from osmosis.shell.evaluation.hostile_files import Unreadable, read_file
from osmosis.shell.evaluation.run_directory import RunDirectory

SAMPLE_FILE = "sample.json"
_MAX_BYTES = 256 << 20


def read_trajectory(directory: RunDirectory, item: WorkItem, rollout_id: str) -> bytes | None:
    """The stored trajectory of an item: the collected copy, else that of its trial. None when there is none."""
    try:
        return read_file(directory.path, f"trajectories/row_{item.row_index}_run_{item.run_index}.json", _MAX_BYTES)
    except Unreadable:
        return read_trial_file(directory, rollout_id, "trajectory.json")


def read_trial_file(directory: RunDirectory, rollout_id: str, name: str) -> bytes | None:
    """A file that a trial left; None when there is none, or when something else lies in its place."""
    if not is_path_segment(rollout_id):
        return None
    try:
        return read_file(directory.trials, f"{rollout_id}/{name}", _MAX_BYTES)
    except Unreadable:
        return None


def read_details(directory: RunDirectory, samples: Iterable[tuple[WorkItem, str]]) -> dict[WorkItem, SampleDetails]:
    """The details of each sample, given as its item and rollout id. One trajectory is held at a time."""
    return {item: sample_details(read_trajectory(directory, item, rollout_id), rollout_id) for item, rollout_id in samples}


def details_of(directory: RunDirectory, index: Iterable[IndexRow]) -> dict[WorkItem, SampleDetails]:
    """The details of each sample of an index."""
    return read_details(directory, ((WorkItem(row.row_index, row.run_index), row.rollout_id) for row in index))
