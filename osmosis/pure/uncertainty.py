"""How sure a run's numbers are: from normalised samples to the `uncertainty`, `counts` and `errors` of `metrics.json` (issue
8).

Every interval has dataset rows (or named clusters of rows) as its independent units. The bytes depend neither on the order of
the samples, nor on how the frame is cut, nor on the number of threads (`osmosis.pure.exact_sums`).
"""

from __future__ import annotations

from math import fsum, inf

import polars as pl

from osmosis.pure.bootstrap import bootstrap_curves, resample_count
from osmosis.pure.canonical import canonical_json
from osmosis.pure.digest import fingerprint
from osmosis.pure.error_origin import error_summary
from osmosis.pure.estimate import (
    CONFIDENCE,
    Counts,
    DetectableEffect,
    ErrorSummary,
    Estimate,
    Method,
    PassRateBounds,
    Uncertainty,
    VarianceSplit,
)
from osmosis.pure.exact_sums import fixed_point, float_sum, integer_sum
from osmosis.pure.intervals import NO_SAMPLE, ONE_ROW, pass_rate_estimate, undefined, within
from osmosis.pure.journal import Status
from osmosis.pure.pass_at_k import RowOutcomes, powers_of_two
from osmosis.pure.plan import Manifest
from osmosis.pure.row_table import RowTable
from osmosis.pure.statistics import (
    TOO_LARGE,
    clustered_mean_estimate,
    detectable_effect,
    estimate_from_moments,
    mean_and_variance,
    pass_rate_variance,
    rescaled,
    variance_split,
)

_VARIANCE_BITS = 31
_SQUARES_UP_TO = 500
"""Binary exponent beyond which squares leave the range of a double."""


def bootstrap_seed(manifest: Manifest) -> str:
    """The seed of a run's bootstrap: the digest of the manifest's inputs.

    Of the inputs alone, so that two runs of the same inputs with the same outcomes have the same intervals, whatever their
    names.
    """
    return fingerprint(canonical_json(manifest.inputs))


def sample_counts(samples: pl.DataFrame, planned: int | None) -> Counts:
    """Counts that add up. Without a plan, what is there was planned."""
    success, failed, skipped = (int((samples["status"] == status.value).sum()) for status in Status)
    graded = int(samples["graded"].sum())
    planned = len(samples) if planned is None else planned
    return Counts(planned, success, failed, skipped, planned - len(samples), graded, success - graded)


def errors_by_type(samples: pl.DataFrame) -> ErrorSummary:
    """The failed samples by whose failure they are."""
    failed = samples.lazy().filter(pl.col("status") == Status.FAILED.value)
    return error_summary(failed.group_by("error_type").len().collect().iter_rows())


def measure_uncertainty(samples: pl.DataFrame, table: RowTable, seed: str, confidence: float = CONFIDENCE) -> Uncertainty:
    """Every interval of a run. `table` is the row table of `samples`; a `cluster` column in both clusters the means."""
    histogram = table.histogram()
    most = max((outcomes.scored for outcomes in histogram), default=0)
    at_k, hat_k = bootstrap_curves(histogram, powers_of_two(most), seed, confidence)
    clustered = "cluster" in table.rows.columns
    pass_rate = _clustered_pass_rate(table, confidence) if clustered else pass_rate_estimate(histogram, confidence)
    rewards, reward_variance, detectable_reward = _rewards(samples, table, confidence)
    pass_variance = pass_rate_variance(histogram)
    return Uncertainty(
        confidence=confidence,
        seed=seed,
        resamples=resample_count(histogram),
        pass_rate=pass_rate,
        pass_rate_bounds=PassRateBounds(
            errors_as_failures=pass_rate_estimate(histogram, confidence),
            infrastructure_errors_left_out=pass_rate_estimate(table.histogram(without="infrastructure"), confidence),
            errors_left_out=pass_rate_estimate(table.histogram(without="failed"), confidence),
        ),
        mean_reward=rewards,
        pass_at_k=at_k,
        pass_hat_k=hat_k,
        pass_rate_variance=pass_variance,
        reward_variance=reward_variance,
        detectable_pass_rate=detectable_effect(
            pass_rate, _run_noise(pass_variance.within_row, histogram), confidence, largest=_largest_difference(pass_rate)
        ),
        detectable_reward=detectable_reward,
    )


def _run_noise(within: float | None, histogram: tuple[RowOutcomes, ...]) -> float | None:
    """The variance that runs within rows leave in the mean over rows."""
    rows = sum(outcomes.rows for outcomes in histogram)
    if within is None or not rows:
        return None
    return within * sum(outcomes.rows / outcomes.scored for outcomes in histogram) / rows**2


def _largest_difference(share: Estimate) -> float:
    """By how much another run's share can differ from this one."""
    return 1.0 if share.value is None else max(share.value, 1.0 - share.value)


