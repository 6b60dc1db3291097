"""How sure a run's numbers are, as rows of its results table (issue 8)."""

from __future__ import annotations

from collections.abc import Iterator

from osmosis.pure.estimate import TOO_FEW, DetectableEffect, Estimate, Method, Uncertainty, VarianceSplit
from osmosis.pure.presentation import counted, decimal, joined

_METHODS = {
    Method.WILSON: "Wilson",
    Method.WILSON_ROWS: "Wilson, each row once",
    Method.T: "t over rows",
    Method.CLUSTERED_T: "clustered by row",
    Method.BOOTSTRAP: "row bootstrap",
}


def interval(low: float | None, high: float | None, scale: int = 1, places: int = 2) -> str:
    """`[0.12, 0.34]`, or nothing where there is no interval."""
    if low is None or high is None:
        return ""
    return f"[{decimal(low * scale, places)}, {decimal(high * scale, places)}]"


def pass_rate_rows(uncertainty: Uncertainty) -> Iterator[tuple[str, str]]:
    """Label and text of each row; an empty text has nothing to say."""
    yield f"Pass Rate {_confidence(uncertainty)}", _share(uncertainty.pass_rate)
    yield "Errors Aside", _bounds(uncertainty)


def reward_rows(uncertainty: Uncertainty) -> Iterator[tuple[str, str]]:
    """The same for the mean reward."""
    yield f"Reward {_confidence(uncertainty)}", _reward(uncertainty.mean_reward)


def planning_rows(uncertainty: Uncertainty) -> Iterator[tuple[str, str]]:
    """What could be seen with this much data, and what more data would buy."""
    yield "Detectable", _detectable(uncertainty.detectable_pass_rate)
    yield "More Data", _more(uncertainty.pass_rate_variance, uncertainty.pass_rate)


def _confidence(uncertainty: Uncertainty) -> str:
    return f"{uncertainty.confidence * 100:g}% CI"


def _share(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"none: {estimate.reason}"
    method = _METHODS[estimate.method] if estimate.method else ""
    bounds = f"{decimal(estimate.low * 100, 1)}% to {decimal(estimate.high * 100, 1)}%"
    return f"{bounds} ({method}, {counted(estimate.units, 'row')})"


def _bounds(uncertainty: Uncertainty) -> str:
    """The pass rate without failed samples, where there are any."""
    bounds = uncertainty.pass_rate_bounds
    counted, alone, aside = (
        reading.value for reading in (bounds.errors_as_failures, bounds.infrastructure_errors_left_out, bounds.errors_left_out)
    )
    parts = [(alone, "without infrastructure errors"), (aside, "without any errors")]
    return joined(f"{decimal(value * 100, 1)}% {what}" for value, what in parts if value is not None and value != counted)


def _reward(estimate: Estimate) -> str:
    if estimate.value is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return f"none: {estimate.reason}"
    bounds = f"{decimal(estimate.low)} to {decimal(estimate.high)}"
    if estimate.method in (Method.WILSON, Method.WILSON_ROWS):
        return f"{bounds} ({_METHODS[estimate.method]}, {counted(estimate.units, 'row')})"
    return f"{bounds} (t over {counted(estimate.units, 'row mean')})"


def _detectable(effect: DetectableEffect) -> str:
    unpaired, paired = effect.unpaired, effect.paired_at_best
    power = f"({effect.power * 100:g}% power)"
    best = None if paired is None else f"{decimal(paired * 100, 1)}"
    if unpaired is not None:
        tail = f", {best} at best on the same rows" if best else ""
        return f"differences to another such run from {decimal(unpaired * 100, 1)} points{tail} {power}"
    if best is not None:
        return f"none to a run on other rows, from {best} points at best on the same rows {power}"
    return f"none: this sample cannot detect any difference to another such run {power}" if effect.reason == TOO_FEW else ""


def _more(split: VarianceSplit, estimate: Estimate) -> str:
    """What the standard error would be; the standard error of today stands before it."""
    if estimate.standard_error is None or split.twice_the_rows is None:
        return ""
    now = f"error {decimal(estimate.standard_error * 100, 1)} points"
    choices = ((split.twice_the_runs, "with twice the runs"), (split.twice_the_rows, "with twice the rows"))
    return joined([now, *(f"{decimal(error * 100, 1)} {what}" for error, what in choices if error is not None)])
