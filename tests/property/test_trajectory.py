"""ATIF documents: conversion of conversations, bytes, both readers, and the rules of the format."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.trajectory import (
    Agent,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
    Trajectory,
    _render,
    _render_simple,
    decode_trajectory,
    encode_trajectory,
    trajectory_facts,
    trajectory_problems,
)
from osmosis.pure.trajectory_conversion import Conversation, TrajectoryReport, convert_conversation, read_report
from osmosis.pure.usage import TrajectoryUsage
from tests.strategies import rollout as strategies


def converted(messages, report=None, **facts):
    """The document of a conversation."""
    conversation = Conversation(rollout_id="r", messages=messages, **facts)
    return convert_conversation(conversation, sdk_version="1", report=report)


documents = st.builds(
    lambda rollout_id, messages, metrics, extra, label: convert_conversation(
        Conversation(rollout_id=rollout_id, messages=messages, metrics=metrics, extra_fields=extra, label=label),
        sdk_version="1",
    ),
    strategies.rollout_ids,
    strategies.conversations,
    strategies.loose_objects,
    strategies.loose_objects,
    st.none() | strategies.any_text,
)


# ---- conversion and bytes -------------------------------------------------------------------------------------------------


@given(documents)
def test_whatever_a_workflow_says_becomes_a_valid_document(document):
    """No conversation is lost to the shape of its messages or metrics."""
    assert trajectory_problems(document) == []
    data = encode_trajectory(document)
    assert data.isascii()
    assert not data.endswith(b"\n")
    json.loads(data)


@given(documents)
def test_the_strict_reader_reads_what_the_writer_wrote(document):
    """Byte for byte, once more."""
    data = encode_trajectory(document)
    assert encode_trajectory(decode_trajectory(data, "trajectory.json")) == data


@given(documents)
def test_the_quick_rendering_is_the_careful_one(document):
    """Whatever way a document is rendered, its bytes are the same."""
    quick = _render_simple(document)
    assert quick is None or quick == _render(msgspec.to_builtins(document), "\n")


@pytest.mark.parametrize(
    "value",
    [
        *("\x7f", "é", "\U0001f600", "[\n  1\n]", "\u2028", "\ud800", "x: 1e5"),
        *([], {}, [1], [1, 2.5, -3], [True, 1], [[1], []], [1, None], [0.0, -0.0]),
        *(1e16, 1e-7, [1e300], 2**70, -(2**63), {"a": None}, {"1": [1, "2"]}),
    ],
)
def test_values_that_encoders_disagree_about(value):
    """Arrays of numbers, exponents, characters beyond ASCII, nulls: as the careful rendering has them."""
    told = converted([{"role": "user", "content": "x"}], extra_fields={"value": value, "list": [value]})
    assert encode_trajectory(told).decode() == _render(msgspec.to_builtins(told), "\n")


@given(documents)
def test_a_document_says_whose_it_is(document):
    """Read from its bytes."""
    facts = trajectory_facts(encode_trajectory(document))
    assert facts is not None
    assert facts.rollout_id == document.session_id


@given(documents, st.data())
def test_a_cut_document_counts_for_neither_reader(document, data):
    """A file that is still being written is not a trajectory."""
    whole = encode_trajectory(document)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert trajectory_facts(cut) is None
    with pytest.raises(OsmosisError):
        decode_trajectory(cut, "trajectory.json")


@given(strategies.conversations)
def test_every_message_but_tool_answers_is_a_step(messages):
    """In order, numbered from 1; tool answers hang on the step before them."""
    document = converted(messages)
    spoken = [message for message in messages if message.get("role") not in ("tool", "function")]
    alone = sum(step.source == "system" and step.observation is not None for step in document.steps)
    answers = sum(len(step.observation.results) for step in document.steps if step.observation)
    assert len(document.steps) == max(len(spoken) + alone, 1)
    assert answers == len(messages) - len(spoken)
    assert document.final_metrics.total_steps == len(document.steps)


def test_numbers_stand_on_one_line():
    """Token ids do not take a line each; other arrays do."""
    step = Step(
        step_id=1, source="agent", message="", metrics=Metrics(prompt_token_ids=[1, 2, 3]), extra={"a": [True, 1], "b": []}
    )
    lines = encode_trajectory(Trajectory(agent=Agent(name="a", version="1"), steps=[step])).decode().split("\n")
    assert '        "prompt_token_ids": [1, 2, 3]' in lines
    assert "          true," in lines
    assert '        "b": []' in lines


def test_nan_in_free_form_fields_is_refused_by_the_writer():
    """Conversion drops it; a document made by hand has to be right."""
    step = Step(step_id=1, source="agent", message="", extra={"a": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_trajectory(Trajectory(agent=Agent(name="a", version="1"), steps=[step]))


def test_nulls_inside_user_data_are_kept():
    """Absent fields are left out; a null that the user wrote is data."""
    document = json.loads(encode_trajectory(converted([], request_metadata={"a": None})))
    assert document["extra"]["osmosis"] == {"rollout_id": "r", "request_metadata": {"a": None}}
    assert "notes" not in document


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ""),
        ("as is", "as is"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": "a"}, {"type": "image"}], '[{"type": "text", "text": "a"}, {"type": "image"}]'),
        ([], "[]"),
        ({"a": "é"}, '{"a": "é"}'),
    ],
)
def test_content(content, message):
    """Text as it is, text parts joined, anything else as JSON text."""
    assert converted([{"role": "user", "content": content}]).steps[0].message == message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 2}', {"a": 2}),
        ("", {}),
        (None, {}),
        ("[1]", {"_raw": "[1]"}),
        ("nonsense", {"_raw": "nonsense"}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ([1], {"_raw": [1]}),
    ],
)
def test_tool_arguments(arguments, expected):
    """Parsed if they are an object, kept raw if not."""
    message = {"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]}
    assert converted([message]).steps[0].tool_calls == [
        ToolCall(tool_call_id="call_0", function_name="unknown", arguments=expected)
    ]


def test_tool_answers():
    """With the id of a call of the step before, in `extra` if it has no such call, on a step of its own without a step."""
    messages = [
        {"role": "tool", "tool_call_id": "c0", "content": "early"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "function", "tool_call_id": "c2", "content": "two"},
    ]
    early, agent = converted(messages).steps
    assert (early.source, early.message, early.extra) == ("system", "", {"original_role": "tool"})
    assert agent.observation == Observation(
        results=[
            ObservationResult(source_call_id="c1", content="one"),
            ObservationResult(content="two", extra={"tool_call_id": "c2"}),
        ]
    )


def test_what_only_agents_may_say_is_kept_aside_for_others():
    """Reasoning and tool calls of a user's message go into `extra`, and so does an unknown role."""
    [step] = converted([{"role": "critic", "content": "hm", "reasoning_content": "why", "tool_calls": [{"id": "c"}]}]).steps
    assert step.source == "user"
    assert step.extra == {"original_role": "critic", "reasoning_content": "why", "tool_calls": [{"id": "c"}]}


