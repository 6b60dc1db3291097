"""What one probe proves about a model (E27)."""

from __future__ import annotations

import json

import pytest

from osmosis.pure.completion import Completion, ProviderError, provider_error
from osmosis.pure.errors import ErrorCode
from osmosis.pure.preflight import PROBES, Step, next_step, probe_body, verdict
from osmosis.pure.providers import Endpoint

ENDPOINT = Endpoint("openai", "gpt-x", "https://api.example.test/v1", "OPENAI_API_KEY", "sk-0123456789")
UNREACHED = ProviderError(502, "cannot connect")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (UNREACHED, ErrorCode.NETWORK),
        (provider_error(401, "bad key"), ErrorCode.AUTH_REQUIRED),
        (provider_error(403, "not yours"), ErrorCode.AUTH_REQUIRED),
        (provider_error(404, "no such model"), ErrorCode.NOT_FOUND),
        (provider_error(400, "no"), ErrorCode.VALIDATION),
        (provider_error(422, "no"), ErrorCode.VALIDATION),
        (provider_error(500, "oops"), ErrorCode.NETWORK),
        (provider_error(503, "oops"), ErrorCode.NETWORK),
        (ProviderError(502, "not JSON", 200), ErrorCode.VALIDATION),
        (provider_error(308, "moved"), ErrorCode.VALIDATION),
    ],
)
def test_what_stops_a_run(outcome, code):
    """Each fault stops the run with endpoint, model, what the provider said, and what to do."""
    error = verdict(ENDPOINT, outcome, outcome.message)
    assert error is not None
    assert error.code is code
    assert "api.example.test" in str(error)
    assert "openai/gpt-x" in str(error)
    assert outcome.message in str(error)
    assert error.hint
    assert "{" not in error.hint


def test_what_lets_a_run_start():
    """An answer does, and so does a provider that is only busy."""
    assert verdict(ENDPOINT, Completion({}, None), "") is None
    assert verdict(ENDPOINT, provider_error(429, "slow down"), "slow down") is None


def test_the_key_at_fault_is_named():
    """A rejected key is named by its variable; a missing one is said to be missing."""
    named = verdict(ENDPOINT, provider_error(401, "x"), "x")
    keyless = Endpoint("openai", "m", "http://127.0.0.1:1/v1", None, None)
    missing = verdict(keyless, provider_error(401, "x"), "x")
    assert named is not None
    assert missing is not None
    assert "OPENAI_API_KEY" in str(named.hint)
    assert "none is set" in str(missing.hint)


@pytest.mark.parametrize(
    ("status", "step"),
    [
        *((status, Step.WAIT) for status in (408, 429, 500, 503)),
        *((status, Step.ANOTHER_PROBE) for status in (400, 422)),
        *((status, Step.STOP) for status in (302, 401, 404)),
    ],
)
def test_what_follows_an_answer(status, step):
    """Busy and broken servers are asked again, requests that a model dislikes are put differently, the rest stands."""
    assert next_step(provider_error(status, "x")) is step


def test_no_connection_is_final():
    """A host that cannot be reached is reported at once: nothing suggests that waiting helps."""
    assert next_step(UNREACHED) is Step.STOP


def test_probes_differ_only_in_their_limit():
    """The probes ask the configured model one word, with each way to limit an answer and with none."""
    bodies = [json.loads(probe_body(ENDPOINT, probe)) for probe in PROBES]
    assert [sorted(body.keys() - {"model", "messages"}) for body in bodies] == [["max_tokens"], ["max_completion_tokens"], []]
    assert {body["model"] for body in bodies} == {"gpt-x"}
