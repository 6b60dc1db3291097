"""Server-sent events: cut anywhere, understood, and passed on with two changes only (ruling 18)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.event_stream import read_event, split_events, write_event
from osmosis.pure.usage import CallUsage
from tests.strategies.bridge import chunk, json_values, texts

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "prompt_tokens_details": {"cached_tokens": 1}}
plain_events = st.dictionaries(texts, json_values, max_size=3).map(lambda members: chunk(**members))
events_of_all_kinds = st.lists(
    plain_events | st.sampled_from([b"data: [DONE]", b": ping", b"event: error\ndata: {}", b"data: a\ndata: b", b"id: 7"]),
    max_size=6,
)


@given(events_of_all_kinds, st.sampled_from([b"\n", b"\r\n"]), st.data())
def test_cutting_does_not_depend_on_how_bytes_arrive(events, newline, data):
    """The same events come out whether the stream arrives whole, in pieces or byte by byte."""
    wire = b"".join(event.replace(b"\n", newline) + newline * 2 for event in events)
    whole, rest = split_events(b"", wire)
    assert ([event.replace(b"\r\n", b"\n") for event in whole], rest) == (events, b"")
    for step in (1, data.draw(st.integers(1, 20))):
        collected, buffer = [], b""
        for start in range(0, len(wire), step):
            found, buffer = split_events(buffer, wire[start : start + step])
            collected += found
        assert (collected, buffer) == (whole, b"")


@given(events_of_all_kinds, st.integers(0, 200))
def test_an_unfinished_event_waits(events, length):
    """What has no blank line yet is kept, and nothing is lost between the events and the rest."""
    wire = b"".join(event + b"\n\n" for event in events)[:length]
    whole, rest = split_events(b"", wire)
    assert b"".join(event + b"\n\n" for event in whole) + rest == wire
    assert b"\n\n" not in rest


@given(st.dictionaries(texts, json_values, max_size=4), texts, texts)
def test_only_the_model_changes(members, model, asked):
    """A chunk goes on with every member as it was, but for `model`."""
    written = write_event(read_event(chunk(**{**members, "model": model})), asked)
    assert written.startswith(b"data: ")
    assert written.endswith(b"\n\n")
    assert json.loads(written[6:]) == {**members, "model": asked}


@pytest.mark.parametrize(
    "raw",
    [
        b": ping",
        b"data: [DONE]",
        b"data: {broken",
        b"data: [1]",
        b"event: x\ndata: hello",
        b"retry: 5",
        b'data: {"a":' + b"[" * 100_000,
        b'data: {"a": 1.50}',
        b"data:",
    ],
)
def test_everything_else_leaves_as_it_came(raw):
    """Comments, other fields, payloads that are no object, and chunks without `model` are not touched."""
    assert write_event(read_event(raw), "asked") == raw + b"\n\n"


def test_other_lines_of_an_event_stay():
    """An event's `event:` and `id:` lines survive the replaced model, and its data lines are joined."""
    raw = b'event: chunk\r\nid: 9\r\ndata: {"model":\r\ndata: "m", "x": 1.0}'
    assert write_event(read_event(raw), "asked") == b'event: chunk\nid: 9\ndata: {"model":"asked","x":1.0}\n\n'


@given(st.binary(max_size=60))
def test_garbage_is_an_event_like_any_other(data):
    """Whatever a provider sends is understood or passed on; nothing raises."""
    event = read_event(data)
    assert event.members is not None or write_event(event, "m") == data + b"\n\n"


def test_usage_is_read_and_the_extra_chunk_recognised():
    """The chunk that only reports usage is told from a last chunk that also reports it."""
    extra = read_event(chunk(id="x", choices=[], usage=USAGE))
    last = read_event(chunk(id="x", choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=USAGE))
    early = read_event(chunk(id="x", choices=[{"index": 0, "delta": {"content": "a"}, "finish_reason": None}], usage=None))
    assert (extra.usage, extra.usage_only, extra.finish_reason) == (CallUsage(3, 2, 5), True, False)
    assert (last.usage, last.usage_only, last.finish_reason) == (CallUsage(3, 2, 5), False, True)
    assert (early.usage, early.usage_only, early.finish_reason) == (None, False, False)


def test_terminal_and_failed_events():
    """`[DONE]` ends a stream, with or without the optional space; an `error` member makes a failure, a null one does not."""
    assert read_event(b"data: [DONE]").terminal
    assert read_event(b"data:[DONE]").terminal
    assert read_event(chunk(error={"message": "no"})).failed
    assert not read_event(chunk(error=None, choices=[])).failed