@pytest.mark.parametrize(
    ("message", "timestamp"),
    [
        ({"created_at": 1700000000}, "2023-11-14T22:13:20+00:00"),
        ({"created_at": 1e300, "timestamp": "2023-11-14T22:13:20Z"}, "2023-11-14T22:13:20+00:00"),
        ({"created_at": "soon", "completed_at": "2023-11-14 22:13"}, "2023-11-14T22:13:00"),
        ({"extra": {"timestamp": 0}}, "1970-01-01T00:00:00+00:00"),
        ({"created_at": True, "extra": [1]}, None),
    ],
)
def test_timestamps(message, timestamp):
    """The first usable one, in one form."""
    assert converted([{"role": "user", "content": "", **message}]).steps[0].timestamp == timestamp


@pytest.mark.parametrize(
    ("message", "metrics"),
    [
        ({"usage": {"prompt_tokens": 5, "completion_tokens": 7}}, Metrics(prompt_tokens=5, completion_tokens=7)),
        ({"extra": {"response": {"usage": {"input_tokens": 5}}}}, Metrics(prompt_tokens=5)),
        ({"usage": {"output_tokens": 7}}, Metrics(completion_tokens=7)),
        (
            {"usage": {"input_tokens_details": {"cached_tokens": 2}, "cost_usd": 0.5}},
            Metrics(cached_tokens=2, cost_usd=0.5, extra={"input_tokens_details": {"cached_tokens": 2}}),
        ),
        ({"usage": {"prompt_tokens": -1, "cost_usd": float("nan")}}, None),
        ({"usage": {"prompt_tokens": True}}, None),
        ({}, None),
    ],
)
def test_usage(message, metrics):
    """Either spelling; one call is counted when there is any."""
    [step] = converted([{"role": "assistant", "content": "", **message}]).steps
    assert step.metrics == metrics
    assert step.llm_call_count == (None if metrics is None else 1)


