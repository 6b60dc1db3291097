"""Paired comparison of two runs: pairing, differences, exact tests, refusals (issue 8)."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from osmosis.pure.comparison import Direction, adjust, compare_runs, pair
from osmosis.pure.comparison_page import comparison_page
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.journal import Status
from osmosis.pure.price import Price, read_prices
from osmosis.pure.stored_run import PAIRED_BY_CONTENT, row_attribute
from tests.strategies.comparisons import cells, hostile_text, scored_rows, stored_run

REFERENCE_CANDIDATE = [[1.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]]
REFERENCE_BASELINE = [[1.0], [0.0], [0.0], [1.0], [0.0], [0.0], [1.0], [0.0]]
two_tables = st.integers(1, 10).flatmap(
    lambda rows: st.tuples(*(st.lists(st.lists(cells, min_size=1, max_size=3), min_size=rows, max_size=rows) for _ in range(2)))
)


def compared(baseline, candidate, **options):
    """The comparison of two tables of samples."""
    one, other = stored_run("baseline", baseline), stored_run("candidate", candidate)
    return compare_runs(one, other, pair(one, other, **options))


def test_reference_pairs():
    """The reference values of the issue, through the whole comparison."""
    comparison = compared(REFERENCE_BASELINE, REFERENCE_CANDIDATE)
    for difference in (comparison.pass_rate, comparison.reward):
        assert difference.difference.value == 0.25
        assert difference.difference.standard_error == pytest.approx(0.1637, abs=5e-5)
        assert (difference.baseline, difference.candidate) == (0.375, 0.625)
    assert (comparison.exact.name, comparison.exact.better, comparison.exact.worse) == ("exact McNemar test", 2, 0)
    assert comparison.exact.p_value == 0.5
    expected = stats.ttest_rel([row[0] for row in REFERENCE_CANDIDATE], [row[0] for row in REFERENCE_BASELINE])
    assert comparison.pass_rate.p_value is not None
    assert isclose(comparison.pass_rate.p_value, float(expected.pvalue), rel_tol=1e-9)


def test_rewards_between_0_and_1_differ_by_1_at_most():
    """Nor does their interval say otherwise; one reward beyond, on either side, and the scale evidently does not end there."""
    low, high = [[0.0], [0.0], [0.0]], [[1.0], [1.0], [0.0]]
    there, back = compared(low, high).reward.difference, compared(high, low).reward.difference
    assert there.high == 1.0
    assert back.low == -1.0
    for beyond in (compared([*low, [1.5]], [*high, [1.5]]), compared([*low, [-0.5]], [*high, [0.0]])):
        assert beyond.reward.difference.high is not None
        assert beyond.reward.difference.high > 1.0
        assert beyond.pass_rate.difference.high is not None
        assert beyond.pass_rate.difference.high <= 1.0


@given(two_tables)
def test_swapping_runs_swaps_signs(tables):
    """B against A is A against B with the other sign, the same P, and each flip the other way."""
    assume(scored_rows(tables[0]) & scored_rows(tables[1]))
    there, back = compared(*tables), compared(*reversed(tables))
    assert there.pass_rate.difference.value == pytest.approx(-(back.pass_rate.difference.value or 0.0))
    assert there.exact.p_value == back.exact.p_value
    assert (there.exact.better, there.exact.worse) == (back.exact.worse, back.exact.better)
    assert there.paired_rows == back.paired_rows
    assert (there.baseline_only, there.candidate_only) == (back.candidate_only, back.baseline_only)


@given(two_tables)
def test_rows_are_all_accounted_for(tables):
    """Every row with a scored sample is paired or counted as unpaired; flips are the rows that changed."""
    both = scored_rows(tables[0]) & scored_rows(tables[1])
    if not both:
        with pytest.raises(OsmosisError, match="pairs with"):
            compared(*tables)
        return
    comparison = compared(*tables)
    assert (
        comparison.paired_rows
        == len(both)
        == sum((comparison.exact.better, comparison.exact.worse, comparison.exact.unchanged))
    )
    assert comparison.baseline_only == len(scored_rows(tables[0]) - both)
    assert comparison.candidate_only == len(scored_rows(tables[1]) - both)
    better = sum(flip.direction is Direction.BETTER for flip in comparison.flips)
    assert (better, len(comparison.flips) - better) == (comparison.exact.better, comparison.exact.worse)


def test_several_runs_a_row_are_a_sign_test():
    """McNemar needs one outcome a row; with more, the test is over rows, and the error is the paired one of row means."""
    comparison = compared([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert comparison.exact.name == "exact sign test over rows"
    assert comparison.pass_rate.difference.value == pytest.approx(1 / 6)
    assert [flip.direction for flip in comparison.flips] == [Direction.WORSE, Direction.BETTER, Direction.BETTER]


def test_cost_tokens_and_latency():
    """Tokens and latency as reported; cost only where a price is known, from prompt and completion tokens apart."""
    one, other = stored_run("a", [[1.0], [0.0]], tokens=10), stored_run("b", [[1.0], [0.0]], tokens=1004)
    prices = {"openai/a": Price(1.0, 10.0), "openai/b": Price(2.0, 20.0)}
    comparison = compare_runs(one, other, pair(one, other, prices=prices))
    assert comparison.tokens.difference.value == 994.0
    assert comparison.duration_ms.difference.value == 0.0
    assert comparison.cost.baseline == pytest.approx((6 * 1.0 + 4 * 10.0) / 1e6)
    assert comparison.cost.candidate == pytest.approx((1000 * 2.0 + 4 * 20.0) / 1e6)
    without = compare_runs(one, other, pair(one, other))
    assert without.cost.difference.value is None
    assert without.cost.difference.reason == "the cost is not known on both sides"


def test_other_datasets_are_refused_unless_forced():
    """Different digests are a conflict that names both; forced, rows with equal prompt and label pair, and are counted."""
    one = stored_run("a", [[1.0], [0.0], [1.0]], prompts=["x", "y", "z"], labels=["1", "2", "3"])
    other = stored_run(
        "b", [[0.0], [0.0], [1.0], [1.0]], prompts=["new", "y", "x", "z"], labels=["0", "2", "1", "9"], dataset="f" * 64
    )
    with pytest.raises(OsmosisError) as caught:
        pair(one, other)
    assert caught.value.code is ErrorCode.CONFLICT
    assert [problem.message for problem in caught.value.problems] == [f"dataset {'0' * 64}", f"dataset {'f' * 64}"]
    comparison = compare_runs(one, other, pair(one, other, force=True))
    assert (comparison.paired_by, comparison.paired_rows) == (PAIRED_BY_CONTENT, 2)
    assert (comparison.baseline_only, comparison.candidate_only) == (1, 2)
    assert not comparison.flips


def test_equal_rows_pair_one_to_one():
    """A prompt that stands three times here and twice there makes two pairs, not six."""
    one = stored_run("a", [[1.0]] * 3, prompts=["x"] * 3, labels=["1"] * 3)
    other = stored_run("b", [[1.0]] * 2, prompts=["x"] * 2, labels=["1"] * 2, dataset="f" * 64)
    assert len(pair(one, other, force=True).rows) == 2


def test_slices_and_holm():
    """Slices partition the rows; adjusted values hold over all slices of all candidates."""
    baseline = stored_run("a", [[1.0]] * 12)
    worse = stored_run("b", [[0.0]] * 6 + [[1.0]] * 6)
    same = stored_run("c", [[1.0]] * 12)
    slices = {row: "first" if row < 6 else "second" for row in range(12)}
    found = adjust([compare_runs(baseline, run, pair(baseline, run, slices=slices), slice_by="half") for run in (worse, same)])
    assert [(part.value, part.rows) for part in found[0].slices] == [("first", 6), ("second", 6)]
    assert found[0].slices[0].exact.p_value == 2 / 2**6
    assert found[0].slices[0].adjusted_p_value == 4 * 2 / 2**6
    assert found[1].slices[1].adjusted_p_value == 1.0
    assert found[0].adjusted_p_value == 2 * 2 / 2**6


def test_attributes_of_rows():
    """`label` and `prompt` come from the run; anything else from the dataset, or it is an error that says so."""
    run = stored_run("a", [[1.0], [1.0]], labels=["x", None])
    assert row_attribute(run, "label", None) == {0: "x", 1: None}
    with pytest.raises(OsmosisError, match="topic"):
        row_attribute(run, "topic", None)
    with pytest.raises(OsmosisError, match="1 of the 2 paired rows have no cluster"):
        pair(run, run, clusters=row_attribute(run, "label", None))


def test_unfinished_runs_and_other_thresholds_are_noted():
    """The comparison stands, and says what is odd about it."""
    one = stored_run("a", [[0.5], [1.0]], threshold=0.5)
    other = stored_run("b", [[0.5], [1.0]], threshold=1.0, planned_runs=2)
    comparison = compare_runs(one, other, pair(one, other))
    assert comparison.pass_rate.difference.value == 0.0
    assert comparison.notes == (
        "run b is not finished: 2 samples are pending",
        "both runs are judged by the baseline's threshold 0.5; the candidate's own is 1.0",
    )


PARENT, OTHER = "a" * 32, "b" * 32


@pytest.mark.parametrize("swapped", [False, True])
def test_a_regrade_is_not_compared_in_what_it_did_not_do(swapped):
    """Its times are its grader's and its tokens its parent's: a run beside its regrade leaves both out, and says so."""
    runs = [
        stored_run("parent", [[0.0], [1.0]], local_run_id=PARENT, tokens=10),
        stored_run("again", [[1.0], [1.0]], local_run_id=OTHER, regraded_from=PARENT, tokens=20),
    ]
    one, other = reversed(runs) if swapped else runs
    comparison = compare_runs(one, other, pair(one, other, prices={"openai/parent": Price(1, 1), "openai/again": Price(1, 1)}))
    assert comparison.notes == (
        "one run regrades stored samples, so its times are its grader's alone: latency left out",
        "both runs have the same samples: tokens and cost left out",
    )
    for left_out in (comparison.duration_ms, comparison.tokens, comparison.cost):
        assert (left_out.baseline, left_out.difference.value) == (None, None)
        assert left_out.difference.reason
    assert comparison.pass_rate.difference.value == (-0.5 if swapped else 0.5)
    assert comparison.reward.difference.value is not None


def test_regrades_of_different_runs_are_compared_in_all_that_is_alike():
    """Two regrades took the same kind of time; a regrade of another run has that run's tokens, which can be compared."""
    plain = stored_run("plain", [[0.0], [1.0]], local_run_id="c" * 32)
    again = stored_run("again", [[1.0], [1.0]], local_run_id=OTHER, regraded_from=PARENT)
    twice = stored_run("twice", [[1.0], [1.0]], local_run_id="d" * 32, regraded_from=PARENT)
    beside = compare_runs(plain, again, pair(plain, again))
    assert (beside.duration_ms.baseline, beside.tokens.baseline) == (None, 10.0)
    graders = compare_runs(again, twice, pair(again, twice))
    assert (graders.duration_ms.baseline, graders.tokens.baseline) == (100.5, None)


