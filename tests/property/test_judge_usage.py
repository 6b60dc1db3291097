"""Promises of the accounting of judgements (issue 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.judge_usage import JudgeUsage
from tests.strategies.numbers import call_usages

costs = st.none() | st.floats(0, 5).map(lambda dollars: round(dollars, 6))


@given(st.lists(st.tuples(st.none() | call_usages, costs)), st.integers(0, 5))
def test_sums_are_exact_and_a_partial_cost_is_none(calls, refusals):
    """Every call is counted once; tokens add up; the cost is the sum, or nothing if one call's cost is not known."""
    usage = JudgeUsage()
    for _ in range(refusals):
        usage = usage.after_refusal()
    for reported, cost in calls:
        usage = usage.after_completion(reported, cost)
    reports = [reported for reported, _ in calls if reported is not None]
    assert (usage.calls, usage.refused, usage.unreported) == (len(calls), refusals, len(calls) - len(reports))
    assert usage.prompt_tokens == sum(reported.prompt_tokens for reported in reports)
    assert usage.completion_tokens == sum(reported.completion_tokens for reported in reports)
    assert usage.total_tokens == sum(reported.total_tokens for reported in reports)
    known = [cost for _, cost in calls if cost is not None]
    if calls and len(known) == len(calls):
        assert usage.cost_usd == pytest.approx(sum(known), abs=1e-6)
    else:
        assert usage.cost_usd is None
