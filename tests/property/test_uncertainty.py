"""The `counts`, `errors` and `uncertainty` of a run add up, never guess, and have reproducible bytes (issue 8)."""

from __future__ import annotations

import json
from math import isfinite

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.canonical import pretty_json
from osmosis.pure.error_origin import ORIGINS, error_origin, error_summary
from osmosis.pure.errors import OsmosisError
from osmosis.pure.estimate import ErrorOrigin, Method
from osmosis.pure.index_frame import index_frame
from osmosis.pure.journal import Status
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, Summary, decode_metrics, encode_metrics, summary_object
from osmosis.pure.statistics import mean_estimate
from osmosis.pure.stored_run import samples_frame
from osmosis.pure.uncertainty import bootstrap_seed
from tests.strategies.comparisons import manifest, stored_run, tables
from tests.strategies.numbers import index_rows, thresholds

SEED = "xxh3-128:v1:" + "0" * 32


def summary_of(cells, threshold=1.0, **options) -> Summary:
    """The full summary of a run with these samples."""
    return summarize(samples_frame(stored_run("run", cells)), threshold, seed=SEED, **options)


def numbers_in(value):
    """Every number and its path in decoded JSON."""
    if isinstance(value, dict):
        yield from (pair for item in value.values() for pair in numbers_in(item))
    elif isinstance(value, list):
        yield from (pair for item in value for pair in numbers_in(item))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@given(tables, st.integers(0, 5))
def test_counts_always_add_up(cells, pending):
    """planned = success + failed + skipped + pending; graded + ungraded = success; errors by origin and by type = failed."""
    size = sum(map(len, cells))
    summary = summary_of(cells, planned=size + pending)
    counts, errors = summary.counts, summary.errors
    assert counts is not None
    assert errors is not None
    assert counts.planned == size + pending == counts.success + counts.failed + counts.skipped + counts.pending
    assert counts.graded + counts.ungraded == counts.success
    assert errors.model + errors.infrastructure + errors.unclassified == counts.failed
    assert sum(found.count for found in errors.types) + errors.others == counts.failed


@given(index_rows, thresholds, st.randoms(use_true_random=False))
def test_row_order_frame_kind_and_chunks_do_not_matter(rows, threshold, random):
    """Shuffled, cut into pieces or lazy: the same bytes, intervals included."""
    expected = pretty_json(summary_object(summarize(index_frame(rows), threshold, seed=SEED)))
    shuffled = random.sample(rows, len(rows))
    cut = random.randint(0, len(rows))
    pieces = pl.concat([index_frame(shuffled[:cut]), index_frame(shuffled[cut:])], rechunk=False)
    for frame in (pieces, pieces.lazy()):
        assert pretty_json(summary_object(summarize(frame, threshold, seed=SEED))) == expected


@given(index_rows, thresholds)
def test_the_contract_does_not_notice(rows, threshold):
    """With intervals or without, the contract's keys come first, in the same order, with the same values."""
    plain = summary_object(summarize(index_frame(rows), threshold))
    full = summary_object(summarize(index_frame(rows), threshold, seed=SEED))
    assert list(full)[: len(plain)] == list(plain)
    assert {key: full[key] for key in plain} == plain
    assert list(full)[len(plain) :] == ["counts", "errors", "uncertainty"]


@given(index_rows, thresholds)
def test_numbers_are_finite_and_nulls_have_reasons(rows, threshold):
    """No NaN, no infinity; wherever an interval is null, a reason stands beside it. The file reads back."""
    summary = summarize(index_frame(rows), threshold, seed=SEED)
    value = json.loads(json.dumps(summary_object(summary)["uncertainty"]))
    assert all(isfinite(number) for number in numbers_in(value))

    def check(node):
        if isinstance(node, dict):
            if "low" in node and node["low"] is None:
                assert node["reason"]
            for item in node.values():
                check(item)
        elif isinstance(node, list):
            for item in node:
                check(item)

    check(value)
    run = EvalRunInfo("0" * 32, EvalRunStatus.FINISHED, "n", "d", "m", "r", 0.0, "2026-11-30T12:35:44.521865Z")
    data = encode_metrics(run, summary)
    assert decode_metrics(data, "metrics.json").summary == summary


