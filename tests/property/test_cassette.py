"""Cassettes: what is recorded is what is heard again, whatever the order of lines (ruling 21)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.cassette import (
    CallKey,
    Cassette,
    Header,
    Missing,
    RecordedCall,
    decode_cassette,
    encode_call,
    encode_cassette,
    encode_header,
    find,
    fingerprint,
    merge,
    redact,
    request_digest,
    stream_text,
)
from osmosis.pure.errors import OsmosisError
from osmosis.pure.redaction import Redactor
from tests.strategies.bridge import cassettes, chunk, headers, recorded_calls, requests, texts

HEADER = Header("openai/m", "http://127.0.0.1:1/v1", "2026-11-30T12:00:00Z")


def read(data: bytes) -> Cassette:
    """The cassette in a file's bytes."""
    return decode_cassette(data, "c.jsonl").cassette


@given(cassettes())
def test_a_cassette_survives_its_file(cassette):
    """Encoding and decoding gives the same header and calls, and the normal form is a fixed point."""
    data = encode_cassette(cassette)
    assert read(data) == cassette
    assert encode_cassette(read(data)) == data
    assert decode_cassette(data, "c").valid_bytes == len(data)
    for line in data.splitlines():
        json.loads(line)


@given(headers, st.lists(recorded_calls(), max_size=6, unique_by=lambda call: call.key), st.randoms(use_true_random=False))
def test_the_order_of_lines_carries_no_meaning(header, calls, random):
    """Any order in which a concurrent run finishes its calls has the same normal form and the same fingerprint."""
    in_order = read(encode_header(header) + b"".join(map(encode_call, calls)))
    random.shuffle(calls)
    shuffled = read(encode_header(header) + b"".join(map(encode_call, calls)))
    assert encode_cassette(shuffled) == encode_cassette(in_order)
    assert fingerprint(shuffled) == fingerprint(in_order)


@given(cassettes())
def test_a_torn_last_line_is_ignored(cassette):
    """Cut anywhere behind the header, the file reads as the calls whose lines are whole, and says where the tear begins."""
    data = encode_cassette(cassette)
    header_end = data.index(b"\n") + 1
    for length in range(header_end, len(data)):
        tail = decode_cassette(data[:length], "c")
        whole = data[:length].count(b"\n") - 1
        cut_after_last_byte = data[length : length + 1] == b"\n"
        assert len(tail.cassette.calls) == whole + cut_after_last_byte
        assert tail.valid_bytes == (length if cut_after_last_byte else data.rindex(b"\n", 0, length) + 1)


@given(cassettes(), st.integers(0, 10_000), st.integers(0, 255))
def test_damage_before_the_end_is_refused_with_its_line(cassette, position, byte):
    """A changed byte either leaves the file readable or is an OsmosisError; nothing else is ever raised."""
    data = bytearray(encode_cassette(cassette) + b"\n")
    data[position % len(data)] = byte
    try:
        read(bytes(data))
    except OsmosisError as error:
        problems = error.problems
    else:
        return
    assert all(problem.where.startswith("c.jsonl:") for problem in problems)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"", "c.jsonl:1"),
        (b"\n\n", "c.jsonl:1"),
        (b'{"cassette":2,"model":"m","recorded_from":"","created_at":""}\n', "c.jsonl:1"),
        (b'{"model":"m"}\n', "c.jsonl:1"),
        (b"[]\n", "c.jsonl:1"),
        (encode_header(HEADER) + b'{"a":' + b"[" * 100_000 + b"\n", "c.jsonl:2"),
        (encode_header(HEADER) + b"broken\n" + b"{}\n", "c.jsonl:2"),
        (encode_header(HEADER) + b'{"row":0,"run":0,"digest":"d","ordinal":0,"request":{},"status":200}\n', "c.jsonl:2"),
        (
            encode_header(HEADER) + b'{"row":"0","run":0,"digest":"d","ordinal":0,"request":{},"status":1,"body":1}\n',
            "c.jsonl:2",
        ),
    ],
)
def test_what_is_no_cassette_says_where(data, where):
    """An empty file, another format, a foreign file and a damaged line are refused by line."""
    with pytest.raises(OsmosisError) as caught:
        read(data)
    assert caught.value.problems[0].where == where


def test_every_damaged_line_is_reported():
    """Two damaged lines are two problems, each with its byte offset."""
    header = encode_header(HEADER)
    with pytest.raises(OsmosisError) as caught:
        read(header + b"one\ntwo\n")
    assert [problem.where for problem in caught.value.problems] == ["c.jsonl:2", "c.jsonl:3"]
    assert f"byte {len(header) + 4}" in caught.value.problems[1].message


@given(cassettes(), cassettes())
def test_merging_keeps_everything_and_the_newer_call(older, newer):
    """A merged cassette answers what either answers; where both do, the newer one speaks."""
    merged = merge(older, newer)
    assert merged.calls.keys() == older.calls.keys() | newer.calls.keys()
    assert all(merged.calls[key] == call for key, call in newer.calls.items())
    assert merge(merged, newer) == merged


