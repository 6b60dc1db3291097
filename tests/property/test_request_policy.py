"""What a rollout may ask of a model: everything arrives, or is refused by name (E30-E34, rulings 17 and 18)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.control_fields import CONTROL_FIELDS, CONTROL_PREFIXES
from osmosis.pure.nesting import DEPTH_LIMIT
from osmosis.pure.request_policy import (
    ENVELOPE_FIELDS,
    EXTRA,
    InvalidBody,
    ProviderKind,
    Refusal,
    UpstreamRequest,
    is_control_field,
    shape_request,
)
from tests.strategies.bridge import LOOK_ALIKES, accepted_bodies, control_names, json_values, open_fields, texts

MODEL, PATH = "vendor/model-1", "openai/vendor/model-1"


def shape(body: bytes | dict[str, Any], kind: ProviderKind = ProviderKind.OPENAI_COMPATIBLE) -> UpstreamRequest | Refusal:
    """Shape one body for the test model."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return shape_request(data, model=MODEL, model_path=PATH, kind=kind)


def accepted(body: bytes | dict[str, Any]) -> UpstreamRequest:
    """The request that a body becomes; it must pass."""
    shaped = shape(body)
    assert isinstance(shaped, UpstreamRequest), shaped
    return shaped


def refused(body: bytes | dict[str, Any], kind: ProviderKind = ProviderKind.OPENAI_COMPATIBLE) -> Refusal:
    """The refusal of a body; it must not pass."""
    shaped = shape(body, kind)
    assert isinstance(shaped, Refusal), shaped
    return shaped


@given(accepted_bodies())
def test_every_field_arrives(body):
    """Every field arrives with its value, those of `extra_body` on top by a shallow merge; only `model` and usage are ours."""
    upstream = json.loads(accepted(body).body)
    extra = body.get(EXTRA) or {}
    expected = {name: value for name, value in body.items() if name != EXTRA} | extra | {"model": MODEL}
    if body.get("stream"):
        expected["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    assert upstream == expected


@given(accepted_bodies())
def test_the_client_is_told_what_it_asked(body):
    """The echo is the client's model, or the configured path; usage is forwarded exactly when the client asked for it."""
    request = accepted(body)
    assert request.client_model == (body.get("model") or PATH)
    assert request.stream == (body.get("stream") is True)
    assert request.wants_usage == bool((body.get("stream_options") or {}).get("include_usage"))


@given(accepted_bodies())
def test_shaping_twice_changes_nothing(body):
    """A shaped body passes again and means the same: the policy adds nothing that it would refuse."""
    once = accepted(body)
    assert json.loads(accepted(once.body).body) == json.loads(once.body)


@pytest.mark.parametrize(
    "spelling", ["1.50", "1e2", "-0.0", "123456789012345678901234567890", r'"\u00e9\/"', r'{"b":1, "a" : 2}']
)
@pytest.mark.parametrize("place", ["%s", '{"extra_body": %s}'])
def test_values_keep_their_spelling(spelling, place):
    """Numbers, escapes, white space and key order inside a value go out byte for byte."""
    body = (place % f'{{"x": {spelling}}}').encode()
    assert spelling.encode() in accepted(body).body


def test_a_lone_surrogate_arrives():
    """Text that is no valid Unicode reaches the provider as the escape that the client wrote."""
    assert rb'"a\ud800b"' in accepted(rb'{"messages": [{"content": "a\ud800b"}]}').body


def test_every_control_field_is_refused():
    """Each blocked name, and a name behind each prefix, is refused at top level and inside `extra_body`, alone and by name."""
    names = [*CONTROL_FIELDS, *(f"{prefix}anything" for prefix in CONTROL_PREFIXES), *CONTROL_PREFIXES]
    for name in names:
        assert [problem.where for problem in refused({name: 1}).problems] == [name]
        assert [problem.where for problem in refused({EXTRA: {name: None}}).problems] == [f"{EXTRA}.{name}"]
    assert len(CONTROL_FIELDS) == 429


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes_pass(name):
    """Names of everyday parameters, and names that only resemble a control field, pass at both places."""
    assert json.loads(accepted({name: {"api_key": 1}}).body)[name] == {"api_key": 1}
    assert json.loads(accepted({EXTRA: {name: 2}}).body)[name] == 2


@given(st.sets(control_names, max_size=4), st.sets(control_names, max_size=4), open_fields)
def test_a_refusal_lists_every_offender(top, inner, harmless):
    """All blocked fields of a request are named at once, with their place, and no others."""
    body = {**harmless, **dict.fromkeys(top, 0), EXTRA: dict.fromkeys(inner, 0)}
    expected = sorted([*top, *(f"{EXTRA}.{name}" for name in inner)])
    if not expected:
        accepted(body)
        return
    refusal = refused(body)
    assert sorted(problem.where for problem in refusal.problems) == expected
    assert ", ".join(expected) in refusal.message


@pytest.mark.parametrize("name", [*ENVELOPE_FIELDS, EXTRA])
def test_the_envelope_has_one_place(name):
    """`model`, `messages`, `stream`, `stream_options`, `n` and a nested `extra_body` are refused inside `extra_body`."""
    assert [problem.where for problem in refused({EXTRA: {name: 1}}).problems] == [f"{EXTRA}.{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", count) for count in (2, 0, True, "1", 1.5)),
        *(("model", 3), ("stream", "no"), ("stream", 1), ("stream_options", True)),
        *((EXTRA, other) for other in (("a", 1), "x", 0)),
    ],
)
def test_envelope_fields_have_their_types(name, value):
    """A field that the bridge reads itself is refused when it cannot be what it should be, and named."""
    assert [problem.key for problem in refused({name: value}).problems] == [name]


