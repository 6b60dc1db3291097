"""Exact bytes of a cassette, written by hand beside the encoder's."""

from __future__ import annotations

from pathlib import Path

from osmosis.pure.cassette import CallKey, Cassette, Header, RecordedCall, decode_cassette, encode_cassette, request_digest
from osmosis.pure.usage import CallUsage

FOLDER = Path(__file__).parent / "cassette"
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Größe von <数>\u2028?"}], "temperature": 0.5}
STREAMED = {**QUESTION, "stream": True, "stream_options": {"include_usage": True}}


def example() -> Cassette:
    """A whole answer, the same question again, a refusal, a body that is no JSON, and a stream."""
    digest, streamed = request_digest(QUESTION), request_digest(STREAMED)
    answer = b'{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"4"}}],"usage":{"total_tokens":5}}'
    chunks = [
        b'data: {"id":"c2","model":"m","choices":[{"index":0,"delta":{"content":"4"},"finish_reason":"stop"}]}',
        b'data: {"id":"c2","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
        b"data: [DONE]",
    ]
    calls = [
        RecordedCall.of(CallKey(7, 1, streamed, 0), STREAMED, status=200, events=chunks, usage=CallUsage(3, 2, 5)),
        RecordedCall.of(CallKey(0, 0, digest, 1), QUESTION, status=400, body=b'{"error":{"message":"no"}}'),
        RecordedCall.of(CallKey(0, 0, digest, 0), QUESTION, status=200, body=answer, usage=CallUsage(3, 2, 5)),
        RecordedCall.of(CallKey(0, 1, digest, 0), QUESTION, status=404, body=b"<html>no</html>"),
    ]
    header = Header("openai/m", "http://127.0.0.1:8000/v1", "2026-11-30T12:00:00Z", "an example")
    return Cassette(header, {call.key: call for call in calls})


def test_the_bytes_of_a_cassette(golden):
    """A cassette's normal form is these bytes on every machine, so that two recordings can be compared by `diff`."""
    golden("cassette/example.jsonl", encode_cassette(example()))


def test_a_cassette_written_by_hand_is_read():
    """Spaces, another key order, a byte order mark and blank lines in a file that a person edited do not matter."""
    cassette = decode_cassette((FOLDER / "by_hand.jsonl").read_bytes(), "by_hand.jsonl").cassette
    assert cassette.header == Header("openai/m", "a notebook", "2026-01-01T00:00:00Z")
    assert list(cassette.calls) == [CallKey(2, 0, "xxh3-128:v1:00", 0)]
    assert cassette.calls[CallKey(2, 0, "xxh3-128:v1:00", 0)].body == {"choices": []}
