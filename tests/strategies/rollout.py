"""Chat conversations, JSON values and protocol records, as rollouts and servers make them."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st

from osmosis.pure.protocol import (
    CancelRequest,
    CancelResponse,
    Disposition,
    ErrorCategory,
    InitRequest,
    InitResponse,
    ResultResponse,
    RolloutStatus,
    Sample,
    is_path_segment,
)

text = st.text(max_size=20)
any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
"""Lone surrogates and control characters included."""

finite = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**64 - 1)


def json_values(strings=text):
    """Plain JSON values."""
    leaves = st.none() | st.booleans() | integers | finite | strings
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=8
    )


def json_objects(strings=text):
    """Plain JSON objects."""
    return st.dictionaries(strings, json_values(strings), max_size=4)


def loose_values():
    """What user code puts into metrics: JSON, NaN, other libraries' numbers, tuples, objects, odd keys."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | any_text
        | st.fractions().map(Fraction)
        | st.binary(max_size=3)
        | st.builds(object)
        | st.just(10**400)
        | st.just(Fraction(10**400))
    )
    keys = any_text | st.integers() | st.floats() | st.booleans() | st.none()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=8,
    )


loose_objects = st.dictionaries(any_text, loose_values(), max_size=4)

rollout_ids = text.filter(is_path_segment)
categories = st.none() | st.sampled_from(list(ErrorCategory))
statuses = st.sampled_from(list(RolloutStatus))
timeouts = st.none() | finite

samples = st.builds(
    Sample,
    messages=st.lists(json_objects(), max_size=3),
    label=st.none() | text,
    reward=st.none() | finite,
    remove_sample=st.booleans(),
    metrics=json_objects(),
    extra_fields=json_objects(),
)

init_requests = st.builds(
    InitRequest,
    initial_messages=st.lists(json_objects(), max_size=3),
    label=st.none() | text,
    metadata=st.none() | json_objects(),
    rollout_id=rollout_ids,
    chat_completions_url=text,
    llm_api_key=st.none() | st.text(min_size=1, max_size=10),
    grade=st.booleans(),
    agent_timeout_sec=timeouts,
    grader_timeout_sec=timeouts,
    extra_fields=st.none() | json_objects(),
)

init_responses = st.builds(
    lambda rollout_id, status, token, wait, more: InitResponse(rollout_id, status, token, wait, wait + more),
    rollout_ids,
    statuses,
    st.text(min_size=1, max_size=43),
    st.floats(0.001, 1e6),
    st.floats(0.001, 1e6),
).filter(lambda response: math.isfinite(response.polling_lease_timeout_sec))

results = st.builds(
    ResultResponse,
    rollout_id=rollout_ids,
    status=statuses,
    sample=st.none() | samples,
    err_message=st.none() | text,
    err_category=categories,
)

cancel_requests = st.builds(
    CancelRequest, ids=st.none() | st.lists(text, max_size=3), prefix=st.none() | text, all=st.booleans()
)
cancel_responses = st.builds(CancelResponse, dispositions=st.dictionaries(text, st.sampled_from(list(Disposition)).map(str)))

roles = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "critic"])
call_ids = st.sampled_from(["c1", "c2", "c3"])
tool_calls = st.fixed_dictionaries(
    {},
    optional={
        "id": call_ids,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["add", "multiply"]) | any_text,
                "arguments": st.sampled_from(["", "{}", '{"a": 2}', "[1]", "nonsense", '{"a": NaN}']) | loose_values(),
            },
        ),
    },
)
usages = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": st.integers(-1, 1000) | st.none(),
        "input_tokens": st.integers(0, 1000),
        "completion_tokens": st.integers(0, 1000) | text,
        "cost_usd": st.floats(),
        "prompt_tokens_details": st.fixed_dictionaries({}, optional={"cached_tokens": st.integers(0, 1000) | st.booleans()}),
    },
)
chat_messages = st.fixed_dictionaries(
    {},
    optional={
        "role": roles | any_text,
        "content": st.none()
        | any_text
        | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "image"]), "text": text}), max_size=3)
        | loose_values(),
        "reasoning_content": text | loose_values(),
        "tool_calls": st.lists(tool_calls | loose_values(), max_size=3),
        "tool_call_id": call_ids | loose_values(),
        "usage": usages | loose_values(),
        "model": text | st.integers(),
        "created_at": st.floats() | st.integers() | st.datetimes().map(str) | any_text,
        "extra": loose_values(),
    },
)
conversations = st.lists(chat_messages, max_size=6)
