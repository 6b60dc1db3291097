"""What `osmosis eval rubric` was asked to do."""

from __future__ import annotations

from pathlib import Path

import msgspec

from osmosis.shell.judge.evaluate_many import MAX_IN_FLIGHT


class RubricRequest(msgspec.Struct, frozen=True):
    """Paths are as the caller gave them; `output` may be a directory, or end in a slash. `timeout` is in seconds a try."""

    data: Path
    rubric: str
    model: str
    number: int = 1
    output: str | None = None
    resume: bool = False
    api_key: str | None = None
    timeout: float | None = None
    score_min: float = 0.0
    score_max: float = 1.0
    max_in_flight: int = MAX_IN_FLIGHT
    record: Path | None = None
    replay: Path | None = None

    def __repr__(self) -> str:
        return f"RubricRequest({str(self.data)!r}, {self.model!r})"


class RubricStep(msgspec.Struct, frozen=True):
    """One judgement just became durable, or failed; `done` of `total` are behind us, `failed` of them failed."""

    label: str
    run: int
    score: float | None
    error: str | None
    done: int
    failed: int
    total: int
    tokens: int
