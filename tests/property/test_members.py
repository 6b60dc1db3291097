"""A JSON object opened at its top level: values stay the bytes they were, and whatever JSON allows can be opened."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.completion import Completion, read_completion, write_completion
from osmosis.pure.event_stream import read_event, write_event
from osmosis.pure.members import decode_member, join_members, read_members
from osmosis.pure.responses_answer import chat_answer
from osmosis.pure.responses_request import responses_request
from tests.strategies.bridge import json_values, texts
from tests.strategies.data import surrogate_texts

TORN = r"half a face \ud83d"
"""Text with a lone surrogate, as it stands in JSON: what is left of a character that a tokenizer cut in two."""


@given(st.dictionaries(texts, json_values, max_size=5))
def test_members_and_back(fields):
    """Joined again, the members are the object."""
    members = read_members(json.dumps(fields).encode())
    assert list(members) == list(fields)
    assert {name: decode_member(members, name) for name in members} == fields
    assert json.loads(join_members(members)) == fields


@given(st.dictionaries(surrogate_texts, surrogate_texts, max_size=4))
def test_lone_surrogates_are_json(fields):
    """Names and values that are no valid Unicode are read and written like others."""
    members = read_members(json.dumps(fields).encode())
    assert {name: decode_member(members, name) for name in members} == fields
    assert json.loads(join_members(members)) == fields


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"null", b"{", b'{"a":}', b"{'a': 1}", b"\xff", b'{"a":' + b"[" * 10_000])
def test_anything_else_is_refused(data):
    """What is no JSON object is a ValueError, however deep it is."""
    with pytest.raises(ValueError):  # noqa: PT011 - the words are those of whichever reader gave up
        read_members(data)


def test_a_torn_character_reaches_the_rollout():
    """In a whole answer, in an event, in a translated answer and on its way there: it is passed on, and usage is counted."""
    message = '{"role": "assistant", "content": "%s"}' % TORN
    answer = '{"model": "m", "choices": [{"message": %s}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}' % message
    completion = read_completion(200, answer.encode())
    assert isinstance(completion, Completion)
    assert completion.usage is not None
    assert TORN.encode() in write_completion(completion, "asked")
    event = read_event(f"data: {answer}".encode())
    assert event.usage is not None
    assert TORN.encode() in write_event(event, "asked")
    part = '{"type": "output_text", "text": "%s", "annotations": []}' % TORN
    item = '{"type": "message", "role": "assistant", "content": [%s]}' % part
    response = '{"id": "r", "model": "m", "created_at": 1, "status": "completed", "output": [%s]}' % item
    assert TORN.encode() in chat_answer(response.encode())
    request = responses_request(('{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % TORN).encode())
    assert isinstance(request, bytes)
    assert TORN.encode() in request
