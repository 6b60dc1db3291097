"""A gate between two runs: did the candidate lose more than is allowed, did it not, or can the data not tell (issue 8, ruling
12)?

The gate passes when the one-sided upper confidence bound of the drop is within the allowance, and fails when the lower bound is
beyond it (a test for non-inferiority and its mirror image). In between it is inconclusive. Few or no differing rows never make
an interval of no width: then the bounds are those of the score method (Tango 1998) or exact ones (Clopper and Pearson 1934).

A verdict has to hold under every reading of what could not be measured: infrastructure errors as failures and left out, rows
that the candidate did not score left out and as failures. Where the readings disagree, the gate is inconclusive and says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import ceil, sqrt

import msgspec
import polars as pl

from osmosis.pure.comparison import Pairs
from osmosis.pure.distributions import binomial_lower_bound, binomial_upper_bound, normal_quantile, student_t_quantile
from osmosis.pure.error_origin import error_origin
from osmosis.pure.estimate import ErrorOrigin, settled
from osmosis.pure.journal import Status
from osmosis.pure.statistics import paired_difference
from osmosis.pure.stored_run import StoredRun, samples_frame

_FEW_DIFFERENCES = 10
_HALVINGS = 100
_MOST_ROWS = 10_000_000
"""Nobody has more rows; as many would be no advice."""


class Verdict(StrEnum):
    """What a gate says. Exit codes follow from it in one place (ruling 12)."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class Measure(StrEnum):
    """What must not drop."""

    PASS_RATE = "pass_rate"
    REWARD = "reward"


class DropBounds(msgspec.Struct, frozen=True):
    """baseline - candidate with its one-sided bounds, each at the gate's confidence. None where undefined, with a reason."""

    drop: float | None
    low: float | None
    high: float | None
    method: str | None
    rows: int
    reason: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """One way to count what could not be measured, and what the gate would say."""

    name: str
    verdict: Verdict
    bounds: DropBounds


class GateReport(msgspec.Struct, frozen=True):
    """The verdict and everything it rests on.

    `rows_needed`: of an inconclusive gate, about how many paired rows like these would decide; None where that cannot be said,
    and then `rows_needed_reason` says why.
    """

    verdict: Verdict
    reason: str
    measure: Measure
    max_drop: float
    confidence: float
    baseline: str
    candidate: str
    paired_by: str
    paired_rows: int
    readings: tuple[Reading, ...]
    rows_needed: int | None = None
    notes: tuple[str, ...] = ()
    rows_needed_reason: str | None = None