@given(tables)
def test_readings_of_errors_are_ordered(cells):
    """Counting fewer errors as failures never lowers the pass rate."""
    uncertainty = summary_of(cells).uncertainty
    assert uncertainty is not None
    bounds = uncertainty.pass_rate_bounds
    readings = (bounds.errors_as_failures, bounds.infrastructure_errors_left_out, bounds.errors_left_out)
    found = [reading.value for reading in readings if reading.value is not None]
    assert found == sorted(found)
    assert bounds.errors_as_failures == uncertainty.pass_rate


def test_the_mean_reward_is_of_row_means():
    """Three runs of a row count once: the interval is that of the row means, not of the samples."""
    cells = [[1.0, 1.0, 0.0], [0.5], [0.25, 0.75], [None, 1.0]]
    uncertainty = summary_of(cells).uncertainty
    assert uncertainty is not None
    expected = mean_estimate(pl.Series([2 / 3, 0.5, 0.5, 1.0]))
    assert uncertainty.mean_reward.units == 4
    assert uncertainty.mean_reward.value == pytest.approx(expected.value)
    assert uncertainty.mean_reward.standard_error == pytest.approx(expected.standard_error)
    assert uncertainty.mean_reward.method is Method.T


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 2.0, 1e6, 1e120])
def test_the_scale_of_rewards_does_not_matter(scale):
    """Very small and very large rewards give the same intervals, in their own scale, as long as it is not known to end at 1."""
    cells = [[0.0, 3.0], [0.75, 1.5], [3.0, 3.0], [2.25, 0.0]]
    plain = summary_of(cells).uncertainty
    scaled = summary_of([[cell * scale for cell in row] for row in cells]).uncertainty
    assert plain is not None
    assert scaled is not None
    for name in ("value", "standard_error", "low", "high"):
        assert getattr(scaled.mean_reward, name) == pytest.approx(getattr(plain.mean_reward, name) * scale, rel=1e-9)
    if scale > 1e-150:
        assert scaled.reward_variance.within_row == pytest.approx(plain.reward_variance.within_row * scale**2, rel=1e-5)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.9, 1.0]), min_size=1, max_size=3), min_size=2, max_size=8))
def test_the_interval_of_a_mean_lies_where_a_mean_can_lie(cells):
    """Rewards between 0 and 1 have their mean there: no bound leaves [0, 1], and no detectable effect is larger than any."""
    uncertainty = summary_of(cells).uncertainty
    assert uncertainty is not None
    estimate = uncertainty.mean_reward
    if estimate.low is not None and estimate.high is not None:
        assert estimate.value is not None
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
    for effect in (uncertainty.detectable_reward, uncertainty.detectable_pass_rate):
        assert all(size is None or size <= 1.0 for size in (effect.unpaired, effect.paired_at_best))


def test_rewards_beyond_one_are_not_cut():
    """Nobody says that a scale ends at 1, so one reward beyond it leaves the interval as it is."""
    uncertainty = summary_of([[0.0], [1.0], [1.0], [1.01]]).uncertainty
    assert uncertainty is not None
    assert uncertainty.mean_reward.high is not None
    assert uncertainty.mean_reward.high > 1.0


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=30))
def test_the_mean_of_zeros_and_ones_is_a_share(rewards):
    """Each row graded once, 0 or 1: the same interval as the pass rate's, by Wilson, also where all agree."""
    uncertainty = summary_of([[reward] for reward in rewards]).uncertainty
    assert uncertainty is not None
    assert uncertainty.mean_reward == uncertainty.pass_rate
    assert uncertainty.mean_reward.method is Method.WILSON


