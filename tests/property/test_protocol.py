"""Rollout protocol 0.4: bodies, rules and what a finished rollout means."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from osmosis.pure import protocol
from osmosis.pure.journal import Status
from osmosis.pure.outcome import MESSAGE_LENGTH, Outcome, classify
from osmosis.pure.protocol import (
    ErrorCategory,
    Health,
    InitRequest,
    InitResponse,
    Lifecycle,
    LocalProtocolError,
    RemoteProtocolError,
    ResultResponse,
    RolloutStatus,
    Sample,
)
from tests.strategies import rollout as strategies

CODECS = [
    (strategies.init_requests, protocol.decode_init_request),
    (strategies.init_responses, protocol.decode_init_response),
    (strategies.results, protocol.decode_result),
    (strategies.cancel_requests, protocol.decode_cancel_request),
    (strategies.cancel_responses, protocol.decode_cancel_response),
]
records = st.one_of(*[st.tuples(records, st.just(decode)) for records, decode in CODECS])
decoders = st.sampled_from([decode for _, decode in CODECS] + [protocol.decode_health])


@given(records)
def test_every_record_survives_the_wire(pair):
    """What is encoded is decoded to an equal record, with every key present."""
    record, decode = pair
    data = protocol.encode(record)
    assert decode(data) == record
    assert set(json.loads(data)) == set(record.__struct_fields__)


@given(records, st.data())
def test_a_cut_body_is_refused(pair, data):
    """No prefix of a body is taken for a whole one."""
    record, decode = pair
    body = protocol.encode(record)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError):
        decode(body[:cut])


@given(st.binary(max_size=60) | strategies.json_values(strategies.any_text).map(json.dumps).map(str.encode), decoders)
@example(b"[" * 100_000, protocol.decode_health)
@example(b'{"rollout_id":' * 100_000, protocol.decode_result)
def test_hostile_bodies_raise_one_kind_of_error(data, decode):
    """Whatever the peer sends, it is either a record or RemoteProtocolError."""
    with suppress(RemoteProtocolError):
        assert isinstance(decode(data), msgspec.Struct)


@given(strategies.results, st.data())
def test_a_body_with_its_keys_mangled_is_judged_not_crashed_on(result, data):
    """Any one value of a valid body may be anything at all."""
    body = msgspec.to_builtins(result)
    key = data.draw(st.sampled_from(sorted(body)))
    body[key] = data.draw(strategies.json_values(strategies.any_text))
    with suppress(RemoteProtocolError):
        assert isinstance(protocol.decode_result(json.dumps(body).encode()), ResultResponse)


@given(strategies.any_text, strategies.any_text)
def test_lone_surrogates_pass(label, content):
    """A row may hold what JSON can escape and UTF-8 cannot hold: U+FFFD travels instead. As an escape it is understood."""
    request = InitRequest(
        initial_messages=[{"role": "user", "content": content}], label=label, rollout_id="r", chat_completions_url="u"
    )
    protocol.encode(request).decode()
    escaped = json.dumps(msgspec.to_builtins(request)).encode()
    assert protocol.decode_init_request(escaped) == request


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("place", ['"metrics":{"a":NUMBER}', '"messages":[{"a":NUMBER}]', '"extra_fields":{"a":[NUMBER]}'])
def test_numbers_that_json_lacks_are_refused(number, place):
    """Anywhere but as the reward."""
    odd = place.replace("NUMBER", number)
    body = '{"rollout_id":"r","status":"success","sample":{ODD,"reward":1.0}}'.replace("ODD", odd)
    with pytest.raises(RemoteProtocolError):
        protocol.decode_result(body.encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_an_odd_reward_fails_its_rollout_alone(number):
    """A reward that is no number is a failed item, not a broken server (ruling 7)."""
    body = '{"rollout_id":"r","status":"success","sample":{"messages":[],"reward":NUMBER}}'.replace("NUMBER", number)
    outcome = classify(protocol.decode_result(body.encode()))
    assert outcome is not None
    assert (outcome.status, outcome.reward, outcome.error_type) == (Status.FAILED, None, "validation_error")
    assert outcome.has_sample


# ---- rules -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "/", "a\\b", "a\0b", "../x"])
def test_ids_that_are_no_path_segment(bad):
    """Are refused where they are made and where they arrive."""
    assert not protocol.is_path_segment(bad)
    with pytest.raises(LocalProtocolError):
        InitRequest(initial_messages=[], rollout_id=bad, chat_completions_url="u")
    body = json.dumps({"initial_messages": [], "rollout_id": bad, "chat_completions_url": "u"})
    with pytest.raises(RemoteProtocolError):
        protocol.decode_init_request(body.encode())


@pytest.mark.parametrize("good", ["a b", "run::1", "é", " ", ".x", "...", "a?b#c%"])
def test_ids_that_are_one(good):
    """Blanks, colons, marks and leading dots are fine, and stay one segment of the URL."""
    assert protocol.is_path_segment(good)
    assert protocol.rollout_path(good).count("/") == 3
    assert not set(protocol.rollout_path(good)) & set("?# ")


@pytest.mark.parametrize(
    ("token", "wait", "lease"),
    [("", 1, 2), ("t", 0, 2), ("t", -1, 2), ("t", math.nan, 2), ("t", math.inf, math.inf), ("t", 1, 1), ("t", 1, math.inf)],
)
def test_leases_that_make_no_sense(token, wait, lease):
    """A client would wait for ever, or never."""
    with pytest.raises(LocalProtocolError):
        InitResponse("r", RolloutStatus.QUEUED, token, wait, lease)


@given(strategies.cancel_requests)
def test_one_selector(request_):
    """Exactly one of ids, prefix and all; what is empty counts as given."""
    given_ = [request_.ids is not None, request_.prefix is not None, request_.all]
    assert request_.selects_once == (given_.count(True) == 1)


HEALTH = b"""{"status":"ok","concurrency":{"max_concurrent":4,"queued":0,"running":0},"instance_id":"inst-42177",
"process_id":"09678174-a47f-405d-a770-a27319c7556a","lifecycle":{"accepting_rollouts":true,"active_rollouts":0}}"""


def test_health_as_recorded():
    """The public server's report."""
    assert protocol.decode_health(HEALTH) == Health(
        instance_id="inst-42177",
        process_id="09678174-a47f-405d-a770-a27319c7556a",
        lifecycle=Lifecycle(accepting_rollouts=True, active_rollouts=0),
        capacity=4,
    )


