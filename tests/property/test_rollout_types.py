"""The types that authors of rollouts construct or subclass, and the contexts they are given."""

from __future__ import annotations

import asyncio
import json
import math
from fractions import Fraction
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.canonical import canonical_json
from osmosis.pure.protocol import ErrorCategory, RolloutStatus, encode
from osmosis.shell.rollout.context import RolloutContext, RolloutProgress, SampleSource, get_rollout_context
from osmosis.shell.rollout.failure import error_category, error_text
from osmosis.shell.rollout.local_backend import LocalBackend
from osmosis.shell.rollout.types.config import AgentWorkflowConfig, BaseConfig, ConcurrencyConfig
from osmosis.shell.rollout.types.execution import ExecutionOutcome, ExecutionRequest, ExecutionResult
from osmosis.shell.rollout.types.output import AgentWorkflowOutput, coerce_output
from osmosis.shell.rollout.types.protocol import RolloutInitRequest, RolloutInitResponse
from osmosis.shell.rollout.types.sample import RolloutSample
from osmosis.shell.rollout.wire_sample import compose_result
from tests.strategies import rollout as strategies

MESSAGES = [{"role": "user", "content": ["hi"]}]


# ---- samples --------------------------------------------------------------------------------------------------------------


def test_the_trajectory_keeps_the_conversation_as_it_was():
    """A grader that edits messages does not rewrite history; None asks for no trajectory; what cannot be copied has none."""
    sample = RolloutSample(messages=[{"role": "user", "content": ["hi"]}])
    next(iter(sample.messages))["content"].append("edited")
    assert sample.trajectory_messages == MESSAGES
    assert RolloutSample(messages=MESSAGES, trajectory_messages=None).trajectory_messages is None
    assert RolloutSample(messages=MESSAGES, trajectory_messages=[]).trajectory_messages == []

    class Uncopyable:
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    assert RolloutSample(messages=[{"content": Uncopyable()}]).trajectory_messages is None


@pytest.mark.parametrize(("given_", "reward"), [("0.5", 0.5), (True, 1.0), (2, 2.0), (None, None)])
def test_rewards_are_numbers(given_, reward):
    """Numeric strings and booleans are taken, on assignment too."""
    sample = RolloutSample()
    sample.reward = given_
    assert sample.reward == reward


@pytest.mark.parametrize("bad", [math.nan, math.inf, "many", [1]])
def test_rewards_that_are_none(bad):
    """NaN, infinity and words are refused when they are set."""
    sample = RolloutSample(reward=1.0)
    with pytest.raises(pydantic.ValidationError):
        sample.reward = bad
    assert sample.reward == 1.0


def test_unknown_fields_of_a_sample_are_ignored():
    """As the public package does."""
    assert not hasattr(RolloutSample.model_validate({"surprise": 1}), "surprise")


@given(strategies.loose_objects, strategies.loose_objects)
def test_a_json_safe_copy_is_safe(metrics, extra_fields):
    """And is the sample itself when nothing had to change."""
    sample = RolloutSample(metrics=metrics, extra_fields=extra_fields)
    safe = sample.json_safe_copy()
    canonical_json([safe.metrics, safe.extra_fields])
    assert safe.json_safe_copy() is safe


def test_a_json_safe_copy_says_what_it_drops(caplog):
    """One warning that names the types."""
    sample = RolloutSample(metrics={"half": Fraction(1, 2), "nan": math.nan, "bytes": b""})
    assert sample.json_safe_copy().metrics == {"half": 0.5}
    assert len(caplog.records) == 1
    assert "bytes, float" in caplog.text


@given(
    st.lists(strategies.chat_messages, max_size=3),
    strategies.loose_objects,
    st.none() | strategies.any_text,
    st.none() | strategies.any_text,
    strategies.statuses,
    st.none() | strategies.finite,
)
def test_every_outcome_has_a_result_that_travels(messages, metrics, label, message, status, reward):
    """Whatever a workflow made, the answer is strict JSON, final, and rewards only success."""
    sample = RolloutSample(messages=messages, metrics=metrics, label=label, reward=reward)
    outcome = ExecutionOutcome(workflow=ExecutionResult(status=status, sample=sample, err_message=message))
    response = compose_result("r", outcome)
    body = json.loads(encode(response).decode())
    assert response.status.terminal
    assert set(body["sample"]) == {"messages", "label", "reward", "remove_sample", "metrics", "extra_fields"}
    assert body["sample"]["reward"] == (reward if status is RolloutStatus.SUCCESS else None)


# ---- outcomes -------------------------------------------------------------------------------------------------------------

SUCCESS = ExecutionResult(status=RolloutStatus.SUCCESS)
FAILURE = ExecutionResult(status=RolloutStatus.FAILURE, err_message="f")
SAMPLED = ExecutionResult(status=RolloutStatus.SUCCESS, sample=RolloutSample(reward=1.0))


