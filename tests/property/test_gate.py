"""A gate passes only when the drop is surely allowed, fails only when it surely is not, and otherwise says so (issue 8)."""

from __future__ import annotations

from math import log

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.comparison import pair
from osmosis.pure.distributions import binomial_upper_bound, normal_quantile
from osmosis.pure.gate import DropBounds, Measure, Verdict, drop_bounds, judge, verdict_of
from tests.strategies.comparisons import scored_rows, stored_run, tables


def frame(baseline, candidate, runs=1):
    """Paired rows with these pass shares."""
    size = len(baseline)
    return pl.DataFrame(
        {"pass_rate": candidate, "pass_rate_baseline": baseline, "runs": [runs] * size, "runs_baseline": [runs] * size},
        schema={"pass_rate": pl.Float64, "pass_rate_baseline": pl.Float64, "runs": pl.Int64, "runs_baseline": pl.Int64},
    )


def verdict(baseline, candidate, *, max_drop=0.02, measure=Measure.PASS_RATE, confidence=0.95, **options):
    """The report on two tables of samples."""
    one, other = stored_run("baseline", baseline), stored_run("candidate", candidate, **options)
    readings = [("as measured", pair(one, other))]
    return judge(one, other, readings, measure=measure, max_drop=max_drop, confidence=confidence)


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ([[1.0]] * 400, [[1.0]] * 400, Verdict.PASSED),
        ([[1.0]] * 5, [[1.0]] * 5, Verdict.INCONCLUSIVE),
        ([[0.0]] * 5, [[0.0]] * 5, Verdict.INCONCLUSIVE),
        ([[1.0]] * 40, [[0.0]] * 40, Verdict.FAILED),
        ([[1.0] * 4] * 40, [[0.0] * 4] * 40, Verdict.FAILED),
        ([[1.0] * 4] * 400, [[1.0] * 4] * 400, Verdict.PASSED),
        ([[1.0] * 4] * 10, [[1.0] * 4] * 10, Verdict.INCONCLUSIVE),
        ([[1.0]], [[1.0]], Verdict.INCONCLUSIVE),
        ([[1.0]], [[0.0]], Verdict.INCONCLUSIVE),
        ([[1.0]] * 20 + [[0.0]] * 20, [[0.0]] * 2 + [[1.0]] * 20 + [[0.0]] * 18, Verdict.INCONCLUSIVE),
        ([[1.0]] * 200 + [[0.0]] * 200, [[0.0]] * 60 + [[1.0]] * 140 + [[0.0]] * 200, Verdict.FAILED),
    ],
)
def test_verdicts(baseline, candidate, expected):
    """Many equal rows pass, few never do; a clear drop fails; what the data cannot tell is inconclusive, not green."""
    report = verdict(baseline, candidate)
    assert report.verdict is expected
    assert report.reason


def test_equal_outcomes_of_few_rows_say_how_many_are_needed():
    """Ten rows that all pass twice are no proof of anything within 2 points: the bound shows it."""
    report = verdict([[1.0]] * 10, [[1.0]] * 10)
    assert report.readings[0].bounds.high == pytest.approx(normal_quantile(0.95) ** 2 / (10 + normal_quantile(0.95) ** 2))
    noisy = verdict([[1.0], [0.0]] * 20, [[0.0], [1.0]] + [[1.0], [0.0]] * 19)
    assert noisy.verdict is Verdict.INCONCLUSIVE
    assert noisy.rows_needed is not None
    assert noisy.rows_needed > 40


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("max_drop", [0.02, 0.1])
def test_without_a_changed_row_the_number_that_decides_is_named(runs, max_drop):
    """So many unchanged rows pass, and one row fewer does not."""
    needed = verdict([[1.0] * runs] * 10, [[1.0] * runs] * 10, max_drop=max_drop).rows_needed
    assert needed is not None
    for rows, expected in ((needed, Verdict.PASSED), (needed - 1, Verdict.INCONCLUSIVE)):
        table = [[1.0] * runs] * rows
        assert verdict(table, table, max_drop=max_drop).verdict is expected
    z = normal_quantile(0.95)
    closed = z * z * (1 / max_drop - 1) if runs == 1 else log(0.05) / log(1 - max_drop)
    assert needed == pytest.approx(closed, abs=1.01)