@pytest.mark.parametrize(
    ("report", "capacity"),
    [
        ({"max_queue_depth": 8, "concurrency": {"max_concurrent": 2}}, 8),
        ({"max_queue_depth": 0, "concurrency": {"max_concurrent": 2}}, 2),
        ({"max_queue_depth": True}, None),
        ({"concurrency": {"max_concurrent": None}}, None),
        ({"concurrency": {"max_concurrent": 2.0}}, None),
        ({"concurrency": [4]}, None),
        ({}, None),
    ],
)
def test_capacity(report, capacity):
    """Positive integers only, the queue's depth first."""
    assert protocol.decode_health(json.dumps(report).encode()).capacity == capacity


@pytest.mark.parametrize("value", [True, "true", 1, None])
def test_a_public_url_is_required_only_if_the_report_says_exactly_true(value):
    """Anything else means that the loopback will do."""
    body = json.dumps({"chat_endpoint": {"environment": "docker", "requires_public_url": value}})
    assert protocol.decode_health(body.encode()).requires_public_url is (value is True)


@given(strategies.json_objects(strategies.any_text))
def test_any_object_is_a_health_report(report):
    """What is absent or malformed is None, never an error."""
    assert isinstance(protocol.decode_health(json.dumps(report).encode()), Health)


@given(st.none() | st.integers(-3, 50), st.none() | st.integers(-3, 50))
def test_in_flight_limit(requested, capacity):
    """At least one, never above the capacity, what was asked for if that fits."""
    limit = protocol.in_flight_limit(requested, capacity)
    assert limit >= 1
    if capacity is not None and capacity > 0:
        assert limit <= capacity
    if requested is not None and requested > 0 and (capacity is None or capacity <= 0 or requested <= capacity):
        assert limit == requested


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, 1.0), ("5", 5.0), ("0", 0.05), ("-3", 0.05), ("9999", 60.0), ("0.5", 0.5), ("Mon, 30 Nov 2026", 1.0), ("nan", 1.0)],
)
def test_retry_after(header, seconds):
    """Clamped to 0.05 to 60 seconds, one second if it says nothing."""
    assert protocol.retry_after_sec(header) == seconds


def test_retry_schedule():
    """The delays in order, then no more."""
    delays = [
        protocol.retry_delay_sec(protocol.GATEWAY_RETRY_DELAYS_SEC, failures, left_sec=120, poll_timeout_sec=40)
        for failures in range(1, 8)
    ]
    assert delays == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, None]


