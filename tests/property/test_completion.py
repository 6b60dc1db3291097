"""A provider's whole answer: passed with all its fields, or an error with the right status (ruling 18, E33)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.completion import (
    MESSAGE_LIMIT,
    Completion,
    ProviderError,
    error_body,
    one_line,
    read_completion,
    write_completion,
)
from osmosis.pure.usage import CallUsage
from tests.strategies.bridge import json_values, texts


@given(st.dictionaries(texts, json_values, max_size=4), json_values, texts)
def test_all_fields_pass_and_model_is_replaced(members, choices, asked):
    """Reasoning fields, logprobs, token details and whatever comes next reach the client; `model` is what it asked for."""
    answer = {key: value for key, value in members.items() if key != "error"} | {"choices": choices, "model": "real"}
    completion = read_completion(200, json.dumps(answer).encode())
    assert isinstance(completion, Completion)
    assert json.loads(write_completion(completion, asked)) == {**answer, "model": asked}


def test_values_keep_their_bytes():
    """Numbers and escapes inside the answer are not spelled anew."""
    completion = read_completion(200, rb'{"choices": [{"logprob": -0.10, "t": "\u00e9\/"}], "usage": {"cost": 1.50e-3}}')
    assert isinstance(completion, Completion)
    written = write_completion(completion, "m")
    assert rb'[{"logprob": -0.10, "t": "\u00e9\/"}]' in written
    assert b'"cost": 1.50e-3' in written


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, CallUsage(3, 2, 5)),
        ({"input_tokens": 3, "output_tokens": 2}, CallUsage(3, 2, 5)),
        (None, None),
        ("many", None),
    ],
)
def test_usage_is_counted_or_absent(usage, expected):
    """Usage that the provider reports is counted; what it does not report is absent, not zero."""
    outcome = read_completion(200, json.dumps({"choices": [], "usage": usage}).encode())
    assert isinstance(outcome, Completion)
    assert outcome.usage == expected


@given(st.integers(100, 599).filter(lambda status: status != 200), st.binary(max_size=50))
def test_errors_keep_4xx_and_become_502_otherwise(status, body):
    """4xx is the rollout's to fix and keeps its status; everything else is the bridge's neighbour failing."""
    outcome = read_completion(status, body, "7")
    assert isinstance(outcome, ProviderError)
    assert outcome.status == (status if 400 <= status < 500 else 502)
    assert (outcome.provider_status, outcome.retry_after) == (status, "7")
    assert outcome.message
    assert outcome.key_rejected == (status in (401, 403))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[1]",
        b'"text"',
        b"{",
        b'{"object": "list"}',
        b"\xff\xfe",
        b"null",
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_garbage_with_status_200_is_a_bad_gateway(body):
    """An answer that is no completion is an error that quotes it, never a crash and never passed on."""
    outcome = read_completion(200, body)
    assert isinstance(outcome, ProviderError)
    assert outcome.status == 502


@pytest.mark.parametrize(
    ("code", "status"), [(429, 429), (401, 401), (503, 502), ("rate_limited", 502), (None, 502), (True, 502)]
)
def test_an_error_inside_status_200_is_an_error(code, status):
    """Gateways that report an error with status 200 do not hide it."""
    outcome = read_completion(200, json.dumps({"error": {"message": "no", "code": code}}).encode())
    assert isinstance(outcome, ProviderError)
    assert outcome.status == status
    assert "no" in outcome.message


@given(st.text(max_size=3000))
def test_messages_are_one_bounded_line(text):
    """A message has no line break, no run of white space, and at most MESSAGE_LIMIT code points."""
    line = one_line(text)
    assert len(line) <= MESSAGE_LIMIT
    assert line == " ".join(text.split())[:MESSAGE_LIMIT]
    assert len(line.splitlines()) <= 1


@pytest.mark.parametrize(("status", "kind"), [(400, "invalid_request_error"), (401, "bridge_error"), (502, "bridge_error")])
def test_error_bodies_have_the_contract_shape(status, kind):
    """The error object that OpenAI clients read, and `detail` for the rest."""
    assert json.loads(error_body(status, "why")) == {"error": {"message": "why", "type": kind, "code": status}, "detail": "why"}