AGENTS = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]


def test_a_report_is_laid_over_the_agent_steps_if_the_numbers_match():
    """Else it is kept beside them."""
    calls = [{"prompt_tokens": 1}, {"prompt_tokens": 2}]
    body = {"samples": {"any key": {"model_name": "m", "llm_call_metrics": calls, "final_metrics": {"total_prompt_tokens": 3}}}}
    report = read_report(body | {"unknown": 1})
    matching = converted(AGENTS, report)
    assert [step.metrics and step.metrics.prompt_tokens for step in matching.steps] == [1, None, 2]
    assert (matching.agent.model_name, matching.final_metrics.total_prompt_tokens) == ("m", 3)
    unmatched = converted(AGENTS[:1], report)
    assert unmatched.steps[0].metrics is None
    assert unmatched.extra["osmosis"]["unmatched_llm_call_metrics"] == calls


def test_reports_of_other_samples_are_kept_aside():
    """Several samples, none of this rollout."""
    report = read_report({"model_name": "m", "samples": {"x": {}, "y": {}}})
    document = converted(AGENTS, report)
    assert document.agent.model_name == "m"
    assert set(document.extra["osmosis"]["unmatched_sample_reports"]) == {"x", "y"}


@given(strategies.json_values())
def test_malformed_reports_are_none(body):
    """Or a report, never an error."""
    assert read_report(body) is None or isinstance(read_report(body), TrajectoryReport)


# ---- rules of the format --------------------------------------------------------------------------------------------------


def document(**step):
    """A document of one agent step."""
    fields: dict[str, Any] = {"step_id": 1, "source": "agent", "message": ""} | step
    return Trajectory(agent=Agent(name="a", version="1"), steps=[Step(**fields)])


CALL = ToolCall(tool_call_id="c", function_name="f", arguments={})
OTHER = document()
BROKEN = [
    (msgspec.structs.replace(OTHER, schema_version="ATIF-v2.0"), "$.schema_version"),
    (msgspec.structs.replace(OTHER, steps=[]), "$.steps"),
    (msgspec.structs.replace(OTHER, subagent_trajectories=[OTHER]), "$.subagent_trajectories[0].trajectory_id"),
    (
        msgspec.structs.replace(OTHER, subagent_trajectories=[msgspec.structs.replace(OTHER, trajectory_id="t")] * 2),
        "$.subagent_trajectories[1].trajectory_id",
    ),
    (document(step_id=2), "$.steps[0].step_id"),
    (document(timestamp="yesterday"), "$.steps[0].timestamp"),
    (document(source="user", model_name="m"), "$.steps[0].model_name"),
    (document(source="system", reasoning_effort=0.5), "$.steps[0].reasoning_effort"),
    (document(source="user", reasoning_content=""), "$.steps[0].reasoning_content"),
    (document(source="user", tool_calls=[CALL]), "$.steps[0].tool_calls"),
    (document(source="user", metrics=Metrics()), "$.steps[0].metrics"),
    (document(llm_call_count=-1), "$.steps[0].llm_call_count"),
    (document(llm_call_count=0, metrics=Metrics()), "$.steps[0].metrics"),
    (document(llm_call_count=0, reasoning_content=""), "$.steps[0].reasoning_content"),
    (
        document(tool_calls=[CALL], observation=Observation(results=[ObservationResult(source_call_id="d")])),
        "$.steps[0].observation.results[0].source_call_id",
    ),
    (
        document(observation=Observation(results=[ObservationResult(subagent_trajectory_ref=[SubagentTrajectoryRef()])])),
        "$.steps[0].observation.results[0].subagent_trajectory_ref[0]",
    ),
]


