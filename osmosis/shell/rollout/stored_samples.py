"""Samples of an earlier run, to be graded anew without running a workflow (issue 8, ruling 27)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from osmosis.pure.canonical import decode_json
from osmosis.pure.protocol import STORED_SAMPLES_ENV, Sample
from osmosis.shell.rollout.file_worker import off_loop
from osmosis.shell.rollout.types.sample import RolloutSample


@dataclass(frozen=True)
class StoredSamples:
    """A directory with the sample of each rollout to come, `<rollout_id>.json`."""

    root: Path

    @classmethod
    def from_environment(cls) -> StoredSamples | None:
        """The directory that the runner names; None when workflows are to run."""
        root = os.environ.get(STORED_SAMPLES_ENV)
        return cls(Path(root)) if root else None

    async def load(self, rollout_id: str) -> RolloutSample:
        """The sample as its workflow left it: without reward, and not removed. Raises ValueError when there is none."""
        path = self.root / f"{rollout_id}.json"
        try:
            sample = msgspec.convert(decode_json(await off_loop(path.read_bytes)), Sample)
        except (OSError, ValueError) as error:
            raise ValueError(f"there is no stored sample to grade: {error}") from None
        return RolloutSample(
            messages=sample.messages, label=sample.label, metrics=sample.metrics, extra_fields=sample.extra_fields
        )