@given(st.integers(1, 6), st.floats(0, 200), st.floats(1, 60))
def test_no_retry_outlasts_the_lease(failures, left, timeout):
    """A retry that the lease would cut off is not made."""
    delay = protocol.retry_delay_sec(protocol.GATEWAY_RETRY_DELAYS_SEC, failures, left_sec=left, poll_timeout_sec=timeout)
    assert delay is None or delay + timeout <= left


def test_a_server_that_falls_silent_is_asked_twice():
    """With the server's own limits two questions in a row go unanswered, 40 s each, before a run gives it up; a third could not
    be answered within the lease. However far the last answer had come, neither more nor fewer."""
    admission = InitResponse(
        "r", RolloutStatus.QUEUED, "t", protocol.DEFAULT_RESULT_WAIT_TIMEOUT_SEC, protocol.DEFAULT_POLLING_LEASE_TIMEOUT_SEC
    )
    for last_answer_took in (0.0, 10.0, admission.result_wait_timeout_sec):
        renewed, now, failures = 0.0, last_answer_took, 0
        pause: float | None = 0.0
        while pause is not None:
            now += pause + admission.poll_timeout_sec
            failures += 1
            left = renewed + admission.polling_lease_timeout_sec - now
            schedule = protocol.TRANSPORT_RETRY_DELAYS_SEC
            pause = protocol.retry_delay_sec(schedule, failures, left_sec=left, poll_timeout_sec=admission.poll_timeout_sec)
        assert (failures, now - last_answer_took) == (2, 80.1)


# ---- what a finished rollout means -----------------------------------------------------------------------------------------


def result(status, sample=None, message=None, category=None):
    """A finished rollout."""
    return ResultResponse("r", status, sample, message, category)


SUCCESS, FAILURE = RolloutStatus.SUCCESS, RolloutStatus.FAILURE


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (result(SUCCESS, Sample(reward=0.5)), Outcome(Status.SUCCESS, 0.5, has_sample=True)),
        (result(SUCCESS, Sample()), Outcome(Status.SUCCESS, has_sample=True)),
        (result(SUCCESS), Outcome(Status.SUCCESS)),
        (result(SUCCESS, Sample(remove_sample=True, reward=0.9)), Outcome(Status.SKIPPED, has_sample=True)),
        (
            result(FAILURE, Sample(reward=1.0), "late", ErrorCategory.TIMEOUT),
            Outcome(Status.FAILED, None, "timeout", "late", has_sample=True),
        ),
        (result(FAILURE, None, "odd"), Outcome(Status.FAILED, None, "odd", "odd")),
        (result(FAILURE, None, ""), Outcome(Status.FAILED, None, "rollout_failed", "")),
        (result(FAILURE), Outcome(Status.FAILED, None, "rollout_failed")),
        (result(RolloutStatus.CANCELLED, None, "cancelled"), None),
    ],
)
def test_classification(response, outcome):
    """eval_local section 6, row by row."""
    assert classify(response) == outcome


@pytest.mark.parametrize("category", [None, ErrorCategory.AGENT_ERROR])
def test_a_long_error_message_is_cut(category):
    """An exception may quote a whole answer: the journal and the log get its beginning and how long it was, well formed."""
    said = "\U0001f600\ud800" * 5_000_000
    outcome = classify(ResultResponse("r", RolloutStatus.FAILURE, err_message=said, err_category=category))
    assert outcome is not None
    assert outcome.error_message == "\U0001f600\ufffd" * (MESSAGE_LENGTH // 2) + "... (10,000,000 characters)"
    assert outcome.error_type == (category or outcome.error_message)
    kept = "x" * MESSAGE_LENGTH
    exact = classify(ResultResponse("r", RolloutStatus.FAILURE, err_message=kept))
    assert exact is not None
    assert exact.error_message == kept


@given(strategies.results)
def test_every_outcome_is_consistent(response):
    """A reward only on success, a reason only and always on failure, nothing for what is cancelled or not finished."""
    assume(response.status.terminal)
    outcome = classify(response)
    if outcome is None:
        assert response.status is RolloutStatus.CANCELLED
        return
    assert (outcome.error_type is not None) == (outcome.status is Status.FAILED)
    assert outcome.error_type != ""
    assert outcome.reward is None or (outcome.status is Status.SUCCESS and math.isfinite(outcome.reward))
    assert outcome.has_sample == (response.sample is not None)


@given(strategies.results)
def test_only_finished_rollouts_are_classified(response):
    """Anything else is the caller's mistake."""
    assume(not response.status.terminal)
    with pytest.raises(LocalProtocolError):
        classify(response)
