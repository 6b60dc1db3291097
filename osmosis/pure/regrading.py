"""Which items of a run can be graded anew, and what each of them becomes (issue 8, ruling 27).

A sample that is stored is graded, whatever came of it before. An item that failed before it had a sample stays failed in the
same words: no grader can change that. A sample that should be there and is not is said, item by item, and never counted as
the model's failure.
"""

from __future__ import annotations

import msgspec

from osmosis.pure.journal import Result, Status
from osmosis.pure.outcome import Outcome

NO_STORED_SAMPLE = "no_stored_sample"
"""`error_type` of an item whose rollout server kept no `sample.json`, such as the public package's."""


class Regraded(msgspec.Struct, frozen=True):
    """What came of it: items graded anew, carried over as failed, and without a stored sample; passed ones before and after."""

    run_name: str
    parent: str
    path: str
    items: int
    graded: int
    carried_over: int
    without_sample: int
    passed_before: int
    passed: int


def ungradable(parent: Result, rollout_id: str, at: str) -> Result:
    """The result of an item that has no stored sample. `at` is now, in ISO 8601 UTC."""
    if parent.status is Status.FAILED:
        return msgspec.structs.replace(parent, rollout_id=rollout_id, at=at, duration_ms=0.0, cost_usd=None)
    return msgspec.structs.replace(
        parent,
        rollout_id=rollout_id,
        at=at,
        status=Status.FAILED,
        reward=None,
        duration_ms=0.0,
        cost_usd=None,
        error_type=NO_STORED_SAMPLE,
        error_message=f"the rollout server of the parent run kept no sample.json of rollout {parent.rollout_id}",
    )


def regraded(parent: Result, outcome: Outcome, rollout_id: str, at: str, duration_ms: float) -> Result:
    """The result of an item that was graded anew. Its model calls are the parent's, and this time they cost nothing."""
    return msgspec.structs.replace(
        parent,
        rollout_id=rollout_id,
        at=at,
        status=outcome.status,
        reward=outcome.reward,
        duration_ms=duration_ms,
        cost_usd=None,
        error_type=outcome.error_type,
        error_message=outcome.error_message,
    )