@pytest.mark.parametrize(
    ("ours", "theirs", "options", "words"),
    [
        ([[1.0]] * 10, [[1.0]] * 10, {"max_drop": 0.0}, "no number of rows like these would decide"),
        ([[1.0]] * 10, [[None]] * 10, {"measure": Measure.REWARD}, "no paired row has a value on both sides"),
        ([[0.25]] * 10, [[0.25]] * 10, {"measure": Measure.REWARD}, "differ"),
        ([[1.0, 1.0]] * 200, [[1.0]] * 200, {"planned_runs": 2, "max_drop": 0.5}, "the rows would be enough"),
    ],
)
def test_where_no_number_can_be_named_it_is_said_why(ours, theirs, options, words):
    """Nothing is allowed to drop; nothing was measured; equal rewards have no spread; something else than rows is missing."""
    report = verdict(ours, theirs, **options)
    assert (report.verdict, report.rows_needed) == (Verdict.INCONCLUSIVE, None)
    assert words in (report.rows_needed_reason or "")


@given(tables, tables)
def test_an_inconclusive_gate_names_a_number_or_a_reason(ours, theirs):
    """One of the two, never both; any other gate neither."""
    assume(scored_rows(ours) & scored_rows(theirs))
    report = verdict(ours, theirs)
    named = (report.rows_needed is not None) + (report.rows_needed_reason is not None)
    assert named == (report.verdict is Verdict.INCONCLUSIVE)
    assert report.rows_needed is None or report.rows_needed > report.readings[0].bounds.rows


def test_an_identical_replay_is_exact():
    """A replay that gives every sample of the baseline again passes, however few; with one other reward it does not."""
    table = [[1.0, 0.0], [0.0, 0.0], ["timeout", 1.0]]
    report = verdict(table, table, cassette="xxh3-128:v1:" + "0" * 32)
    assert (report.verdict, report.readings[0].bounds.method) == (Verdict.PASSED, "replay")
    changed = verdict(table, [[1.0, 0.5], [0.0, 0.0], ["timeout", 1.0]], cassette="xxh3-128:v1:" + "0" * 32)
    assert changed.verdict is Verdict.INCONCLUSIVE
    assert verdict(table, table).verdict is Verdict.INCONCLUSIVE


def test_unfinished_runs_are_inconclusive():
    """What is still pending may change everything."""
    report = verdict([[1.0]] * 400, [[1.0]] * 400, planned_runs=2)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.reason == "not finished: candidate"


def test_rows_that_were_not_scored_cannot_hide_a_drop():
    """A candidate that skips the rows it would fail does not pass: the verdict must hold if they had failed."""
    report = verdict([[1.0]] * 400, [["skipped"]] * 40 + [[1.0]] * 360)
    assert [reading.verdict for reading in report.readings] == [Verdict.PASSED, Verdict.FAILED]
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "rows without a partner" in report.reason


def test_infrastructure_errors_do_not_decide():
    """A provider's outage looks like a drop; without it there is none; so the gate cannot tell."""
    one = stored_run("baseline", [[1.0]] * 400)
    other = stored_run("candidate", [["http_error"]] * 60 + [[1.0]] * 340)
    readings = [
        ("as measured", pair(one, other)),
        ("without the 60 infrastructure errors", pair(one, other, without_infrastructure_errors=True)),
    ]
    report = judge(one, other, readings, measure=Measure.PASS_RATE, max_drop=0.02, confidence=0.95)
    assert [reading.verdict for reading in report.readings][:2] == [Verdict.FAILED, Verdict.PASSED]
    assert report.verdict is Verdict.INCONCLUSIVE


def test_rewards_can_be_gated():
    """Means of rewards by the one-sided t bounds; without any spread there is no bound, and no verdict."""
    rng = np.random.default_rng(1)
    base = rng.uniform(0, 10, 300)
    table, better, worse = ([[float(value)] for value in base + shift] for shift in (0.0, 1.0, -1.0))
    noise = rng.normal(0, 0.1, 300)
    shaken = [[float(row[0] + shake)] for row, shake in zip(better, noise, strict=True)]
    sunk = [[float(row[0] + shake)] for row, shake in zip(worse, noise, strict=True)]
    assert verdict(table, shaken, measure=Measure.REWARD).verdict is Verdict.PASSED
    assert verdict(table, sunk, measure=Measure.REWARD).verdict is Verdict.FAILED
    assert verdict(table, table, measure=Measure.REWARD).verdict is Verdict.INCONCLUSIVE