def test_which_result_counts():
    """The workflow's failure, which may borrow the grader's sample; else the grader's; else the workflow's."""
    assert ExecutionOutcome(workflow=SUCCESS).result is SUCCESS
    assert ExecutionOutcome(workflow=SUCCESS, grader=FAILURE).result is FAILURE
    assert ExecutionOutcome(workflow=FAILURE, grader=SUCCESS).result is FAILURE
    borrowed = ExecutionOutcome(workflow=FAILURE, grader=SAMPLED).result
    assert (borrowed.status, borrowed.err_message, borrowed.sample) == (FAILURE.status, "f", SAMPLED.sample)
    assert ExecutionOutcome(workflow=SUCCESS, grader=SAMPLED).result_to_save is SAMPLED
    assert ExecutionOutcome(workflow=SAMPLED, grader=FAILURE).result_to_save is SAMPLED


@pytest.mark.parametrize("limit", [math.nan, math.inf])
def test_limits_are_finite(limit):
    """Zero and less are fine."""
    ExecutionRequest(id="r", prompt=[], agent_timeout_sec=-1.0, grader_timeout_sec=0)
    with pytest.raises(pydantic.ValidationError):
        ExecutionRequest(id="r", prompt=[], agent_timeout_sec=limit)
    with pytest.raises(pydantic.ValidationError):
        ExecutionRequest(id="../r", prompt=[])


def test_wire_models_agree_with_the_records():
    """The same fields in the same order, so that either can take the other's place."""
    from osmosis.pure import protocol
    from osmosis.shell.rollout.types import protocol as models

    pairs: list[tuple[type[msgspec.Struct], type[pydantic.BaseModel]]] = [
        (protocol.InitRequest, RolloutInitRequest),
        (protocol.InitResponse, RolloutInitResponse),
        (protocol.ResultResponse, models.RolloutResultResponse),
        (protocol.CancelRequest, models.CancelRolloutsRequest),
        (protocol.CancelResponse, models.CancelRolloutsResponse),
        (protocol.Lifecycle, models.RolloutLifecycle),
    ]
    for record, model in pairs:
        assert list(record.__struct_fields__) == list(model.model_fields)


def test_a_lease_must_outlast_the_wait():
    """As the record says."""
    with pytest.raises(pydantic.ValidationError):
        RolloutInitResponse(
            rollout_id="r",
            status=RolloutStatus.QUEUED,
            polling_lease_token="t",
            result_wait_timeout_sec=2,
            polling_lease_timeout_sec=2,
        )


# ---- configuration and outputs --------------------------------------------------------------------------------------------


def test_configurations():
    """Extra fields are attributes, assignments are validated, a limit is at least one."""
    config: Any = AgentWorkflowConfig.model_validate({"name": "w", "model": object})
    assert config.model is object
    assert config.concurrency.max_concurrent is None
    with pytest.raises(pydantic.ValidationError):
        config.description = 3
    with pytest.raises(pydantic.ValidationError):
        ConcurrencyConfig(max_concurrent=0)
    with pytest.raises(pydantic.ValidationError):
        BaseConfig.model_validate({})


@pytest.mark.parametrize("bad", [{"surprise": 1}, {"metrics": {"a": math.nan}}, {"metrics": {"a": "many"}}, {"messages": 1}])
def test_outputs_that_are_none(bad):
    """Unknown fields, metrics that are no numbers, messages that are no list."""
    with pytest.raises(pydantic.ValidationError):
        AgentWorkflowOutput.model_validate(bad)


def test_what_a_workflow_may_return():
    """An output, checked again for changes made in place; a list of messages; None. Nothing else."""
    output = AgentWorkflowOutput(metrics={"a": "1.5"})  # type: ignore[dict-item]
    assert output.metrics == {"a": 1.5}
    output.metrics["a"] = math.nan
    with pytest.raises(pydantic.ValidationError):
        coerce_output(output)
    coerced = coerce_output(MESSAGES)
    assert coerced is not None
    assert coerced.messages == MESSAGES
    assert coerce_output(None) is None
    with pytest.raises(pydantic.ValidationError):
        coerce_output(["text"])
    others: tuple[object, ...] = ("text", 42, {"messages": []}, (1,))
    for other in others:
        with pytest.raises(TypeError, match="must return"):
            coerce_output(other)


@pytest.mark.parametrize(
    ("reference", "error"), [("no colon", ValueError), ("json:no_such_name", ImportError), ("no_such_module:x", ImportError)]
)
def test_backend_references(reference, error):
    """`module:attribute`, split at the last colon."""
    with pytest.raises(error):
        LocalBackend(workflow=reference)


