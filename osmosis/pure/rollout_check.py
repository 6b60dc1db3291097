"""What `osmosis rollout validate` found: each check with its verdict, and the row that was run (issue 5; contract section 18).

A rollout is valid when its environment installs, its entrypoint imports, its server is healthy, and a row ends in a result. A
reward of any size is one: a stub model answers, so the score says nothing.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from osmosis.pure.journal import Status
from osmosis.pure.outcome import Outcome


class CheckStatus(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(msgspec.Struct, frozen=True):
    """One check: what was looked at, how it ended, and a word about it."""

    name: str
    status: CheckStatus
    detail: str = ""


class RolloutCheck(msgspec.Struct, frozen=True):
    """All checks of one rollout, in the order in which they were made. `model_calls` is None if no row was run."""

    name: str
    workspace_directory: str
    rollout_directory: str
    entrypoint: str
    checks: tuple[Check, ...]
    sdk_version: str | None = None
    model_calls: int | None = None

    @property
    def valid(self) -> bool:
        """Whether nothing failed."""
        return all(check.status is not CheckStatus.FAILED for check in self.checks)


def row_check(outcome: Outcome | None, model_calls: int) -> Check:
    """The check of the row: what its outcome means. None is a rollout that cancelled itself."""
    name = "row"
    asked = f"{model_calls} model call{'' if model_calls == 1 else 's'}"
    if outcome is None:
        return Check(name, CheckStatus.FAILED, f"the rollout was cancelled ({asked})")
    match outcome.status:
        case Status.SUCCESS:
            reward = "no reward" if outcome.reward is None else f"reward {outcome.reward:g}"
            return Check(name, CheckStatus.PASSED, f"{reward}, {asked}")
        case Status.SKIPPED:
            return Check(name, CheckStatus.PASSED, f"skipped by its grader, {asked}")
        case Status.FAILED:
            said = outcome.error_message or "no message"
            return Check(name, CheckStatus.FAILED, f"{outcome.error_type}: {said} ({asked})")


def unreachable_row(environment: str | None) -> Check:
    """The check of a row that cannot be run here, because its sandbox does not reach this machine's loopback."""
    where = environment or "its sandbox"
    return Check("row", CheckStatus.SKIPPED, f"{where} does not reach loopback; an evaluation opens a tunnel for it")
