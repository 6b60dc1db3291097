"""What a finished trial means (rollout_protocol 13.7)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.container_files import Grade
from osmosis.pure.harbor_outcome import TrialFacts, TrialPhase, TrialTimes, Usage, diagnostics, judge_trial, usage_metrics
from osmosis.pure.protocol import ErrorCategory

RUN = TrialTimes(environment_setup=1.0, agent_setup=1.0, agent=1.0)
VERIFIED = TrialTimes(environment_setup=1.0, agent_setup=1.0, agent=1.0, verifier=1.0)


def facts(**changes):
    """A trial that went well, with changes."""
    given: dict[str, Any] = {"verified": True, "rewards": {"reward": 1}, "times": VERIFIED} | changes
    return TrialFacts(**given)


def test_a_reward_counts():
    """Under its own key alone."""
    verdict = judge_trial(facts(rewards={"reward": 0.25, "other": 3}))
    assert (verdict.error, verdict.reward, verdict.phase) == (None, 0.25, TrialPhase.GRADING)


@pytest.mark.parametrize("reward", [None, "1", True, math.nan, math.inf, [1]])
def test_an_unusable_reward_fails_the_rollout(reward):
    """It is nobody's zero (ruling 7)."""
    verdict = judge_trial(facts(rewards={"reward": reward}))
    assert (verdict.category, verdict.workflow_failed) == (ErrorCategory.VALIDATION_ERROR, False)


def test_a_trial_without_any_verdict_says_so():
    """No tests, no grader."""
    verdict = judge_trial(facts(verified=False, rewards=None, times=RUN))
    assert verdict.category is ErrorCategory.VALIDATION_ERROR
    assert "no reward" in str(verdict.error)
    assert judge_trial(facts(graded=False, rewards=None, times=RUN)).error is None


@pytest.mark.parametrize(
    ("name", "times", "phase", "category"),
    [
        ("EnvironmentStartTimeoutError", TrialTimes(environment_setup=1.0), "environment_setup", ErrorCategory.TIMEOUT),
        ("RuntimeError", TrialTimes(environment_setup=1.0, agent_setup=1.0), "agent_setup", ErrorCategory.AGENT_ERROR),
        ("SandboxApiException", TrialTimes(environment_setup=1.0), "environment_setup", ErrorCategory.HTTP_ERROR),
        ("AgentTimeoutError", RUN, "agent", ErrorCategory.TIMEOUT),
        ("RuntimeError", TrialTimes(), "setup", ErrorCategory.AGENT_ERROR),
    ],
)
def test_what_fails_before_verification_is_the_workflows_failure(name, times, phase, category):
    """With Harbor's message, the phase it came in, and a category from the name of its type."""
    verdict = judge_trial(facts(verified=False, rewards=None, exception_type=name, exception_message="words", times=times))
    assert (verdict.error, verdict.phase, verdict.category, verdict.workflow_failed) == ("words", phase, category, True)


def test_an_agent_that_ran_out_of_time_has_failed_though_its_work_was_verified():
    """Harbor verifies what there is; the rollout failed all the same."""
    verdict = judge_trial(facts(exception_type="AgentTimeoutError", exception_message="late"))
    assert (verdict.error, verdict.workflow_failed, verdict.phase) == ("late", True, "agent")


def test_a_failed_verifier_keeps_the_workflows_success():
    """The grader's failure, with its own words if it left some."""
    verdict = judge_trial(facts(rewards=None, exception_type="RewardFileNotFoundError", exception_message="none"))
    assert (verdict.error, verdict.workflow_failed, verdict.category) == ("none", False, ErrorCategory.VALIDATION_ERROR)
    grade = Grade(error="boom", error_category=ErrorCategory.AGENT_ERROR)
    verdict = judge_trial(facts(rewards=None, exception_type="RewardFileNotFoundError", grade=grade))
    assert (verdict.error, verdict.category) == ("boom", ErrorCategory.AGENT_ERROR)


def test_trouble_while_cleaning_up_does_not_take_a_reward_back():
    """What failed after the verdict is not the rollout's failure."""
    verdict = judge_trial(facts(exception_type="RuntimeError", exception_message="compose down failed"))
    assert (verdict.error, verdict.reward) == (None, 1.0)


@pytest.mark.parametrize("changes", [{"grade": Grade(remove_sample=True)}, {"rewards": {"reward": 0.0, "removed": 1}}])
def test_a_sample_that_was_taken_out_has_no_reward(changes):
    """Whether the grade came back, or the reward file alone."""
    verdict = judge_trial(facts(**changes))
    assert (verdict.error, verdict.removed, verdict.reward) == (None, True, None)


def test_a_failed_workflow_speaks_for_itself():
    """Its own message and category win over the exception that Harbor saw."""
    verdict = judge_trial(
        facts(
            verified=False, exception_type="WorkflowFailedError", workflow_error="no", workflow_category=ErrorCategory.TIMEOUT
        )
    )
    assert (verdict.error, verdict.category, verdict.workflow_failed) == ("no", ErrorCategory.TIMEOUT, True)


@given(
    st.builds(
        TrialFacts,
        exception_type=st.none() | st.sampled_from(["AgentTimeoutError", "X", "VerifierTimeoutError"]),
        verified=st.booleans(),
        graded=st.booleans(),
        rewards=st.none() | st.dictionaries(st.sampled_from(["reward", "removed"]), st.floats() | st.text(max_size=3)),
        workflow_error=st.none() | st.just("w"),
        times=st.sampled_from([TrialTimes(), RUN, VERIFIED]),
    )
)
def test_every_trial_has_one_verdict(given_facts):
    """An error with a category, or none and a finite reward, or a sample taken out, or nothing to grade."""
    verdict = judge_trial(given_facts)
    assert (verdict.error is None) == (verdict.category is None)
    if verdict.error is None and given_facts.graded:
        assert verdict.removed != (verdict.reward is not None and math.isfinite(verdict.reward))
    noted = diagnostics(verdict, given_facts, ("'x': why",))
    assert {"backend", "phase", "harbor_exception_type", "category", "timings_sec", "skipped_files"} == set(noted)


def test_metrics_hold_what_the_trial_reports():
    """And nothing where it says nothing."""
    assert usage_metrics(Usage(3, None, 4, math.nan)) == {"input_tokens": 3, "output_tokens": 4}
