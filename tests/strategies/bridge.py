"""Request bodies, streams and cassettes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from osmosis.pure.cassette import CallKey, Cassette, Header, RecordedCall, request_digest
from osmosis.pure.control_fields import CONTROL_FIELDS, CONTROL_PREFIXES
from osmosis.pure.request_policy import ENVELOPE_FIELDS, EXTRA, is_control_field
from tests.strategies.numbers import call_usages

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)

LOOK_ALIKES = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed", "user", "store", "service_tier"),
    *("logprobs", "top_logprobs", "response_format", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "thinking"),
    *(
        "reasoning_effort",
        "provider",
        "plugins",
        "transforms",
        "metadata",
        "prompt_cache_key",
        "frequency_penalty",
        "modalities",
    ),
    *("API_KEY", "Timeout", "api_keys", "api_bases", "xlitellm_key", "aws", "azured", "s3", "oci", "vertexai", "x_api_key"),
    *("input_text", "prompts", "system_prompt", "usages", "identifier", "tokens", "cost", "header", "base-url", "callback"),
)
"""Names that an everyday request uses, or that only resemble a control field."""

control_names = st.sampled_from(sorted(CONTROL_FIELDS)) | st.builds(str.__add__, st.sampled_from(CONTROL_PREFIXES), texts)
open_names = st.sampled_from(LOOK_ALIKES) | texts.filter(
    lambda name: not is_control_field(name) and name not in (*ENVELOPE_FIELDS, EXTRA)
)
open_fields = st.dictionaries(open_names, json_values, max_size=5)
envelopes = st.fixed_dictionaries(
    {"messages": st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": texts}), max_size=3)},
    optional={
        "model": texts,
        "stream": st.booleans() | st.none(),
        "stream_options": st.none() | st.dictionaries(st.sampled_from(["include_usage", "chunk_size"]), st.booleans()),
        "n": st.sampled_from([None, 1, 1.0]),
    },
)


@st.composite
def accepted_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """A request that the policy lets pass."""
    body = {**draw(open_fields), **draw(envelopes)}
    if draw(st.booleans()):
        body[EXTRA] = draw(st.none() | open_fields)
    return dict(draw(st.permutations(list(body.items()))))


def chunk(**members: Any) -> bytes:
    """One `data:` event without its blank line."""
    return b"data: " + json.dumps(members).encode()


rows = st.integers(0, 5)
requests = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(texts, max_size=2)}, optional={"temperature": st.floats(0, 2), "stop": texts}
)


@st.composite
def recorded_calls(draw: st.DrawFn) -> RecordedCall:
    """A call as it came over the wire: a whole JSON body, a body that is no JSON, or a stream."""
    request = draw(requests)
    key = CallKey(draw(rows), draw(st.integers(0, 2)), request_digest(request), draw(st.integers(0, 2)))
    usage = draw(st.none() | call_usages)
    match draw(st.sampled_from(["json", "text", "stream"])):
        case "json":
            body = json.dumps(draw(st.dictionaries(texts, json_values, max_size=3))).encode()
            return RecordedCall.of(key, request, status=200, body=body, usage=usage)
        case "text":
            return RecordedCall.of(key, request, status=draw(st.integers(400, 499)), body=draw(texts).encode())
        case _:
            plain = st.dictionaries(texts, json_values, max_size=2).map(lambda members: chunk(**members))
            odd = st.sampled_from(
                [b"data: [DONE]", b": ping", b"event: error\ndata: {}", b'data: "text"', b"data: {", b"id: 4"]
            )
            events = draw(st.lists(plain | odd, max_size=4))
            return RecordedCall.of(key, request, status=200, events=events, usage=usage)


headers = st.builds(Header, texts, texts, st.just("2026-11-30T12:00:00Z"), texts)


@st.composite
def cassettes(draw: st.DrawFn) -> Cassette:
    """A cassette with a few calls."""
    calls = draw(st.lists(recorded_calls(), max_size=6))
    return Cassette(draw(headers), {call.key: call for call in calls})