@pytest.mark.parametrize(("broken", "place"), BROKEN, ids=[place for _, place in BROKEN])
def test_each_rule_is_checked_where_it_is_broken(broken, place):
    """By the writer and by the strict reader, which names the file too."""
    assert [problem.where for problem in trajectory_problems(broken)] == [place]
    with pytest.raises(OsmosisError):
        encode_trajectory(broken)
    with pytest.raises(OsmosisError) as caught:
        decode_trajectory(msgspec.json.encode(broken), "t.json")
    assert [problem.where for problem in caught.value.problems] == [f"t.json: {place}"]


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"agent": {"name": "a"}},
        {"steps": [{"step_id": 1, "source": "robot", "message": ""}]},
        {"steps": [{"step_id": 1, "source": "user", "message": [{"type": "image", "text": "t"}]}]},
        {"steps": [{"step_id": 1, "source": "user", "message": "", "extra": {"a": float("nan")}}]},
    ],
)
def test_documents_of_another_shape_are_refused(change):
    """Unknown fields, missing fields, wrong values, NaN."""
    body = {"agent": {"name": "a", "version": "1"}, "steps": [{"step_id": 1, "source": "user", "message": ""}]}
    decode_trajectory(json.dumps(body).encode(), "t.json")
    with pytest.raises(OsmosisError, match=r"t\.json is not a valid ATIF"):
        decode_trajectory(json.dumps(body | change).encode(), "t.json")


# ---- the forgiving reader -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "rollout_id"),
    [
        ({"extra": {"osmosis": {"rollout_id": "a"}}, "session_id": "b", "trajectory_id": "c/d"}, "a"),
        ({"extra": {"osmosis": {"rollout_id": 1}}, "session_id": "b"}, "b"),
        ({"extra": [], "session_id": "", "trajectory_id": "c/d/e"}, "c"),
        ({"trajectory_id": "c"}, None),
        ({"trajectory_id": "/d"}, None),
        ({"trajectory_id": ["c", "/"]}, None),
        ({}, None),
        ([], None),
        ("x", None),
    ],
)
def test_identity(body, rollout_id):
    """In the order of eval_local 1.3; a bare trajectory_id does not count."""
    facts = trajectory_facts(json.dumps(body).encode())
    assert (facts and facts.rollout_id) == rollout_id


def test_usage_of_a_document():
    """Totals from the end, the largest context from the steps that are its own."""
    steps = [
        {"metrics": {"prompt_tokens": 3, "completion_tokens": 4}},
        {"metrics": {"prompt_tokens": 90}, "is_copied_context": True},
        {"metrics": []},
        "nonsense",
    ]
    body = {"session_id": "r", "steps": steps, "final_metrics": {"total_prompt_tokens": 10, "total_completion_tokens": 5}}
    facts = trajectory_facts(json.dumps(body).encode())
    assert facts is not None
    assert facts.usage == TrajectoryUsage(tokens=15, max_context_tokens=7)


@given(st.binary(max_size=40) | strategies.json_values(strategies.any_text).map(json.dumps).map(str.encode))
def test_any_bytes_are_facts_or_nothing(data):
    """Never an error: a broken file is no trajectory, and that is all."""
    facts = trajectory_facts(data)
    assert facts is None or facts.rollout_id
