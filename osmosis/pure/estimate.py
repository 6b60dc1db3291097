"""The records of a run's uncertainty: what `metrics.json` says beyond the contract's keys (issue 8, ruling 6). No polars here.

A number that the data does not give is null and `reason` says why; it is never 0 and never NaN. Standard errors and bounds are
settled to twelve significant digits, so that the last bits of a machine's mathematics library do not show in files that are
compared byte by byte.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

CONFIDENCE = 0.95
"""Of every interval, unless said otherwise."""
POWER = 0.8
"""With which the minimum detectable effect would be seen."""
TOO_FEW = "this sample is too small to detect any difference that there can be"
"""Why there is no detectable effect, although the standard error is known."""


def settled(value: float) -> float:
    """`value` to twelve significant digits."""
    return float(f"{value:.12g}")


class Method(StrEnum):
    """How an interval was made. `docs/statistics.md` says where each is valid."""

    WILSON = "wilson"
    WILSON_ROWS = "wilson_rows"
    T = "t"
    CLUSTERED_T = "clustered_t"
    BOOTSTRAP = "row_bootstrap"


class Estimate(msgspec.Struct, frozen=True):
    """A number and how sure it is. `units` counts the independent things behind it: rows, or clusters of rows."""

    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    method: Method | None
    units: int
    reason: str | None = None


class CurvePoint(msgspec.Struct, frozen=True):
    """One point of pass@k or pass^k with its interval."""

    k: int
    value: float
    low: float | None
    high: float | None
    reason: str | None = None


class PassRateBounds(msgspec.Struct, frozen=True):
    """The pass rate under three readings of failed samples: all as failures, only the model's, none of them."""

    errors_as_failures: Estimate
    infrastructure_errors_left_out: Estimate
    errors_left_out: Estimate


class VarianceSplit(msgspec.Struct, frozen=True):
    """Where the variance of one sample comes from, and the standard error that more data would give.

    `between_rows` and `within_row` are variances (one-way random effects). The others are standard errors of the mean: with
    twice the runs of each row, with twice the rows, and with so many runs that only the choice of rows is left.
    """

    between_rows: float | None
    within_row: float | None
    twice_the_runs: float | None
    twice_the_rows: float | None
    unlimited_runs: float | None
    reason: str | None = None


class DetectableEffect(msgspec.Struct, frozen=True):
    """The smallest true difference that a comparison with another run of this size would show, with the stated power.

    `unpaired`: the other run has other rows. `paired_at_best`: it has the same rows and finds the same ones hard, so that only
    the noise between runs of a row is left; null where each row ran once. Either is null where the effect would have to be
    larger than any that there can be.
    """

    unpaired: float | None
    paired_at_best: float | None
    power: float
    reason: str | None = None


class Uncertainty(msgspec.Struct, frozen=True):
    """The `uncertainty` object. `seed` decides the bootstrap and nothing else."""

    confidence: float
    seed: str
    resamples: int
    pass_rate: Estimate
    pass_rate_bounds: PassRateBounds
    mean_reward: Estimate
    pass_at_k: tuple[CurvePoint, ...]
    pass_hat_k: tuple[CurvePoint, ...]
    pass_rate_variance: VarianceSplit
    reward_variance: VarianceSplit
    detectable_pass_rate: DetectableEffect
    detectable_reward: DetectableEffect


class Counts(msgspec.Struct, frozen=True):
    """Samples by how they ended. planned = success + failed + skipped + pending; graded + ungraded = success."""

    planned: int
    success: int
    failed: int
    skipped: int
    pending: int
    graded: int
    ungraded: int


class ErrorOrigin(StrEnum):
    """Whose failure a failed sample is."""

    MODEL = "model"
    INFRASTRUCTURE = "infrastructure"
    UNCLASSIFIED = "unclassified"


class ErrorCount(msgspec.Struct, frozen=True):
    """How many failed samples name this `error_type`, cut to a readable length."""

    error_type: str
    origin: ErrorOrigin
    count: int


class ErrorSummary(msgspec.Struct, frozen=True):
    """Failed samples by origin and by type. model + infrastructure + unclassified = failed = the counts of `types` +
    `others`."""

    model: int
    infrastructure: int
    unclassified: int
    types: tuple[ErrorCount, ...]
    others: int