@pytest.mark.parametrize(("config", "limit"), [(None, 4), ({}, None), ({"concurrency": {"max_concurrent": 16}}, 16)])
def test_concurrency_of_the_local_backend(config, limit):
    """Four without a configuration; its limit with one, none if it has none."""
    given_ = None if config is None else AgentWorkflowConfig.model_validate({"name": "w", **config})
    backend = LocalBackend(workflow="osmosis.shell.rollout.agent_workflow:AgentWorkflow", workflow_config=given_)
    assert backend.health() == {"status": "ok", "concurrency": {"max_concurrent": limit, "queued": 0, "running": 0}}


# ---- contexts -------------------------------------------------------------------------------------------------------------


class Source(SampleSource):
    """A fixed sample."""

    async def get_sample(self):
        return RolloutSample(reward=0.5)


def test_contexts_nest():
    """Leaving one restores the one around it, also when it is entered twice."""
    outer, inner = RolloutContext(rollout_id="o"), RolloutContext(rollout_id="i")
    assert get_rollout_context() is None
    with outer:
        with inner, outer:
            assert get_rollout_context() is outer
        assert get_rollout_context() is outer
    assert get_rollout_context() is None


def test_empty_fields_come_from_the_environment(monkeypatch):
    """For workflows that run in a process of their own; the key does not show in a repr."""
    monkeypatch.setenv("OSMOSIS_CHAT_COMPLETIONS_URL", "http://env")
    monkeypatch.setenv("OSMOSIS_API_KEY", "secret-key")
    monkeypatch.setenv("OSMOSIS_ROLLOUT_ID", "from-env")
    context = RolloutContext()
    assert (context.chat_completions_url, context.api_key, context.rollout_id) == ("http://env", "secret-key", "from-env")
    assert RolloutContext(rollout_id="given").rollout_id == "given"
    assert "secret-key" not in repr(context)


async def test_sample_sources():
    """One a rollout; without one there is no sample."""
    context = RolloutContext(rollout_id="r")
    assert await context.get_sample() is None
    context.set_sample_source(Source())
    with pytest.raises(ValueError, match="already registered"):
        context.set_sample_source(Source())
    sample = await context.get_sample()
    assert sample is not None
    assert sample.reward == 0.5
    assert await Source().get_preview(1) is None


async def test_progress():
    """Each change wakes who waits and is told once; a failing callback hurts nobody; the end is final."""
    told: list[RolloutStatus] = []

    def callback(status):
        told.append(status)
        raise RuntimeError("callback failed")

    progress = RolloutProgress(on_status=callback)
    waiting = asyncio.create_task(progress.wait_for_status_change())
    await asyncio.sleep(0)
    for status in (RolloutStatus.RUNNING, RolloutStatus.RUNNING, RolloutStatus.SUCCESS, RolloutStatus.FAILURE):
        await progress.set_status(status)
    assert await waiting in (RolloutStatus.RUNNING, RolloutStatus.SUCCESS)
    assert told == [RolloutStatus.RUNNING, RolloutStatus.SUCCESS]
    assert await progress.wait_for_status_change() is RolloutStatus.SUCCESS


# ---- failures -------------------------------------------------------------------------------------------------------------


def sandbox_error(name, status=None):
    """An exception as a sandbox library has it."""
    return type("Derived", (type(name, (Exception,), {"status_code": status}),), {})()


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TimeoutError(), ErrorCategory.TIMEOUT),
        (ValueError(), ErrorCategory.VALIDATION_ERROR),
        (TypeError(), ErrorCategory.VALIDATION_ERROR),
        (AssertionError(), ErrorCategory.VALIDATION_ERROR),
        (sandbox_error("SandboxConnectionException"), ErrorCategory.HTTP_ERROR),
        (sandbox_error("SandboxRateLimitException"), ErrorCategory.HTTP_ERROR),
        (sandbox_error("PoolStateStoreUnavailableException"), ErrorCategory.HTTP_ERROR),
        (sandbox_error("SandboxApiException", 503), ErrorCategory.HTTP_ERROR),
        (sandbox_error("SandboxAPIError", 429), ErrorCategory.HTTP_ERROR),
        (sandbox_error("SandboxApiException", 400), ErrorCategory.AGENT_ERROR),
        (sandbox_error("SandboxApiException", "503"), ErrorCategory.AGENT_ERROR),
        (KeyError("k"), ErrorCategory.AGENT_ERROR),
    ],
)
def test_categories(error, category):
    """By type, and for sandbox libraries by name."""
    assert error_category(error) is category


def test_an_exception_always_says_something():
    """Its class's name if it has no text."""
    assert error_text(KeyError()) == "KeyError"
    assert error_text(RuntimeError("told\ud800")) == "told\N{REPLACEMENT CHARACTER}"
