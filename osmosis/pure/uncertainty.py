"""How sure a run's numbers are: from normalised samples to the `uncertainty`, `counts` and `errors` of `metrics.json` (issue
8).

Every interval has dataset rows (or named clusters of rows) as its independent units. The bytes depend neither on the order of
the samples, nor on how the frame is cut, nor on the number of threads (`osmosis.pure.exact_sums`).
"""

from __future__ import annotations

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
    PassRateBounds,
    Uncertainty,
    VarianceSplit,
)
from osmosis.pure.exact_sums import fixed_point, float_sum, integer_sum, scaled_up
from osmosis.pure.journal import Status
from osmosis.pure.pass_at_k import RowOutcomes, powers_of_two
from osmosis.pure.plan import Manifest
from osmosis.pure.row_table import RowTable
from osmosis.pure.statistics import (
    NO_SAMPLE,
    ONE_ROW,
    TOO_LARGE,
    clustered_mean_estimate,
    detectable_effect,
    mean_estimate,
    pass_rate_estimate,
    pass_rate_variance,
    rescaled,
    undefined,
    variance_split,
)

_VARIANCE_BITS = 31


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
        detectable_pass_rate=detectable_effect(pass_rate, pass_variance.within_row, _inverse_runs(histogram), confidence),
        detectable_reward=detectable_reward,
    )


def _inverse_runs(histogram: tuple[RowOutcomes, ...]) -> float:
    rows = sum(outcomes.rows for outcomes in histogram)
    return sum(outcomes.rows / outcomes.scored for outcomes in histogram) / rows if rows else 0.0


def _clustered_pass_rate(table: RowTable, confidence: float) -> Estimate:
    """The mean of rows' pass shares with errors clustered by the named column."""
    rows = table.rows.filter(pl.col("scored") > 0)
    return clustered_mean_estimate(rows["passed"] / rows["scored"], rows["cluster"], confidence)


def _rewards(samples: pl.DataFrame, table: RowTable, confidence: float) -> tuple[Estimate, VarianceSplit, DetectableEffect]:
    """The mean of row means with its interval, the variance split, and what could be detected."""
    means = table.mean_rewards()
    rows = len(means)
    exponent = table.unit.exponent
    if "cluster" in means.columns:
        scaled = clustered_mean_estimate(means["mean"], means["cluster"], confidence) if rows else undefined(NO_SAMPLE)
    else:
        scaled = mean_estimate(means["mean"], confidence)
    estimate = rescaled(scaled, exponent)
    if rows < 2:
        reason = ONE_ROW if rows else NO_SAMPLE
        return estimate, VarianceSplit(None, None, None, None, None, reason), detectable_effect(estimate, None, 1.0, confidence)
    centre = float_sum(means["mean"]) / rows
    deviations = means["mean"] - centre
    variance = float_sum(deviations * deviations) / (rows - 1)
    inverse_runs = float_sum(1.0 / means["graded"]) / rows
    within = _within_row(samples, table, centre, means)
    if scaled_up(1.0, 2 * exponent) is None:
        return (
            estimate,
            VarianceSplit(None, None, None, None, None, TOO_LARGE),
            detectable_effect(estimate, None, 1.0, confidence),
        )
    square = 2.0 ** (2 * exponent)
    within = None if within is None else within * square
    split = variance_split(variance * square, within, inverse_runs, rows)
    return estimate, split, detectable_effect(estimate, within, inverse_runs, confidence)


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
