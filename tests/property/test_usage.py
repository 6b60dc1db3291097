"""Properties of token accounting (E18)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.usage import (
    MAX_COUNT,
    CallUsage,
    RolloutUsage,
    TrajectoryUsage,
    read_usage,
    rollout_usage,
    trajectory_usage,
)
from tests.strategies.numbers import call_usages, counts, trajectory_usages

NOT_COUNTS = [-1, True, False, 1.5, "12", [], {}, float("nan"), MAX_COUNT + 1]


@given(counts, counts, counts, st.booleans())
def test_both_spellings_read_alike(prompt, completion, total, new_names):
    """OpenAI's names and the `input_tokens`/`output_tokens` pair mean the same, and the provider's own total is kept."""
    names = ("input_tokens", "output_tokens") if new_names else ("prompt_tokens", "completion_tokens")
    usage = read_usage({names[0]: prompt, names[1]: completion, "total_tokens": total, "prompt_tokens_details": {"x": 1}})
    expected = CallUsage(prompt, completion, total) if prompt or completion or total else None
    assert usage == expected


@given(counts, counts.filter(bool))
def test_missing_total_is_the_sum(prompt, completion):
    """A provider that states no total gets the sum of the parts; null counts as missing."""
    stated = {"prompt_tokens": prompt, "completion_tokens": completion}
    expected = CallUsage(prompt, completion, prompt + completion) if prompt or completion else None
    assert read_usage(stated) == read_usage(stated | {"total_tokens": None}) == expected


@given(counts.filter(bool), counts)
def test_missing_part_is_what_the_total_leaves(part, rest):
    """With one part and a total, or a total alone, both sums of E18 come out as the provider said."""
    total = part + rest
    for stated in ({"prompt_tokens": part}, {"completion_tokens": part}, {}):
        usage = read_usage(stated | {"total_tokens": total})
        assert usage is not None
        assert usage.total_tokens == usage.context_tokens == total


@pytest.mark.parametrize("absent", [None, {}, [], "usage", 7, {"prompt_tokens": None}, {"cost": 1.5}])
def test_absent_usage_is_none(absent):
    """No usage is None, never a zero."""
    assert read_usage(absent) is None


def test_all_zero_usage_is_absent():
    """A gateway that fills in zeros reports nothing: no call has an empty prompt."""
    assert read_usage({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}) is None


@pytest.mark.parametrize("bad", NOT_COUNTS)
@pytest.mark.parametrize("key", ["prompt_tokens", "completion_tokens", "total_tokens"])
def test_what_is_not_a_count_is_not_used(key, bad):
    """One value that is no count makes the whole usage unusable: nothing is guessed from the rest."""
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7} | {key: bad}) is None


def test_whole_numbers_count_however_they_are_written():
    """JSON has no integers: a gateway that writes 3.0 tokens means 3."""
    assert read_usage({"prompt_tokens": 3.0, "completion_tokens": 4, "total_tokens": 7.0}) == CallUsage(3, 4, 7)


@given(st.lists(call_usages, min_size=1), st.none() | trajectory_usages)
def test_the_bridge_wins(calls, trajectory):
    """Once the bridge counted a call, the trajectory is not asked: a sum of totals and the largest single call."""
    usage = rollout_usage(tuple(calls), trajectory)
    assert usage.tokens == sum(call.total_tokens for call in calls)
    assert usage.max_context_tokens == max(call.prompt_tokens + call.completion_tokens for call in calls)


@given(trajectory_usages, st.sampled_from([None, ()]))
def test_the_trajectory_speaks_when_the_bridge_saw_nothing(trajectory, calls):
    """Without bridge usage each number of the trajectory is taken as it is, absent ones included."""
    assert rollout_usage(calls, trajectory) == RolloutUsage(trajectory.tokens, trajectory.max_context_tokens)
    assert rollout_usage(calls, None) == RolloutUsage(None, None)


@given(st.none() | counts, st.none() | counts, st.lists(st.tuples(st.none() | counts, st.none() | counts)))
def test_trajectory_usage(prompt, completion, steps):
    """Totals give the tokens, steps give the context; what is missing counts as nothing, all missing as absent."""
    usage = trajectory_usage(prompt, completion, steps)
    assert usage.tokens == (None if prompt is completion is None else (prompt or 0) + (completion or 0))
    contexts = [(a or 0) + (b or 0) for a, b in steps if not a is b is None]
    assert usage.max_context_tokens == (max(contexts) if contexts else None)


@pytest.mark.parametrize("bad", NOT_COUNTS)
def test_trajectory_usage_ignores_what_is_not_a_count(bad):
    """A trajectory is the rollout's own text: values that are no counts are passed over."""
    assert trajectory_usage(bad, 5, [(bad, bad), (bad, 2)]) == TrajectoryUsage(5, 2)
    assert trajectory_usage(bad, None, [(bad, None)]) == TrajectoryUsage(None, None)