@given(requests, st.data())
def test_the_digest_sees_meaning_not_spelling(request, data):
    """Key order and `stream_options` do not change the digest; any changed value does."""
    shuffled = dict(data.draw(st.permutations(list(request.items()))))
    assert request_digest({**shuffled, "stream_options": {"include_usage": True}}) == request_digest(request)
    assert request_digest({**request, "seed": 1}) != request_digest(request)
    assert request_digest({**request, "messages": [*request["messages"], "more"]}) != request_digest(request)


@given(cassettes(), recorded_calls())
def test_a_call_is_found_by_its_key_or_explained(cassette, call):
    """Lookup gives exactly the recorded call, or a sentence that names row and run."""
    for key, recorded in cassette.calls.items():
        assert find(cassette, key, recorded.request) == recorded
    if call.key not in cassette.calls:
        missing = find(cassette, call.key, call.request)
        assert isinstance(missing, Missing)
        assert f"row {call.key.row}, run {call.key.run}" in missing.explanation


def recorded(request: dict[str, object], row: int = 0, run: int = 0, ordinal: int = 0) -> RecordedCall:
    """A recorded call with that request."""
    return RecordedCall.of(CallKey(row, run, request_digest(request), ordinal), request, status=200, body=b"{}")


def explain(asked: dict[str, object], *calls: RecordedCall, row: int = 0, run: int = 0, ordinal: int = 0) -> str:
    """Why `asked` is not among `calls`."""
    cassette = Cassette(HEADER, {call.key: call for call in calls})
    missing = find(cassette, CallKey(row, run, request_digest(asked), ordinal), asked)
    assert isinstance(missing, Missing)
    return missing.explanation


def test_a_missing_request_says_what_differs():
    """The closest recorded request of that rollout is compared: path, recorded value, asked value, and no agreement."""
    near = recorded(
        {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "2+2?"}, {"role": "tool", "content": "4"}]}
    )
    far = recorded({"model": "other", "messages": []})
    asked = {
        "model": "m",
        "temperature": 0,
        "messages": [{"role": "user", "content": "2+2?"}, {"role": "tool", "content": "5"}],
    }
    text = explain(asked, far, near)
    assert "messages[1].content: recorded '4', asked '5'" in text
    assert "temperature" not in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"b": 1}, "a: recorded 1, asked nothing; b: recorded nothing, asked 1"),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]: recorded nothing, asked 2"),
        ({"a": 1}, {"a": 1.0}, "a: recorded 1, asked 1.0"),
        ({"a": 1}, {"a": True}, "a: recorded 1, asked true"),
        ({"a": {"b": None}}, {"a": {}}, "a.b: recorded null, asked nothing"),
        ({"a": "x" * 500 + "1"}, {"a": "x" * 500 + "2"}, "1', asked"),
    ],
)
def test_differences_are_exact(old, new, expected):
    """Absent, null, types and the place deep inside a long text are told apart."""
    assert expected in explain(new, recorded(old))


def test_other_reasons_are_named():
    """A row or run that was never recorded, and a request asked more often than recorded, are said to be so."""
    call = recorded({"model": "m"}, row=3, run=1)
    assert "nothing of that row" in explain({"model": "m"}, call, row=4, run=1)
    assert "only of its run(s) 1" in explain({"model": "m"}, call, row=3, run=0)
    assert "1 time(s), and it was asked 2 times" in explain({"model": "m"}, call, row=3, run=1, ordinal=1)


def test_long_differences_are_bounded():
    """A request that differs everywhere is explained in a few lines, with the number of the rest."""
    text = explain({f"k{index}": "x" * 1000 for index in range(50)}, recorded({f"k{index}": "y" * 1000 for index in range(50)}))
    assert "and 45 more" in text
    assert len(text) < 2000


@given(
    st.lists(st.sampled_from([chunk(id="x", n=1), b"data: [DONE]", b": ping", b"event: e\ndata: 1", b'data: "t"']), max_size=5)
)
def test_a_stream_is_heard_again(events):
    """A recorded stream gives back its events: payload objects by value, everything else verbatim."""
    call = RecordedCall.of(CallKey(0, 0, "d", 0), {}, status=200, events=events)
    heard = stream_text(msgspec.json.decode(msgspec.json.encode(call.events))).split(b"\n\n")[:-1]
    assert [event.replace(b" ", b"") for event in heard] == [event.replace(b" ", b"") for event in events]


@given(recorded_calls(), texts.filter(lambda text: len(text) > 3))
def test_secrets_never_reach_the_line(call, secret):
    """No string value of a redacted call holds the secret; keys, numbers and the call's own key stay."""
    request = {**call.request, "user": f"my {secret} here", "nested": [{"a": secret}]}
    body = {"choices": [{"message": {"content": f"you said {secret}"}}]}
    loud = RecordedCall(call.key, request, 200, body=body)
    quiet = redact(loud, Redactor([secret]))
    assert quiet.key == call.key
    assert quiet.request.keys() == request.keys()
    assert secret not in quiet.request["user"].replace("[REDACTED]", "")
    assert quiet.request["nested"] == [{"a": "[REDACTED]"}]
    assert secret not in quiet.body["choices"][0]["message"]["content"].replace("[REDACTED]", "")