def _clustered_pass_rate(table: RowTable, confidence: float) -> Estimate:
    """The mean of rows' pass shares with errors clustered by the named column."""
    rows = table.rows.filter(pl.col("scored") > 0)
    return within(clustered_mean_estimate(rows["passed"] / rows["scored"], rows["cluster"], confidence), 0.0, 1.0)


def _rewards(samples: pl.DataFrame, table: RowTable, confidence: float) -> tuple[Estimate, VarianceSplit, DetectableEffect]:
    """The mean of row means with its interval, the variance split, and what could be detected."""
    means = table.mean_rewards()
    rows, exponent = len(means), table.unit.exponent
    if not rows:
        return _without_split(undefined(NO_SAMPLE), NO_SAMPLE)
    centre, variance = mean_and_variance(means["mean"])
    if "cluster" in means.columns:
        scaled = clustered_mean_estimate(means["mean"], means["cluster"], confidence)
    else:
        scaled = estimate_from_moments(centre, variance, rows, confidence)
    estimate, largest = _on_scale(rescaled(scaled, exponent), samples, confidence)
    if variance is None:
        return _without_split(estimate, ONE_ROW)
    if abs(exponent) > _SQUARES_UP_TO:
        return _without_split(estimate, TOO_LARGE)
    square = 2.0 ** (2 * exponent)
    inverse_runs = _inverse_runs(means["graded"])
    inside = _within_row(samples, table, centre, means)
    split = variance_split(variance * square, None if inside is None else inside * square, inverse_runs, rows)
    noise = None if inside is None else inside * square * inverse_runs / rows
    return estimate, split, detectable_effect(estimate, noise, confidence, largest=largest)


def _on_scale(estimate: Estimate, samples: pl.DataFrame, confidence: float) -> tuple[Estimate, float]:
    """`estimate` of a mean reward as far as it can be true, and by how much another run can differ from it.

    Rewards have no declared scale. If all of them lie between 0 and 1, so does their mean. If they are all 0 or 1, it is a
    share: where each row was graded once, or every sample agrees, its interval is that of a share, as for the pass rate.
    """
    graded = samples.lazy().filter("graded").select("row_index", "reward").collect()
    rewards = graded["reward"]
    if float(rewards.min()) < 0.0 or float(rewards.max()) > 1.0:  # type: ignore[arg-type]
        return estimate, inf
    if "cluster" not in samples.columns and bool(rewards.is_in([0.0, 1.0]).all()):
        share = pass_rate_estimate(_ones(graded), confidence)
        if share.method in (Method.WILSON, Method.WILSON_ROWS):
            return share, _largest_difference(share)
    return within(estimate, 0.0, 1.0), _largest_difference(estimate)


def _ones(graded: pl.DataFrame) -> tuple[RowOutcomes, ...]:
    """The histogram of (graded samples, rewards of 1) over rows."""
    rows = graded.lazy().group_by("row_index").agg(scored=pl.len(), passed=(pl.col("reward") == 1.0).sum())
    counts = rows.group_by("scored", "passed").agg(rows=pl.len()).sort("scored", "passed").collect()
    return tuple(RowOutcomes(*counts_of_pair) for counts_of_pair in counts.iter_rows())


def _without_split(estimate: Estimate, reason: str) -> tuple[Estimate, VarianceSplit, DetectableEffect]:
    return estimate, VarianceSplit(None, None, None, None, None, reason), detectable_effect(estimate, None)


def _inverse_runs(graded: pl.Series) -> float:
    """The mean of 1 / runs over rows, from the few different numbers of runs."""
    counts = graded.value_counts(name="rows").sort(graded.name)
    return fsum(rows / runs for runs, rows in counts.iter_rows()) / len(graded)


def _within_row(samples: pl.DataFrame, table: RowTable, centre: float, means: pl.DataFrame) -> float | None:
    """The pooled variance of rewards within rows, in squares of 2^`unit.exponent`; None if no row has two graded samples.

    From exact sums of whole numbers, so that rows whose runs all agree have a spread of exactly 0.
    """
    freedom = integer_sum(means["graded"] - 1)
    if not freedom:
        return None
    largest = int(means["graded"].max())  # type: ignore[arg-type]
    # Units small enough for n * (sum of squares) and (sum)^2 to fit into 63 bits.
    unit = fixed_point(1.0, largest, _VARIANCE_BITS)
    shares = table.unit.encode("reward").cast(pl.Float64) * 2.0**-table.unit.bits - centre
    squares = (
        samples.lazy()
        .filter("graded")
        .select("row_index", share=shares / 2.0)
        .select("row_index", units=unit.encode("share"))
        .group_by("row_index")
        .agg(count=pl.len().cast(pl.Int64), total=pl.col("units").sum(), squares=(pl.col("units") ** 2).sum())
        .filter(pl.col("count") > 1)
        .select((pl.col("count") * pl.col("squares") - pl.col("total") ** 2) / pl.col("count"))
        .collect()
        .to_series()
    )
    return float_sum(squares) / freedom * 4.0 * 4.0 ** (unit.exponent - unit.bits)
