"""Which tasks are tried before rollouts are taken, and what their failures mean (rollout_protocol 13.9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.prewarm import (
    Failure,
    PrewarmMode,
    Trial,
    is_verified,
    prewarm_mode,
    prewarm_trial,
    prewarm_width,
    systemic_reason,
    task_ids,
)


@pytest.mark.parametrize(
    ("given_values", "mode"),
    [
        ((None, None, None), PrewarmMode.AUTO),
        ((None, PrewarmMode.OFF, "full"), PrewarmMode.OFF),
        (("healthcheck", True, None), PrewarmMode.HEALTHCHECK),
        ((False, "full", None), PrewarmMode.OFF),
        ((None, None, " FULL "), PrewarmMode.FULL),
        ((None, None, ""), PrewarmMode.AUTO),
    ],
)
def test_the_first_word_counts(given_values, mode):
    """Argument, constructor, environment."""
    assert prewarm_mode(*given_values) is mode


def test_an_unknown_mode_is_refused():
    """With the known ones."""
    with pytest.raises(ValueError, match="auto, full, healthcheck, off"):
        prewarm_mode("warm")


@pytest.mark.parametrize(
    ("mode", "verified", "healthcheck", "trial"),
    [
        ("auto", False, False, Trial.FULL),
        ("auto", False, True, Trial.FULL),
        ("auto", True, False, Trial.NONE),
        ("auto", True, True, Trial.HEALTHCHECK),
        ("full", True, False, Trial.FULL),
        ("healthcheck", False, True, Trial.HEALTHCHECK),
        ("healthcheck", False, False, Trial.NONE),
        ("off", False, True, Trial.NONE),
    ],
)
def test_what_is_tried(mode, verified, healthcheck, trial):
    """A verified task is trusted to build."""
    assert prewarm_trial(PrewarmMode(mode), verified=verified, healthcheck=healthcheck) is trial


def test_task_ids_of_the_environment():
    """A list of either form; anything else is refused."""
    assert task_ids(None) is task_ids(" ") is None
    assert task_ids("a, b,,") == task_ids('["a", "b"]') == ("a", "b")
    with pytest.raises(ValueError, match="JSON list"):
        task_ids("[1]")


@pytest.mark.parametrize(
    ("verified", "environment", "is_it"),
    [
        (True, None, True),
        (False, None, False),
        ({"t"}, None, True),
        ({"u"}, None, False),
        (False, "1", True),
        (False, "u,t", True),
    ],
)
def test_who_vouches_for_a_task(verified, environment, is_it):
    """The constructor or the environment."""
    assert is_verified("t", verified, environment) is is_it


def failures(*messages):
    """Failed tasks."""
    return [Failure(f"t{index}", message) for index, message in enumerate(messages)]


@pytest.mark.parametrize(
    ("tried", "messages", "said"),
    [
        (3, (), None),
        (1, ("x",), "the only task failed"),
        (2, ("x", "y"), "all 2 tasks failed"),
        (5, ("x", "y", "z"), "3 of 5 tasks failed"),
        (5, ("x", "y"), None),
        (9, ("401 Unauthorized", "quota exceeded"), "credentials, quota or a proxy"),
        (9, ("401 Unauthorized", "no such file"), None),
    ],
)
def test_single_failures_and_systemic_ones(tried, messages, said):
    """Only the latter stop the server."""
    reason = systemic_reason(tried, failures(*messages))
    assert (reason is None) if said is None else (said in str(reason))


@given(st.none() | st.text(max_size=5) | st.integers(0, 1000).map(str), st.integers(1, 16))
def test_the_width_is_at_most_half_of_the_sandboxes(text, default):
    """And never less than one."""
    width = prewarm_width(text, default)
    assert 1 <= width <= default
    if text is not None and text.strip().isdecimal() and int(text) >= 2:
        assert width <= int(text) // 2
