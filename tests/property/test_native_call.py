"""Fields for native providers, and LiteLLM's answers (E18, E32)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.native_call import StandardFields, error_text, lost_fields, native_completion, sort_fields
from osmosis.pure.native_providers import native_problems
from tests.strategies.bridge import json_values, open_fields

KNOWN = StandardFields(frozenset({"temperature", "seed", "user", "metadata"}), frozenset({"temperature", "user"}))


@given(open_fields)
def test_every_field_has_a_place_or_is_refused(fields):
    """No field of a request disappears: it is translated, handed on, or named in a refusal; only null means not set."""
    sorted_ = sort_fields({"messages": [], **fields}, KNOWN, "x")
    refused = {problem.key for problem in sorted_.problems}
    given_ = {name for name, value in fields.items() if value is not None}
    assert sorted_.standard.keys() | sorted_.unknown.keys() == given_
    assert refused == given_ & {"seed"}


@given(st.dictionaries(st.text(min_size=1, max_size=5), json_values, min_size=1, max_size=4), st.data())
def test_a_lost_field_is_noticed(unknown, data):
    """A request that lacks one of the fields is told by that field's name; one that has them all, at any depth, is not."""
    fields = sort_fields({f"x-{name}": value or 1 for name, value in unknown.items()}, KNOWN, "x")
    whole = {"outer": [{"inner": fields.unknown}]}
    assert lost_fields(fields, json.dumps(whole).encode()) == ()
    lost = data.draw(st.sampled_from(sorted(fields.unknown)))
    rest = {name: 0 for name in fields.unknown if name != lost}
    assert lost_fields(fields, json.dumps(rest).encode()) == (lost,)


def test_a_lost_user_is_noticed():
    """The ids by which a provider tells users apart have to arrive with their value."""
    fields = sort_fields({"user": "a@b.test", "metadata": {"user_id": "u"}}, KNOWN, "x")
    assert lost_fields(fields, b'{"metadata": {"user_id": "u"}}') == ("user",)
    assert lost_fields(fields, b'{"user": "a@b.test"}') == ("metadata.user_id",)


def test_made_up_usage_and_cost_are_taken_out():
    """Zeros for a provider that reported nothing, and a cost from LiteLLM's own prices, never reach a client."""
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert native_completion({"choices": [{"message": {}}], "usage": zeros}) == {
        "choices": [{"message": {"content": None}, "finish_reason": None}]
    }
    counted = native_completion({"choices": [], "usage": {"prompt_tokens": 3, "cost": 0.1}})
    assert counted == {"choices": [], "usage": {"prompt_tokens": 3}}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "litellm.UnsupportedParamsError: x does not support parameters: ['seed'], for model=m. To drop these, set `a`.",
            "x does not support parameters: ['seed'], for model=m",
        ),
        ("litellm.RateLimitError: litellm.RateLimitError: GeminiException - {}", "{}"),
        ("litellm.APIConnectionError: no\nTraceback (most recent call last):\n  File", "no"),
        ("plain", "plain"),
    ],
)
def test_messages_are_the_providers(text, plain):
    """A rollout reads what the provider said, without LiteLLM's class names, advice and traceback."""
    assert error_text(text) == plain


def test_only_what_google_cannot_be_told_is_refused():
    """`parallel_tool_calls: true` is the default there; false and a user are refused by name."""
    assert native_problems("gemini", {"parallel_tool_calls": True, "temperature": 0, "user": None}) == ()
    refused = native_problems("vertex_ai", {"parallel_tool_calls": False, "user": "u"})
    assert sorted(problem.key or "" for problem in refused) == ["parallel_tool_calls", "user"]
    assert native_problems("anthropic", {"user": "u"}) == ()