def test_problems_of_all_kinds_come_together():
    """One refusal carries control fields, envelope faults and `n` at once."""
    message = refused({"n": 2, "api_key": "x", "stream": "yes", EXTRA: {"model": "m", "_x": 1}}).message
    for part in ("api_key", "extra_body._x", "n: must be", "stream: must be", "extra_body.model"):
        assert part in message


@pytest.mark.parametrize("body", [b'{"a":1,"a":1}', b'{"x":{"b":1,"b":2}}', b'{"extra_body":{"c":1,"c":2}}', b'{"n":1,"n":9}'])
def test_duplicate_keys_are_refused(body):
    """A body that means two things is refused, at any depth."""
    assert "duplicate key" in refused(body).message


@given(json_values.filter(lambda value: not isinstance(value, dict)))
def test_only_objects_are_requests(value):
    """A JSON value that is no object is no request."""
    with pytest.raises(InvalidBody):
        shape(json.dumps(value).encode())


@given(accepted_bodies())
def test_a_body_cut_short_is_no_request(body):
    """No proper prefix of a body passes or crashes: the policy reads the whole or nothing."""
    data = json.dumps(body).encode()
    for length in range(len(data)):
        with pytest.raises(InvalidBody):
            shape(data[:length])


@pytest.mark.parametrize("depth", [127, 128, 900, 100_000])
def test_deep_nesting_is_no_way_to_break_the_bridge(depth):
    """A body that nests beyond the limit is no request; one within it passes."""
    body = b'{"x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    if depth <= DEPTH_LIMIT:
        assert accepted(body).body.count(b"[") == depth - 1
    else:
        with pytest.raises(InvalidBody, match="deeply"):
            shape(body)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_judged(data):
    """Whatever arrives is shaped, refused or called invalid; nothing else happens."""
    try:
        shaped = shape(data)
    except InvalidBody:
        return
    assert isinstance(json.loads(data.decode("utf-8", "surrogatepass")), dict)
    assert isinstance(shaped, UpstreamRequest | Refusal)


@pytest.mark.parametrize(
    ("kind", "value", "passes"),
    [
        (ProviderKind.OPENAI_COMPATIBLE, {"a": 1}, True),
        (ProviderKind.AZURE, {"a": 1}, True),
        (ProviderKind.ANTHROPIC, {"user_id": "u"}, True),
        (ProviderKind.ANTHROPIC, {"user_id": "u", "a": 1}, False),
        (ProviderKind.ANTHROPIC, "u", False),
        (ProviderKind.NATIVE, {}, False),
    ],
)
@pytest.mark.parametrize("place", [None, EXTRA])
def test_metadata_belongs_where_it_is_understood(kind, value, passes, place):
    """E32: `metadata` passes, passes with `user_id` alone, or is refused by name, wherever it stands."""
    body = {"metadata": value} if place is None else {place: {"metadata": value}}
    if passes:
        assert isinstance(shape(body, kind), UpstreamRequest)
    else:
        assert [problem.key for problem in refused(body, kind).problems] == ["metadata"]


@given(texts)
def test_case_matters(name):
    """A name is a control field by its exact spelling: the rule itself has no hidden folding."""
    expected = name in CONTROL_FIELDS or any(name.startswith(prefix) for prefix in CONTROL_PREFIXES)
    assert is_control_field(name) == expected
