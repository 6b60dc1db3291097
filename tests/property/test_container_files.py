"""The files between a server and a sandbox, and conversations out of trajectories (rollout_protocol 13.7 and 14)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.container_files import (
    ContainerInput,
    ContainerResult,
    Grade,
    decode_container_input,
    decode_container_result,
    decode_grade,
    encode_container_file,
    encode_reward,
    finite_metrics,
)
from osmosis.pure.errors import OsmosisError
from osmosis.pure.protocol import ErrorCategory
from osmosis.pure.trajectory import decode_trajectory, encode_trajectory
from osmosis.pure.trajectory_conversion import Conversation, convert_conversation
from osmosis.pure.trajectory_messages import messages_of

RECORDED_INPUT = b"""{"version":1,"rollout_id":"c1","prompt":[{"role":"user","content":"q"}],"label":"L","metadata":{"k":1},\
"chat_completions_url":"http://x/v1/rollouts/c1","api_key":"k","preview_path":null}"""
RECORDED_FAILURE = b'{"status":"failure","output":null,"sample":null,"err_message":"nope"}'


def test_the_recorded_files_are_ours():
    """Byte for byte as the public package writes them."""
    given_input = decode_container_input(RECORDED_INPUT)
    assert given_input.prompt == [{"role": "user", "content": "q"}]
    assert encode_container_file(given_input) == RECORDED_INPUT
    assert encode_container_file(decode_container_result(RECORDED_FAILURE)) == RECORDED_FAILURE
    assert encode_reward(0.75) == b'{"reward":0.75}'


def test_a_failure_can_name_its_category():
    """Which the public package ignores."""
    result = ContainerResult(status="failure", err_message="x", err_category=ErrorCategory.TIMEOUT)
    assert decode_container_result(encode_container_file(result)) == result


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"status":"done"}', b'{"status":1}', b'{"status":"success","output":3}', b"{" * 9999]
)
def test_a_malformed_result_is_refused(data):
    """With one kind of error, whatever a sandbox wrote."""
    with pytest.raises(ValueError, match=r"."):
        decode_container_result(data)


def test_files_cut_at_every_byte_are_refused():
    """None is taken for a shorter one."""
    for decode, data in (
        (decode_container_input, RECORDED_INPUT),
        (decode_container_result, RECORDED_FAILURE),
        (decode_grade, encode_container_file(Grade(reward=1.0, metrics={"a": 1}))),
    ):
        for length in range(len(data)):
            with pytest.raises(ValueError, match=r"."):
                decode(data[:length])


def test_a_removed_sample_has_a_reward_file_all_the_same():
    """Harbor wants a number; the mark beside it tells that it means nothing."""
    assert json.loads(encode_reward(None)) == {"reward": 0.0, "removed": 1}
    with pytest.raises(ValueError, match=r"."):
        encode_reward(math.nan)


@given(st.dictionaries(st.text(max_size=3), st.floats() | st.integers() | st.booleans() | st.text(max_size=2)))
def test_only_finite_numbers_are_metrics_of_an_output(metrics):
    """Each of them as a float."""
    kept = finite_metrics(metrics)
    assert all(type(value) is float and math.isfinite(value) for value in kept.values())
    assert ContainerInput(rollout_id="r").version == 1


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "2*2?"},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "mul", "arguments": '{"a":2}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "4"},
]


def test_a_conversation_survives_its_trajectory():
    """Messages, calls, results and reasoning."""
    trajectory = convert_conversation(Conversation(rollout_id="r", messages=MESSAGES), sdk_version="1")
    assert messages_of(decode_trajectory(encode_trajectory(trajectory), "t")) == MESSAGES


def test_parts_and_loose_observations():
    """Texts of parts on lines of their own, an image by its path, a result without a call as the user's words."""
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    document = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "a", "version": "1"},
        "steps": [
            {
                "step_id": 1,
                "source": "agent",
                "message": [{"type": "text", "text": "see"}, image],
                "observation": {"results": [{"content": "out"}, {}]},
            }
        ],
    }
    assert messages_of(decode_trajectory(json.dumps(document).encode(), "t")) == [
        {"role": "assistant", "content": "see\n[image: a.png]"},
        {"role": "user", "content": "out"},
        {"role": "user", "content": ""},
    ]
    with pytest.raises(OsmosisError):
        decode_trajectory(b"{}", "t")
