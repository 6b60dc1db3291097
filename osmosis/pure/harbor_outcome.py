"""What a finished Harbor trial means to a rollout (contract: rollout_protocol 13.7; ruling 7).

The shell reads a trial's result into `TrialFacts`; here it is decided whether the rollout succeeded, with which reward, and
whose fault it was if not. Better than the public package in two places: a timeout of Harbor's is a timeout, and a grader that
took the sample out has skipped the rollout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from osmosis.pure.container_files import REMOVED_KEY, Grade
from osmosis.pure.protocol import ErrorCategory

REWARD_KEY: Final = "reward"

_TIMEOUTS: Final = frozenset(
    {"AgentTimeoutError", "AgentSetupTimeoutError", "EnvironmentStartTimeoutError", "VerifierTimeoutError", "TimeoutError"}
)
_HTTP_ERRORS: Final = frozenset(
    {
        "SandboxConnectionException",
        "SandboxRateLimitException",
        "PoolStateStoreUnavailableException",
        "SandboxApiException",
        "SandboxAPIError",
        "NetworkConnectionError",
        "ApiRateLimitError",
        "ApiOverloadedError",
        "ApiInternalServerError",
        "ApiConnectionClosedError",
        "ApiResponseStalledError",
    }
)
_VALIDATION_ERRORS: Final = frozenset(
    {"RewardFileNotFoundError", "RewardFileEmptyError", "VerifierOutputParseError", "ValidationError", "ValueError"}
)


class TrialPhase(StrEnum):
    """How far a trial came; in diagnostics."""

    SETUP = "setup"
    ENVIRONMENT_SETUP = "environment_setup"
    AGENT_SETUP = "agent_setup"
    AGENT = "agent"
    VERIFIER = "verifier"
    GRADING = "grading"


class TrialTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of each phase; None for a phase that never began."""

    environment_setup: float | None = None
    agent_setup: float | None = None
    agent: float | None = None
    verifier: float | None = None
    total: float | None = None


class TrialFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial left behind. `rewards` None: there is no verifier result. `verified`: verification began."""

    exception_type: str | None = None
    exception_message: str = ""
    verified: bool = False
    graded: bool = True
    rewards: Mapping[str, Any] | None = None
    grade: Grade | None = None
    workflow_error: str | None = None
    workflow_category: ErrorCategory | None = None
    times: TrialTimes = TrialTimes()


class TrialVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rollout. `error` None: it succeeded, with `reward` unless the sample was taken out.

    `workflow_failed` tells a failure of the workflow, after which there is nothing to grade, from one of the grader.
    """

    error: str | None = None
    category: ErrorCategory | None = None
    workflow_failed: bool = False
    reward: float | None = None
    removed: bool = False
    phase: TrialPhase = TrialPhase.GRADING


def judge_trial(facts: TrialFacts) -> TrialVerdict:
    """The verdict on a trial that was not cancelled."""
    phase = reached_phase(facts)
    if facts.workflow_error is not None:
        return TrialVerdict(
            error=facts.workflow_error,
            category=facts.workflow_category or ErrorCategory.AGENT_ERROR,
            workflow_failed=True,
            phase=TrialPhase.AGENT,
        )
    failed = facts.exception_type
    words = facts.exception_message or failed or ""
    if failed is not None and (not facts.verified or is_agent_exception(failed)):
        return _failed(words, category_of(failed), TrialPhase.AGENT if facts.verified else phase, workflow=True)
    if not facts.graded:
        return TrialVerdict(phase=phase)
    if facts.grade is not None and facts.grade.error is not None:
        return _failed(facts.grade.error, facts.grade.error_category or ErrorCategory.AGENT_ERROR, TrialPhase.GRADING)
    if failed is not None and facts.rewards is None:
        return _failed(words, category_of(failed), TrialPhase.VERIFIER)
    return _rewarded(facts)


def is_agent_exception(name: str) -> bool:
    """Whether Harbor records this exception of the agent's and goes on to verify nevertheless."""
    return name.startswith(("NonZeroAgentExitCode", "Agent", "Api"))


def _rewarded(facts: TrialFacts) -> TrialVerdict:
    removed = facts.grade is not None and facts.grade.remove_sample
    if facts.rewards is None:
        text = "The trial has no reward: its task has neither tests/test.sh nor a grader that could set one"
        return _failed(text, ErrorCategory.VALIDATION_ERROR, TrialPhase.VERIFIER)
    if removed or facts.rewards.get(REMOVED_KEY) == 1:
        return TrialVerdict(removed=True)
    reward = facts.rewards.get(REWARD_KEY)
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        text = f"The verifier's result has no usable {REWARD_KEY!r}: {reward!r}"
        return _failed(text, ErrorCategory.VALIDATION_ERROR, TrialPhase.GRADING)
    return TrialVerdict(reward=float(reward))


def _failed(message: str, category: ErrorCategory, phase: TrialPhase, *, workflow: bool = False) -> TrialVerdict:
    return TrialVerdict(error=message, category=category, workflow_failed=workflow, phase=phase)


def category_of(exception_type: str) -> ErrorCategory:
    """The category of an exception of which only the name is left."""
    if exception_type in _TIMEOUTS:
        return ErrorCategory.TIMEOUT
    if exception_type in _HTTP_ERRORS:
        return ErrorCategory.HTTP_ERROR
    return ErrorCategory.VALIDATION_ERROR if exception_type in _VALIDATION_ERRORS else ErrorCategory.AGENT_ERROR


def reached_phase(facts: TrialFacts) -> TrialPhase:
    """How far the trial came, by which of its phases have begun."""
    times = facts.times
    for begun, phase in (
        (times.verifier, TrialPhase.VERIFIER),
        (times.agent, TrialPhase.AGENT),
        (times.agent_setup, TrialPhase.AGENT_SETUP),
        (times.environment_setup, TrialPhase.ENVIRONMENT_SETUP),
    ):
        if begun is not None:
            return TrialPhase.GRADING if phase is TrialPhase.VERIFIER and facts.exception_type is None else phase
    return TrialPhase.SETUP


class Usage(msgspec.Struct, frozen=True):
    """Tokens and cost that a trial reports; None where it says nothing."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


def usage_metrics(usage: Usage) -> dict[str, float]:
    """The part of a sample's metrics that comes from the trial."""
    found: dict[str, float | None] = msgspec.to_builtins(usage)
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}


def diagnostics(verdict: TrialVerdict, facts: TrialFacts, skipped: tuple[str, ...] = ()) -> dict[str, Any]:
    """The content of `diagnostics.json`. `skipped` tells which files of the sandbox were left out, and why."""
    found: dict[str, Any] = {
        "backend": "harbor",
        "phase": verdict.phase.value,
        "harbor_exception_type": facts.exception_type,
        "category": None if verdict.category is None else verdict.category.value,
        "timings_sec": msgspec.to_builtins(facts.times),
    }
    if skipped:
        found["skipped_files"] = list(skipped)
    return found
