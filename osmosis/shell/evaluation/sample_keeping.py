"""Keeps the sample of a rollout whose server kept a trajectory and no sample, as the public package's does (ruling 27).

`eval regrade` reads it later. The trial's directory belongs to the rollout, so nothing is followed and nothing replaced there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from osmosis.pure.protocol import Sample, encode

SAMPLE_FILE = "sample.json"
_TRAJECTORY_FILE = "trajectory.json"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_sample(trial: Path, sample: Sample | None) -> bool:
    """Write `sample` into the directory `trial`; whether that was done.

    A rollout without a trajectory wants none of it kept. Where a file or the disk is in the way, the rollout counts all the
    same; only it cannot be graded anew.
    """
    if sample is None:
        return False
    with suppress(OSError):
        directory = os.open(trial, _DIRECTORY)
        try:
            os.stat(_TRAJECTORY_FILE, dir_fd=directory, follow_symlinks=False)
            with open(os.open(SAMPLE_FILE, _NEW_FILE, 0o600, dir_fd=directory), "wb") as file:
                file.write(encode(sample) + b"\n")
        finally:
            os.close(directory)
        return True
    return False