def test_zeros_and_ones_of_several_runs():
    """Rows count, not samples: t on the row means, cut to [0, 1]; by Wilson over rows where every sample agrees."""
    mixed = summary_of([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]).uncertainty
    agreed = summary_of([[1.0, 1.0], [1.0], [1.0, 1.0]]).uncertainty
    assert mixed is not None
    assert agreed is not None
    assert (mixed.mean_reward.method, mixed.mean_reward.high) == (Method.T, 1.0)
    assert mixed.mean_reward.value == pytest.approx(2.5 / 3)
    assert (agreed.mean_reward.method, agreed.mean_reward.value, agreed.mean_reward.high) == (Method.WILSON_ROWS, 1.0, 1.0)
    assert agreed.mean_reward.low == pytest.approx(0.43850, abs=1e-5), "Wilson, 3 of 3"


def test_runs_that_all_agree_have_no_spread_within():
    """Exactly 0, not a rounding error: only more rows can help then."""
    uncertainty = summary_of([[0.1, 0.1, 0.1], [0.7, 0.7, 0.7], [0.3, 0.3, 0.3]]).uncertainty
    assert uncertainty is not None
    split = uncertainty.reward_variance
    assert split.within_row == 0.0
    assert split.twice_the_runs == split.unlimited_runs


def test_clusters_are_honoured():
    """A named column clusters both means; a row without a cluster, or a missing column, is an error."""
    cells = [[1.0], [1.0], [0.0], [0.0], [1.0], [0.0]]
    frame = samples_frame(stored_run("run", cells)).with_columns(document=pl.Series(list("aabbcc")))
    uncertainty = summarize(frame, 1.0, seed=SEED, cluster="document").uncertainty
    assert uncertainty is not None
    assert uncertainty.pass_rate.standard_error == pytest.approx(0.2887, abs=5e-5)
    assert uncertainty.mean_reward.standard_error == uncertainty.pass_rate.standard_error
    assert uncertainty.pass_rate.units == 3
    with pytest.raises(OsmosisError, match="missing"):
        summarize(frame, 1.0, seed=SEED, cluster="nothing")
    with pytest.raises(OsmosisError, match="null in 6 rows"):
        summarize(frame.with_columns(document=pl.lit(None, dtype=pl.String)), 1.0, seed=SEED, cluster="document")


def test_the_seed_follows_the_inputs_alone():
    """Two runs of the same inputs have the same seed, whatever their names; another model has another."""
    first, second = manifest("a", 3, 2), manifest("b", 3, 2)
    assert bootstrap_seed(first) != bootstrap_seed(second)  # the model is named after the run here
    renamed = type(first)(1, "f" * 32, "other", "2027-01-01T00:00:00.000000Z", first.inputs, {})
    assert bootstrap_seed(renamed) == bootstrap_seed(first)


@given(
    st.lists(st.tuples(st.none() | st.text(max_size=300) | st.sampled_from(sorted(ORIGINS)), st.integers(1, 9)), max_size=40)
)
def test_hostile_error_types(types):
    """Whatever servers call their errors, the counts add up and the list stays short."""
    summary = error_summary(types)
    total = sum(count for _, count in types)
    assert summary.model + summary.infrastructure + summary.unclassified == total
    assert sum(found.count for found in summary.types) + summary.others == total
    assert len(summary.types) <= 20
    assert all(len(found.error_type) <= 120 for found in summary.types)


def test_origins():
    """A crash of the server is not the model's failure; a bad reward is; free text is nobody's."""
    assert error_origin("server_crash") is ErrorOrigin.INFRASTRUCTURE
    assert error_origin("validation_error") is ErrorOrigin.MODEL
    assert error_origin("the dog ate it") is error_origin(None) is ErrorOrigin.UNCLASSIFIED


def test_every_status_is_counted():
    """The order in which `sample_counts` unpacks the statuses is that of `Status`."""
    assert [status.value for status in Status] == ["success", "failed", "skipped"]
