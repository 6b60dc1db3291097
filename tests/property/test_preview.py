"""Live previews: small, redacted, and always a document, whatever the conversation holds (rollout_protocol section 11)."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from osmosis.pure.preview import (
    MAX_BYTES,
    MAX_CHARACTERS,
    MAX_ENTRIES,
    MAX_MESSAGES,
    Preview,
    encode_preview,
    may_be_previewed,
    preview_hints,
)
from osmosis.pure.protocol import RolloutStatus
from osmosis.pure.redaction import Redactor
from osmosis.pure.trajectory import trajectory_facts
from tests.strategies import rollout as strategies

KEY = "0123456789abcdef-key"


def encoded(messages, **facts):
    """The bytes of a preview."""
    preview = Preview("r-1", messages, RolloutStatus.RUNNING, 3, "2026-01-02T03:04:05+00:00", **facts)
    return encode_preview(preview, Redactor([KEY]), sdk_version="1")


def shown(messages, **facts):
    """The document of a preview."""
    return json.loads(encoded(messages, **facts))


def about(document):
    """What it says of itself."""
    return document["extra"]["osmosis"]


@given(strategies.conversations)
def test_every_conversation_has_a_preview(messages):
    """ASCII, within its size, with the rollout's identity and numbered steps."""
    data = encoded(messages)
    assert data.isascii()
    assert len(data) <= MAX_BYTES
    document = json.loads(data)
    facts = trajectory_facts(data)
    assert facts is not None
    assert facts.rollout_id == "r-1"
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))


@given(st.text(), st.text(), st.sampled_from(["content", "reasoning_content"]))
@example("a", "b", "content")
def test_the_rollouts_key_never_shows(before, after, field):
    """Wherever it stands in what the agent says."""
    assert KEY not in encoded([{"role": "assistant", field: f"{before}{KEY}{after}"}]).decode()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"the key is {KEY}, keep it", "the key is [REDACTED], keep it"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: [REDACTED] [REDACTED]"),
        ("curl -H 'bearer eyJhbGciOi'", "curl -H 'bearer [REDACTED]'"),
        ("OPENAI_API_KEY=sk-123 python x.py", "OPENAI_API_KEY=[REDACTED] python x.py"),
        ('{"password": "two words", "user": "x"}', '{"password": [REDACTED], "user": "x"}'),
        ("secret_name: value, more", "secret_name: [REDACTED], more"),
        ("https://user:pass@host/path?x=1", "https://[REDACTED]@host/path?x=1"),
        ("a plain sentence with token in it", "a plain sentence with token in it"),
        ("mail me@example.org about https://host/", "mail me@example.org about https://host/"),
    ],
)
def test_what_looks_like_a_credential_is_left_out(text, left):
    """The words around it stay."""
    assert shown([{"role": "user", "content": text}])["steps"][0]["message"] == left


def test_values_under_sensitive_keys_are_left_out():
    """In the arguments of tools, at any depth."""
    arguments = {"x": {"api_key": "k", "Session-Token": {"a": 1}, "none": None, "plain": 2}}
    call = {"id": "c", "function": {"name": "f", "arguments": json.dumps(arguments)}}
    step = shown([{"role": "assistant", "tool_calls": [call]}])["steps"][0]
    assert step["tool_calls"][0]["arguments"] == {
        "x": {"api_key": "[REDACTED]", "Session-Token": "[REDACTED]", "none": None, "plain": 2}
    }


def test_counts_and_metrics_are_not_for_previews():
    """They are records, and belong into the trajectory."""
    message = {"role": "assistant", "content": "x", "usage": {"prompt_tokens": 1}, "model": "m"}
    step = shown([message])["steps"][0]
    assert set(step) == {"step_id", "source", "model_name", "message", "extra"}


def test_a_long_conversation_shows_its_newest_steps():
    """A hundred, numbered anew, each with its number in the conversation."""
    document = shown([{"role": "user", "content": str(number)} for number in range(150)])
    assert [step["message"] for step in document["steps"]] == [str(number) for number in range(50, 150)]
    assert [step["step_id"] for step in document["steps"]] == list(range(1, MAX_MESSAGES + 1))
    assert document["steps"][0]["extra"]["osmosis"]["original_step_id"] == 51
    assert about(document)["truncated"] is True


def test_long_texts_and_lists_are_clipped():
    """Both are said to be."""
    document = shown([{"role": "user", "content": "x" * (MAX_CHARACTERS + 1)}])
    assert len(document["steps"][0]["message"]) == MAX_CHARACTERS
    assert about(document)["truncated"] is True
    call = {"id": "c", "function": {"name": "f", "arguments": {"l": list(range(MAX_ENTRIES + 1))}}}
    document = shown([{"role": "assistant", "tool_calls": [call]}])
    assert len(document["steps"][0]["tool_calls"][0]["arguments"]["l"]) == MAX_ENTRIES
    assert about(document)["truncated"] is True


def test_a_conversation_beyond_the_size_loses_its_oldest_steps():
    """Ninety steps of sixteen thousand characters do not fit."""
    document = shown([{"role": "user", "content": f"{number} " + "x" * 16_000} for number in range(90)])
    messages = [step["message"].split()[0] for step in document["steps"]]
    assert messages == [str(number) for number in range(90 - len(messages), 90)]
    assert 40 < len(messages) < 60
    assert about(document)["truncated"] is True


def test_one_step_beyond_the_size_is_reduced_to_its_text():
    """A step cannot be left out when it is the only one."""
    call = {"id": "c", "function": {"name": "f", "arguments": {"l": ["x" * 16_000] * 100}}}
    data = encoded([{"role": "assistant", "content": "hello", "tool_calls": [call]}])
    assert len(data) <= MAX_BYTES
    (step,) = json.loads(data)["steps"]
    assert step == {"step_id": 1, "source": "agent", "message": "hello", "extra": {"osmosis": {"original_step_id": 1}}}


def test_what_a_preview_says_of_itself():
    """Identity, status, version, time; the turn is counted unless the source knows it."""
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    assert about(shown(messages)) == {
        "rollout_id": "r-1",
        "preview": True,
        "turn": 1,
        "truncated": False,
        "status": "running",
        "preview_version": 3,
        "updated_at": "2026-01-02T03:04:05+00:00",
    }
    assert about(shown(messages, turn=7, truncated=True))["turn"] == 7
    assert about(shown(messages, turn=7, truncated=True))["truncated"] is True


@pytest.mark.parametrize(
    ("fields", "hints"),
    [
        ({}, (None, False)),
        ({"_preview_turn": 4, "_preview_truncated": True}, (4, True)),
        ({"_preview_turn": True, "_preview_truncated": 1}, (None, False)),
        ({"_preview_turn": -1}, (None, False)),
        ({"_preview_turn": "4"}, (None, False)),
    ],
)
def test_hints_of_a_source(fields, hints):
    """Only what has the right type counts."""
    assert preview_hints(fields) == hints


@given(st.text(max_size=300))
@example("a" * 257)
@example(".hidden")
@example("a/b")
@example("a\n")
def test_ids_that_may_be_previewed_are_safe_names(rollout_id):
    """Short, plain, and no hidden directory."""
    if may_be_previewed(rollout_id):
        assert len(rollout_id) <= 256
        assert rollout_id.isascii()
        assert rollout_id[0].isalnum()
        assert not set(rollout_id) & set("/\\ \n\t\0")


def test_usual_ids_may_be_previewed():
    """Hexadecimal ones and those with a name space."""
    assert all(map(may_be_previewed, ["0" * 32, "run::1", "a.b_c-d", "a" * 256]))