def drop_bounds(rows: pl.DataFrame, measure: Measure, confidence: float) -> DropBounds:
    """One-sided bounds of the mean drop over paired rows (columns as in `Pairs`, clustered where a `cluster` is there)."""
    both = rows.drop_nulls([measure.value, f"{measure.value}_baseline"])
    clusters = both["cluster"] if "cluster" in both.columns else None
    if both.is_empty():
        return DropBounds(None, None, None, None, 0, "no paired row has a value on both sides")
    ours, theirs = both[f"{measure.value}_baseline"], both[measure.value]
    if measure is Measure.PASS_RATE and clusters is None:
        once = bool(((both["runs"] == 1) & (both["runs_baseline"] == 1)).all())
        worse, better = int((theirs < ours).sum()), int((theirs > ours).sum())
        if once:
            return _score_bounds(worse, better, len(both), confidence)
        if worse + better < min(_FEW_DIFFERENCES, len(both) // 2 + 1) or (theirs - ours).n_unique() == 1:
            return _exact_bounds(theirs - ours, confidence)
    estimate = paired_difference(theirs, ours, clusters)
    if estimate.value is None or estimate.standard_error is None:
        drop = None if estimate.value is None else _negated(estimate.value)
        return DropBounds(drop, None, None, None, len(both), estimate.reason)
    reach = student_t_quantile(confidence, estimate.units - 1) * estimate.standard_error
    drop = _negated(estimate.value)
    return DropBounds(drop, settled(drop - reach), settled(drop + reach), str(estimate.method), len(both))


def _negated(value: float) -> float:
    return 0.0 - value


def _score_bounds(worse: float, better: float, rows: int, confidence: float) -> DropBounds:
    """Bounds of the difference of paired shares by the score test (Tango 1998): where the test just does not reject."""
    z = normal_quantile(confidence)
    drop = (worse - better) / rows
    high = _crossing(lambda delta: _score(worse, better, rows, delta) > -z, drop, 1.0)
    low = -_crossing(lambda delta: _score(better, worse, rows, delta) > -z, -drop, 1.0)
    return DropBounds(drop, settled(low), settled(high), "score", rows)


def _score(worse: float, better: float, rows: int, delta: float) -> float:
    """Tango's statistic for a true drop of `delta`; falls as `delta` grows."""
    a = 2.0 * rows
    b = -worse - better + (2.0 * rows - worse + better) * delta
    c = -better * delta * (1.0 - delta)
    share = (sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
    variance = rows * (2.0 * share + delta * (1.0 - delta))
    distance = worse - better - rows * delta
    if variance <= 0.0:
        return 0.0 if not distance else float("-inf") if distance < 0 else float("inf")
    return distance / sqrt(variance)


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest point between `low`, where it holds, and `high` where `holds`, by bisection."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if holds(middle):
            low = middle
        else:
            high = middle
    return high


def _exact_bounds(differences: pl.Series, confidence: float) -> DropBounds:
    """Bounds that need no spread, for differences between -1 and 1 of which few are not 0, or all are the same.

    A drop is at most the share of rows that got worse. It is at least the share that surely got worse, by the least amount
    seen, if every other row had gained all there is to gain.
    """
    worse = differences.filter(differences < 0)
    least = -float(worse.max()) if len(worse) else 0.0  # type: ignore[arg-type]
    drop = _negated(float(differences.mean() or 0.0))  # type: ignore[arg-type]
    low, high = _exact_ends(len(worse), len(differences), least, confidence)
    return DropBounds(settled(drop), settled(low), settled(high), "exact", len(differences))


def _exact_ends(worse: int, rows: int, least: float, confidence: float) -> tuple[float, float]:
    surely = binomial_lower_bound(worse, rows, confidence) if worse else 0.0
    return least * surely - (1.0 - surely), binomial_upper_bound(worse, rows, confidence)


def verdict_of(bounds: DropBounds, max_drop: float) -> Verdict:
    """Passed when the drop is surely within `max_drop`, failed when it is surely beyond."""
    if bounds.high is not None and bounds.high <= max_drop:
        return Verdict.PASSED
    if bounds.low is not None and bounds.low > max_drop:
        return Verdict.FAILED
    return Verdict.INCONCLUSIVE


def judge(
    baseline: StoredRun,
    candidate: StoredRun,
    readings: Sequence[tuple[str, Pairs]],
    *,
    measure: Measure,
    max_drop: float,
    confidence: float,
) -> GateReport:
    """The gate's report. The first of `readings` is the one as measured; the verdict must hold under them all."""
    pairs = readings[0][1]
    judged = [_reading(name, read.rows, measure, max_drop, confidence) for name, read in readings]
    if measure is Measure.PASS_RATE and len(pairs.baseline_only):
        missing = pairs.baseline_only.rename({"pass_rate": "pass_rate_baseline", "runs": "runs_baseline"})
        lost = missing.select("pass_rate_baseline", "runs_baseline", pass_rate=pl.lit(0.0), runs=pl.col("runs_baseline"))
        if "cluster" not in pairs.rows.columns:
            rows = pl.concat([pairs.rows.select(lost.columns), lost])
            judged.append(_reading("rows without a partner as failures", rows, measure, max_drop, confidence))
    if candidate.replayed and _identical(baseline, candidate, pairs):
        judged = [Reading("identical replay", Verdict.PASSED, DropBounds(0.0, 0.0, 0.0, "replay", len(pairs.rows)))]
    verdict, reason = _together(judged, baseline, candidate)
    needed: tuple[int | None, str | None] = (None, None)
    if verdict is Verdict.INCONCLUSIVE:
        needed = _rows_needed(pairs.rows, measure, max_drop, confidence)
    return GateReport(
        verdict=verdict,
        reason=reason,
        measure=measure,
        max_drop=max_drop,
        confidence=confidence,
        baseline=baseline.name,
        candidate=candidate.name,
        paired_by=pairs.paired_by,
        paired_rows=len(pairs.rows),
        readings=tuple(judged),
        rows_needed=needed[0],
        rows_needed_reason=needed[1],
    )


def infrastructure_failures(run: StoredRun) -> int:
    """How many samples failed through no fault of the model's."""
    return sum(row.status is Status.FAILED and error_origin(row.error_type) is ErrorOrigin.INFRASTRUCTURE for row in run.index)


def _reading(name: str, rows: pl.DataFrame, measure: Measure, max_drop: float, confidence: float) -> Reading:
    bounds = drop_bounds(rows, measure, confidence)
    return Reading(name, verdict_of(bounds, max_drop), bounds)


def _together(judged: Sequence[Reading], baseline: StoredRun, candidate: StoredRun) -> tuple[Verdict, str]:
    unfinished = [run.name for run in (baseline, candidate) if run.pending]
    if unfinished:
        return Verdict.INCONCLUSIVE, f"not finished: {', '.join(unfinished)}"
    verdicts = {reading.verdict for reading in judged}
    if len(verdicts) > 1:
        said = "; ".join(f"{reading.name}: {reading.verdict}" for reading in judged)
        return Verdict.INCONCLUSIVE, f"the verdict depends on what could not be measured ({said})"
    (verdict,) = verdicts
    bounds = judged[0].bounds
    return verdict, bounds.reason or (_REPLAYED if bounds.method == "replay" else _REASONS[verdict])


_REPLAYED = "the replay gives every sample of the baseline again, so nothing is left to chance"
_REASONS = {
    Verdict.PASSED: "the drop is surely within what is allowed",
    Verdict.FAILED: "the drop is surely beyond what is allowed",
    Verdict.INCONCLUSIVE: "the data cannot tell whether the drop is within what is allowed",
}


def _identical(baseline: StoredRun, candidate: StoredRun, pairs: Pairs) -> bool:
    """Whether both runs hold the same samples with the same outcomes."""
    if len(pairs.baseline_only) or pairs.candidate_only:
        return False
    columns = ["source_row_index", "run_index", "status", "reward", "error_type"]
    ours, theirs = (samples_frame(run).select(columns).sort("source_row_index", "run_index") for run in (baseline, candidate))
    return ours.equals(theirs, null_equal=True)


def _rows_needed(rows: pl.DataFrame, measure: Measure, max_drop: float, confidence: float) -> tuple[int | None, str | None]:
    """About how many paired rows like these, with the same shares or the same spread, would decide by the very bounds that did
    not; or None, and why that cannot be said."""
    bounds = drop_bounds(rows, measure, confidence)
    if bounds.high is None or bounds.drop is None:
        return None, bounds.reason
    if verdict_of(bounds, max_drop) is not Verdict.INCONCLUSIVE:
        return None, "the rows would be enough; what is missing are samples of them that could be measured"
    both = rows.drop_nulls([measure.value, f"{measure.value}_baseline"])
    scaled = _SCALED.get(bounds.method or "", _scaled_spread)(both, measure, confidence)
    needed = _least(lambda count: verdict_of(scaled(count), max_drop) is not Verdict.INCONCLUSIVE, len(both), _MOST_ROWS)
    if needed is not None:
        return needed, None
    if bounds.drop == max_drop:
        return None, "the drop that was seen is just what is allowed, so no number of rows like these would decide"
    return None, f"more than {_MOST_ROWS:,} rows like these would be needed"


Scaled = Callable[[int], DropBounds]
"""The bounds that so many rows like the given ones would have."""


def _scaled_score(both: pl.DataFrame, measure: Measure, confidence: float) -> Scaled:
    differences = both[measure.value] - both[f"{measure.value}_baseline"]
    worse, better = float((differences < 0).mean() or 0.0), float((differences > 0).mean() or 0.0)  # type: ignore[arg-type]
    return lambda count: _score_bounds(worse * count, better * count, count, confidence)


def _scaled_exact(both: pl.DataFrame, measure: Measure, confidence: float) -> Scaled:
    differences = both[measure.value] - both[f"{measure.value}_baseline"]
    if differences.n_unique() > 1:  # of more rows enough will differ for Student's t
        return _scaled_spread(both, measure, confidence)
    worse = differences.filter(differences < 0)
    least = -float(worse.max()) if len(worse) else 0.0  # type: ignore[arg-type]

    def bounds(count: int) -> DropBounds:
        low, high = _exact_ends(ceil(len(worse) * count / len(both)), count, least, confidence)
        return DropBounds(None, low, high, "exact", count)

    return bounds


def _scaled_spread(both: pl.DataFrame, measure: Measure, confidence: float) -> Scaled:
    clusters = both["cluster"] if "cluster" in both.columns else None
    estimate = paired_difference(both[measure.value], both[f"{measure.value}_baseline"], clusters)
    drop, error = _negated(estimate.value or 0.0), estimate.standard_error or 0.0

    def bounds(count: int) -> DropBounds:
        units = max(count * estimate.units // len(both), 2)
        reach = student_t_quantile(confidence, units - 1) * error * sqrt(estimate.units / units)
        return DropBounds(drop, drop - reach, drop + reach, str(estimate.method), count)

    return bounds


_SCALED: dict[str, Callable[[pl.DataFrame, Measure, float], Scaled]] = {"score": _scaled_score, "exact": _scaled_exact}
"""How each method's bounds follow the number of rows; all others are Student's t on differences."""


def _least(holds: Callable[[int], bool], below: int, most: int) -> int | None:
    """About the least number above `below` for which `holds`, found by doubling and halving; None when `most` is not enough."""
    high = below + 1
    while not holds(high):
        if high == most:
            return None
        below, high = high, min(2 * high, most)
    while high - below > 1:
        middle = (below + high) // 2
        below, high = (below, middle) if holds(middle) else (middle, high)
    return high
