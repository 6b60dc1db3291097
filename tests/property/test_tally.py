"""Properties of the running count (E10, E29)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.index import index_row
from osmosis.pure.metrics import index_frame, summarize
from osmosis.pure.tally import Tally, passed
from tests.strategies.numbers import results, thresholds, trajectory_usages

finished = st.lists(st.tuples(results(), st.none() | trajectory_usages), max_size=20, unique_by=lambda pair: pair[0].item)


@given(finished, thresholds)
def test_tally_agrees_with_summarize(pairs, threshold):
    """The live display and `metrics.json` tell the same numbers of the same results."""
    tally = Tally(threshold)
    for result, trajectory in pairs:
        tally = tally.add(result, trajectory)
    summary = summarize(index_frame(index_row(*pair, resumed=False) for pair in pairs), threshold)
    assert tally == Tally(
        pass_threshold=threshold,
        done=summary.total_samples,
        succeeded=summary.completed_samples - summary.failed,
        failed=summary.failed,
        skipped=summary.skipped,
        scored=summary.completed_samples,
        graded=summary.graded,
        passed=summary.passed,
        tokens=summary.tokens_used,
    )
    assert tally.pass_rate == summary.pass_rate


@given(finished, thresholds, st.randoms(use_true_random=False))
def test_remove_undoes_add(pairs, threshold, random):
    """Removing some results, in any order, leaves the tally of the others; so a retry may supersede any of them."""
    kept = [pair for pair in pairs if random.random() < 0.5]
    removed = [pair for pair in pairs if pair not in kept]
    tally = expected = Tally(threshold)
    for pair in pairs:
        tally = tally.add(*pair)
    random.shuffle(removed)
    for pair in removed:
        tally = tally.remove(*pair)
    for pair in kept:
        expected = expected.add(*pair)
    assert tally == expected


@given(finished, thresholds)
def test_counts_add_up(pairs, threshold):
    """done = succeeded + failed + skipped, scored = done - skipped, passed <= graded <= succeeded, at every step."""
    tally = Tally(threshold)
    for pair in pairs:
        tally = tally.add(*pair)
        assert tally.done == tally.succeeded + tally.failed + tally.skipped
        assert tally.scored == tally.done - tally.skipped
        assert tally.passed <= tally.graded <= tally.succeeded


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf"), float("-inf")])
def test_no_finite_reward_never_passes(reward):
    """A missing, NaN or infinite reward is not a pass, whatever the threshold."""
    assert not passed(reward, -1e308)


def test_threshold_is_inclusive():
    """A reward equal to the threshold passes."""
    assert passed(0.5, 0.5)
    assert not passed(0.5, 0.5000000000000001)
