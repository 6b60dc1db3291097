"""Reads what a finished trial left and makes the rollout's outcome of it (contract: rollout_protocol 13.7).

What counts as what is decided by `pure.harbor_outcome`; the trial's files are read without trust.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from osmosis.pure.container_files import (
    FAILURE,
    GRADE_NAME,
    RESULT_NAME,
    TRAJECTORY_NAME,
    ContainerResult,
    Grade,
    decode_container_result,
    decode_grade,
)
from osmosis.pure.errors import OsmosisError
from osmosis.pure.harbor_outcome import (
    TrialFacts,
    TrialTimes,
    TrialVerdict,
    Usage,
    diagnostics,
    judge_trial,
    usage_metrics,
)
from osmosis.pure.protocol import ErrorCategory, RolloutStatus
from osmosis.pure.trajectory import decode_trajectory
from osmosis.pure.trajectory_messages import messages_of
from osmosis.shell.rollout.container.runner import MAX_FILE_BYTES, sample_of
from osmosis.shell.rollout.tree_copy import read_regular
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionResult
from osmosis.shell.rollout.types.sample import RolloutSample

logger = logging.getLogger(__name__)


class FinishedTrial:
    """A trial that has ended: Harbor's result, and the directory that holds its files until they are settled."""

    def __init__(self, result: Any, directory: Path, *, workflow: bool, oracle: bool, verified: bool, graded: bool) -> None:
        self._result = result
        self._directory = directory
        self._workflow = workflow
        self._oracle = oracle
        self._left = self._read_left() if workflow else None
        self.facts = self._facts(verified, graded)
        self.verdict: TrialVerdict = judge_trial(self.facts)

    @property
    def clean(self) -> bool:
        """Whether nothing went wrong, so that the trial's directory need not be kept."""
        return self.verdict.error is None and self.facts.exception_type is None

    def outcome(self, label: str | None, skipped: tuple[str, ...]) -> ExecutionOutcome:
        """The rollout's outcome. `skipped` tells of files of the sandbox that were left out."""
        noted = diagnostics(self.verdict, self.facts, skipped)
        sample = self._sample(label)
        if self.verdict.workflow_failed:
            failed = _failure(self.verdict, None, noted)
            return ExecutionOutcome(workflow=failed)
        workflow = ExecutionResult(status=RolloutStatus.SUCCESS, sample=sample, extra_fields=noted)
        if not self.facts.graded:
            return ExecutionOutcome(workflow=workflow)
        if self.verdict.error is not None:
            return ExecutionOutcome(workflow=workflow, grader=_failure(self.verdict, sample, noted))
        return ExecutionOutcome(
            workflow=workflow,
            grader=ExecutionResult(status=RolloutStatus.SUCCESS, sample=self._graded(sample), extra_fields=noted),
        )

    def _facts(self, verified: bool, graded: bool) -> TrialFacts:
        result = self._result
        exception = result.exception_info
        failed = self._left if self._left is not None and self._left.status == FAILURE else None
        category = failed.err_category if failed is not None else None
        return TrialFacts(
            exception_type=None if exception is None else exception.exception_type,
            exception_message="" if exception is None else exception.exception_message,
            verified=verified,
            graded=graded,
            rewards=None if result.verifier_result is None else (result.verifier_result.rewards or {}),
            grade=self._grade(),
            workflow_error=None if failed is None else failed.err_message or "The workflow failed and does not say why",
            workflow_category=category if isinstance(category, ErrorCategory) else None,
            times=_times(result),
        )

    def _read_left(self) -> ContainerResult | None:
        data = read_regular(self._directory / "agent" / RESULT_NAME, MAX_FILE_BYTES)
        try:
            return None if data is None else decode_container_result(data)
        except ValueError as error:
            logger.warning("The workflow's result in %s cannot be read: %s", self._directory.name, error)
            return None

    def _grade(self) -> Grade | None:
        data = read_regular(self._directory / "verifier" / GRADE_NAME, MAX_FILE_BYTES)
        try:
            return None if data is None else decode_grade(data)
        except ValueError as error:
            logger.warning("The grade in %s cannot be read: %s", self._directory.name, error)
            return None

    def _sample(self, label: str | None) -> RolloutSample | None:
        sample = self._workflow_sample() if self._workflow else self._native_sample()
        if sample is None:
            return None
        if sample.label is None:
            sample.label = label
        sample.metrics = {**sample.metrics, **usage_metrics(_usage(self._result))}
        return sample

    def _workflow_sample(self) -> RolloutSample | None:
        if self._left is None:
            return None
        try:
            return sample_of(self._left)
        except ValueError as error:
            logger.warning("The sample in %s is not valid: %s", self._directory.name, error)
            return None

    def _native_sample(self) -> RolloutSample | None:
        """The conversation of the trial's one trajectory. The oracle has none, but its reward needs a sample to stand in."""
        if self._oracle:
            return RolloutSample(trajectory_messages=None)
        found = sorted((self._directory / "agent").glob("*trajectory*.json"))
        if len(found) != 1:
            logger.info("The trial %s has %d trajectories, so its sample has no messages", self._directory.name, len(found))
            return RolloutSample(trajectory_messages=None)
        data = read_regular(found[0], MAX_FILE_BYTES)
        try:
            messages = [] if data is None else messages_of(decode_trajectory(data, TRAJECTORY_NAME))
        except (OsmosisError, ValueError) as error:
            logger.warning("The trajectory of %s is not valid: %s", self._directory.name, error)
            messages = []
        return RolloutSample(messages=messages) if messages else RolloutSample(trajectory_messages=None)

    def _graded(self, sample: RolloutSample | None) -> RolloutSample:
        graded = RolloutSample(trajectory_messages=None) if sample is None else sample.model_copy(deep=True)
        grade = self.facts.grade
        if grade is not None:
            graded.metrics = {**graded.metrics, **grade.metrics}
            graded.extra_fields = {**graded.extra_fields, **grade.extra_fields}
        graded.reward = self.verdict.reward
        graded.remove_sample = self.verdict.removed
        return graded


def _failure(verdict: TrialVerdict, sample: RolloutSample | None, noted: dict[str, Any]) -> ExecutionResult:
    return ExecutionResult(
        status=RolloutStatus.FAILURE,
        sample=sample,
        err_message=verdict.error,
        err_category=verdict.category,
        extra_fields=noted,
    )


def setup_failure(error: BaseException, message: str, category: ErrorCategory) -> ExecutionOutcome:
    """The outcome of a rollout whose trial could not even begin."""
    noted: dict[str, Any] = {
        "backend": "harbor",
        "phase": "setup",
        "harbor_exception_type": type(error).__name__,
        "category": category.value,
        "timings_sec": {},
    }
    failed = ExecutionResult(status=RolloutStatus.FAILURE, err_message=message, err_category=category, extra_fields=noted)
    return ExecutionOutcome(workflow=failed)


def _usage(result: Any) -> Usage:
    tokens = result.compute_token_cost_totals()
    return Usage(*tokens)


def _times(result: Any) -> TrialTimes:
    return TrialTimes(
        environment_setup=_seconds(result.environment_setup),
        agent_setup=_seconds(result.agent_setup),
        agent=_seconds(result.agent_execution),
        verifier=_seconds(result.verifier),
        total=_between(result.started_at, result.finished_at),
    )


def _seconds(timing: Any) -> float | None:
    """How long a phase took; 0 for one that began and never ended."""
    if timing is None or timing.started_at is None:
        return None
    return _between(timing.started_at, timing.finished_at) or 0.0


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 3)
