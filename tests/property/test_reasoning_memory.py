"""Reasoning that clients leave out comes back with its tool call, and nothing else changes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.reasoning_memory import remembered, with_reasoning

BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWER = {"role": "assistant", "content": None, "thinking_blocks": BLOCKS, "reasoning_content": "hm", "tool_calls": [CALL]}


def body(*messages, **more):
    """A shaped request."""
    return json.dumps({"model": "m", "temperature": 1.5, **more, "messages": list(messages)}).encode()


def test_what_was_left_out_is_put_back():
    """A message with a known tool call gets the reasoning that it lacks; what the client sends itself wins."""
    memory = remembered(ANSWER)
    bare = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    own = {**bare, "thinking_blocks": [{"type": "thinking", "thinking": "mine", "signature": "x"}]}
    sent = json.loads(with_reasoning(body({"role": "user", "content": "q"}, bare, own), memory))
    assert sent["messages"][0] == {"role": "user", "content": "q"}
    assert sent["messages"][1]["thinking_blocks"] == BLOCKS
    assert sent["messages"][1]["reasoning_content"] == "hm"
    assert sent["messages"][2]["thinking_blocks"] == own["thinking_blocks"]
    assert sent["temperature"] == 1.5


@given(st.text(max_size=5), st.booleans())
def test_other_requests_keep_their_bytes(identity, with_memory):
    """A request that lacks nothing, or whose calls nobody remembers, is the same to the byte."""
    memory = remembered(ANSWER) if with_memory else {}
    unknown = {"role": "assistant", "tool_calls": [{**CALL, "id": f"other-{identity}"}]}
    for request in (body(unknown), body(ANSWER), body({"role": "assistant", "content": "x"}), body()):
        assert with_reasoning(request, memory) == request


def test_only_reasoning_with_tool_calls_is_remembered():
    """An answer without calls, or without reasoning, leaves nothing behind."""
    assert remembered({"role": "assistant", "content": "x", "reasoning_content": "hm"}) == {}
    assert remembered({"role": "assistant", "tool_calls": [CALL]}) == {}
    assert remembered({"tool_calls": [{"id": 3}, "x"], "reasoning_content": "hm"}) == {}
    assert remembered(ANSWER).keys() == {"t1"}