def test_failed_samples_count_as_failures_and_infrastructure_can_be_left_out():
    """A row whose only sample died with the server is a failed row, or no row at all."""
    one, other = stored_run("a", [[1.0], [1.0]]), stored_run("b", [[1.0], ["server_crash"]])
    assert other.index[1].status is Status.FAILED
    assert pair(one, other).rows["pass_rate"].to_list() == [1.0, 0.0]
    left = pair(one, other, without_infrastructure_errors=True)
    assert (left.rows["pass_rate"].to_list(), len(left.baseline_only)) == ([1.0], 1)


@given(st.lists(hostile_text, min_size=3, max_size=3), hostile_text)
def test_the_page_holds_hostile_text(prompts, name):
    """Nothing that a model or a file wrote becomes markup, and the bytes are valid UTF-8."""
    one = stored_run("a", [[1.0], [0.0], [1.0]], prompts=prompts)
    other = stored_run(name, [[0.0], [1.0], [1.0]], prompts=prompts)
    page = comparison_page([compare_runs(one, other, pair(one, other))]).decode()
    assert page.count("<script") == 0
    assert "\x1b" not in page
    assert page.count("<section") == page.count("</section>") == 1
    assert page.count("<td>") == page.count("</td>")


def test_prices_are_read_strictly():
    """Every text that is no price is named."""
    assert read_prices(["openai/a=b=0.5,2"]) == {"openai/a=b": Price(0.5, 2.0)}
    with pytest.raises(OsmosisError) as caught:
        read_prices(["x", "m=1", "m=1,-2", "m=nan,1", "=1,2"])
    assert len(caught.value.problems) == 5
