"""The running count of a run: what the live display shows, by the rules of `metrics.json` (E10, E29, `eval_local.md` 5).

A `Tally` is a value: adding a result gives a new one, and removing a superseded result gives back the one before it, in
constant time. `osmosis.pure.metrics.summarize` counts whole frames by the same rules; a property test ties the two together.
This module needs no polars, so the live display starts at once.

The counts always add up: done = succeeded + failed + skipped; scored = succeeded + failed; passed <= graded <= succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec

from osmosis.pure.journal import Result, Status
from osmosis.pure.report import ItemFinished, Progress
from osmosis.pure.usage import TrajectoryUsage, rollout_usage


def is_graded(status: Status, reward: float | None) -> bool:
    """Whether an attempt has a grade: it succeeded and carries a finite reward. A failed attempt never has one."""
    return status is Status.SUCCESS and reward is not None and isfinite(reward)


def passed(reward: float | None, pass_threshold: float) -> bool:
    """Whether a graded attempt passes: its reward reaches the threshold. No reward, or one that is not finite, never passes.

    The one place of the rule; `osmosis.pure.metrics.passed_expression` is the same for columns.
    """
    return reward is not None and isfinite(reward) and reward >= pass_threshold


def pass_rate(passed_count: int, scored: int) -> float:
    """passed / scored; the integer 0 when nothing is scored, as `metrics.json` writes it (ruling 6)."""
    return passed_count / scored if scored else 0


class Tally(msgspec.Struct, frozen=True):
    """Counts over the current terminal results of a run.

    `scored` leaves skipped results out and includes failed ones; `graded` have a reward; `tokens` sums what was reported, over
    all results, with nothing reported counting as 0.
    """

    pass_threshold: float
    done: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    scored: int = 0
    graded: int = 0
    passed: int = 0
    tokens: int = 0

    @property
    def pass_rate(self) -> float:
        """passed / scored, 0 when nothing is scored: skipped results are left out, failed ones are not (E10)."""
        return pass_rate(self.passed, self.scored)

    def add(self, result: Result, trajectory: TrajectoryUsage | None = None) -> Tally:
        """The tally with one more result. `trajectory` is what its trajectory reports, for when the bridge saw no usage."""
        return self._count(result, trajectory, +1)

    def remove(self, result: Result, trajectory: TrajectoryUsage | None = None) -> Tally:
        """The tally without a result that `add` took before, with the same `trajectory`; for a retry that supersedes it."""
        return self._count(result, trajectory, -1)

    def _count(self, result: Result, trajectory: TrajectoryUsage | None, sign: int) -> Tally:
        status = result.status
        graded = is_graded(status, result.reward)
        return Tally(
            pass_threshold=self.pass_threshold,
            done=self.done + sign,
            succeeded=self.succeeded + sign * (status is Status.SUCCESS),
            failed=self.failed + sign * (status is Status.FAILED),
            skipped=self.skipped + sign * (status is Status.SKIPPED),
            scored=self.scored + sign * (status is not Status.SKIPPED),
            graded=self.graded + sign * graded,
            passed=self.passed + sign * (graded and passed(result.reward, self.pass_threshold)),
            tokens=self.tokens + sign * (rollout_usage(result.calls, trajectory).tokens or 0),
        )


def finished_item(result: Result, pass_threshold: float) -> ItemFinished:
    """A durable result as views are told of it."""
    graded = is_graded(result.status, result.reward)
    return ItemFinished(
        item=result.item,
        source_row_index=result.source_row_index,
        rollout_id=result.rollout_id,
        status=result.status,
        reward=result.reward,
        error_type=result.error_type,
        duration_ms=result.duration_ms,
        passed=graded and passed(result.reward, pass_threshold),
        tokens=rollout_usage(result.calls, None).tokens,
        cost_usd=result.cost_usd,
    )


def after_each(finished: Sequence[ItemFinished], counts: Progress) -> tuple[Progress, ...]:
    """The counts as they were when each of `finished`, in order, had just been counted; `counts` are those with all of them.

    Results become durable in groups. What is shown beside one of them must not be ahead of it.
    """
    found: list[Progress] = []
    for item in reversed(finished):
        found.append(counts)
        counts = msgspec.structs.replace(
            counts,
            done=counts.done - 1,
            succeeded=counts.succeeded - (item.status is Status.SUCCESS),
            failed=counts.failed - (item.status is Status.FAILED),
            skipped=counts.skipped - (item.status is Status.SKIPPED),
            scored=counts.scored - (item.status is not Status.SKIPPED),
            passed=counts.passed - item.passed,
            tokens=counts.tokens - (item.tokens or 0),
        )
    return tuple(reversed(found))