def test_score_bounds_are_where_the_score_test_turns():
    """12 against 2 discordant pairs of 44: at both bounds the score statistic, worked out by maximum likelihood, is z."""
    rows = frame([1.0] * 12 + [0.0] * 2 + [1.0] * 30, [0.0] * 12 + [1.0] * 2 + [1.0] * 30)
    bounds = drop_bounds(rows, Measure.PASS_RATE, 0.975)
    assert bounds.drop == pytest.approx(10 / 44)
    assert bounds.low is not None
    assert bounds.high is not None
    z = normal_quantile(0.975)
    for delta in (bounds.low, bounds.high):
        assert abs(score(12, 2, 44, delta)) == pytest.approx(z, rel=1e-6)


def score(worse, better, rows, delta):
    """Tango's statistic with the discordant share maximised over a fine grid instead of by the closed form."""
    shares = np.linspace(max(0.0, -delta), (1 - delta) / 2, 2_000_001)[1:-1]
    rest = rows - worse - better
    likelihood = worse * np.log(shares + delta) + better * np.log(shares) + rest * np.log1p(-2 * shares - delta)
    share = shares[int(np.argmax(likelihood))]
    return (worse - better - rows * delta) / np.sqrt(rows * (2 * share + delta * (1 - delta)))


@given(st.integers(1, 300), st.floats(0.8, 0.99))
def test_no_difference_has_a_width(rows, confidence):
    """Rows that all agree, once or several times each, bound the drop by their number, never by nothing."""
    z = normal_quantile(confidence)
    once = drop_bounds(frame([1.0] * rows, [1.0] * rows), Measure.PASS_RATE, confidence)
    several = drop_bounds(frame([0.5] * rows, [0.5] * rows, runs=4), Measure.PASS_RATE, confidence)
    assert once.high == pytest.approx(z * z / (rows + z * z), rel=1e-6)
    assert several.high == pytest.approx(binomial_upper_bound(0, rows, confidence), rel=1e-9)


@given(tables, st.data(), st.floats(0, 1), st.floats(0.6, 0.99))
def test_bounds_hold_the_drop(table, data, max_drop, confidence):
    """low <= drop <= high wherever they are defined, and the verdict is what the bounds say."""
    candidate = data.draw(st.lists(st.sampled_from(table), min_size=len(table), max_size=len(table)))
    one, other = stored_run("baseline", table), stored_run("candidate", candidate)
    assume(scored_rows(table) & scored_rows(candidate))
    rows = pair(one, other).rows
    for measure in Measure:
        bounds = drop_bounds(rows, measure, confidence)
        if bounds.drop is not None and bounds.low is not None and bounds.high is not None:
            assert bounds.low - 1e-9 <= bounds.drop <= bounds.high + 1e-9
        said = verdict_of(bounds, max_drop)
        assert (said is Verdict.PASSED) == (bounds.high is not None and bounds.high <= max_drop)


def test_undefined_bounds_are_inconclusive():
    """Nothing known, nothing said."""
    assert verdict_of(DropBounds(None, None, None, None, 0, "why"), 0.5) is Verdict.INCONCLUSIVE


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "runs"), [(100, 1), (300, 1), (100, 4)])
def test_wrong_verdicts_are_rare(rows, runs):
    """At a true drop of exactly what is allowed, each wrong verdict has at most 5 % (and the noise of 2,000 simulated runs)."""
    rng = np.random.default_rng(8)
    passed = failed = 0
    for _ in range(2000):
        chances = rng.beta(4, 2, rows) * 0.9 + 0.1
        baseline = rng.binomial(runs, chances) / runs
        candidate = rng.binomial(runs, chances - 0.1) / runs
        said = verdict_of(drop_bounds(frame(baseline, candidate, runs), Measure.PASS_RATE, 0.95), 0.1)
        passed += said is Verdict.PASSED
        failed += said is Verdict.FAILED
    assert passed / 2000 <= 0.065
    assert failed / 2000 <= 0.065
