"""Two runs on the same rows: by how much they differ, how sure that is, and where (issue 8).

Rows are paired, runs of a row are averaged first, and the differences of rows (or clusters of rows) are the independent units,
so what makes a row hard for both runs cancels (Miller 2024, "Adding Error Bars to Evals"). A difference is candidate -
baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
import polars as pl

from osmosis.pure.error_origin import infrastructure_expression
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.estimate import CONFIDENCE, Estimate
from osmosis.pure.exact_sums import fixed_point, float_sum, integer_sum, scaled_up
from osmosis.pure.index_frame import normalised
from osmosis.pure.intervals import NO_SAMPLE, undefined
from osmosis.pure.journal import Status
from osmosis.pure.presentation import counted
from osmosis.pure.price import Price
from osmosis.pure.statistics import exact_sign_test, holm, paired_difference, t_test_p_value
from osmosis.pure.stored_run import (
    PAIRED_BY_CONTENT,
    PAIRED_BY_ROW,
    StoredRun,
    dataset_digest,
    row_keys,
    same_dataset,
    samples_frame,
)

NO_PRICE = "the cost is not known on both sides"
NO_USAGE = "no paired row reports it in both runs"
GRADING_TIMES = "one run regrades stored samples, so its times are its grader's alone"
SAME_SAMPLES = "both runs have the same samples"
QUANTITIES = ("pass_rate", "reward", "tokens", "duration_ms", "cost")
"""What is compared, a column of row means each."""
_PROMPT_LENGTH = 200


class Direction(StrEnum):
    """Which way a row went from the baseline to the candidate."""

    BETTER = "better"
    WORSE = "worse"


class Difference(msgspec.Struct, frozen=True):
    """Means over the paired rows, and candidate - baseline with its paired interval. `p_value`: two-sided paired t test."""

    baseline: float | None
    candidate: float | None
    difference: Estimate
    p_value: float | None


class ExactTest(msgspec.Struct, frozen=True):
    """Rows that went up against rows that went down: McNemar's exact test where each row ran once, else a sign test."""

    name: str
    better: int
    worse: int
    unchanged: int
    p_value: float


class Flip(msgspec.Struct, frozen=True):
    """A row whose pass share changed. Row indices are those of either run; the prompt is cut."""

    source_row_index: int
    baseline_row_index: int
    candidate_row_index: int
    baseline_share: float
    candidate_share: float
    direction: Direction
    prompt: str | None = None


class SliceDifference(msgspec.Struct, frozen=True):
    """The pass rate on the rows of one slice. `adjusted_p_value` holds over all slices and candidates together (Holm)."""

    value: str
    rows: int
    pass_rate: Difference
    exact: ExactTest
    adjusted_p_value: float | None = None


class Comparison(msgspec.Struct, frozen=True):
    """A candidate against a baseline. `only_*` rows had no partner with a scored sample."""

    baseline: str
    candidate: str
    baseline_model: str
    candidate_model: str
    pass_threshold: float
    confidence: float
    paired_by: str
    paired_rows: int
    baseline_only: int
    candidate_only: int
    pass_rate: Difference
    exact: ExactTest
    reward: Difference
    tokens: Difference
    duration_ms: Difference
    cost: Difference
    flips: tuple[Flip, ...]
    slices: tuple[SliceDifference, ...] = ()
    slice_by: str | None = None
    cluster_by: str | None = None
    adjusted_p_value: float | None = None
    notes: tuple[str, ...] = ()


class Pairs(msgspec.Struct, frozen=True):
    """Rows of two runs, joined. `rows`: key, `<quantity>` and `<quantity>_baseline` of each quantity, `row_index`,
    `row_index_baseline`, `runs` and `runs_baseline`, and `cluster` and `slice` where they were named; sorted by baseline
    row."""

    rows: pl.DataFrame
    paired_by: str
    baseline_only: pl.DataFrame
    candidate_only: int


def row_means(
    run: StoredRun,
    pass_threshold: float,
    keys: Mapping[int, str],
    price: Price | None = None,
    *,
    without_infrastructure_errors: bool = False,
) -> pl.DataFrame:
    """One line a row with a scored sample: key, row_index, source_row_index, runs, and the mean of each quantity over its runs.

    A quantity that no sample of the row reports is null. Failed samples count as not passed (E29) and have no reward.
    """
    samples = samples_frame(run, price)
    checked = normalised(samples, pass_threshold, optional=("reward", "tokens", "duration_ms", "cost", "error_type"))
    graded = pl.when("graded").then(pl.col("reward"))
    checked = checked.with_columns(pass_rate=pl.col("passed").cast(pl.Float64), reward=graded).filter("scored")
    if without_infrastructure_errors:
        checked = checked.filter(~((pl.col("status") == Status.FAILED.value) & infrastructure_expression()))
    means = checked.group_by("row_index").agg(runs=pl.len().cast(pl.Int64))
    for quantity in QUANTITIES:
        means = means.join(_exact_means(checked, quantity), on="row_index", how="left")
    known = [(row, key, run.source_rows[row]) for row, key in keys.items()]
    schema = {"row_index": pl.Int64, "key": pl.String, "source_row_index": pl.Int64}
    return means.join(pl.DataFrame(known, schema=schema, orient="row"), on="row_index").sort("row_index")


def _exact_means(samples: pl.DataFrame, quantity: str) -> pl.DataFrame:
    """row_index and the mean of `quantity` over the samples that report it; the same bytes in any order."""
    reported = samples.select("row_index", value=pl.col(quantity).cast(pl.Float64)).drop_nulls()
    greatest = float(reported["value"].abs().max() or 0.0)  # type: ignore[arg-type]
    largest = int(reported.group_by("row_index").len()["len"].max() or 1)  # type: ignore[arg-type]
    unit = fixed_point(greatest, largest)
    sums = reported.group_by("row_index").agg(units=unit.encode("value").sum(), count=pl.len().cast(pl.Int64))
    shares = unit.shares(sums["units"]) / sums["count"]
    values = [scaled_up(share, unit.exponent) for share in shares]
    return sums.select("row_index").with_columns(pl.Series(quantity, values, dtype=pl.Float64))


def pair(
    baseline: StoredRun,
    candidate: StoredRun,
    *,
    force: bool = False,
    prices: Mapping[str, Price] | None = None,
    clusters: Mapping[int, str | None] | None = None,
    slices: Mapping[int, str | None] | None = None,
    without_infrastructure_errors: bool = False,
) -> Pairs:
    """Join the rows of two runs on the same dataset. `clusters` and `slices` map the baseline's source rows to values.

    Both runs are judged by the baseline's threshold. Different datasets are refused, unless `force`: then rows with equal
    prompt and label are paired. Raises OsmosisError, also when no row pairs, or a row has no cluster.
    """
    same = same_dataset(baseline, candidate)
    if not same and not force:
        raise _other_dataset(baseline, candidate)
    prices = prices or {}
    ours, theirs = (
        row_means(
            run,
            baseline.pass_threshold,
            row_keys(run, by_content=not same),
            prices.get(run.model),
            without_infrastructure_errors=without_infrastructure_errors,
        )
        for run in (baseline, candidate)
    )
    rows = theirs.join(ours, on="key", how="inner", suffix="_baseline").sort("row_index_baseline")
    if rows.is_empty():
        raise OsmosisError(
            f"No row of {candidate.name} pairs with a row of {baseline.name}.",
            problems=[Problem(run.location, f"{len(run.source_rows)} rows") for run in (baseline, candidate)],
            hint="Compare runs that evaluated some of the same rows.",
        )
    for name, values in (("cluster", clusters), ("slice", slices)):
        if values is not None:
            column = [values.get(source) for source in rows["source_row_index_baseline"]]
            rows = rows.with_columns(pl.Series(name, column, dtype=pl.String))
    if clusters is not None and (missing := rows["cluster"].null_count()):
        raise OsmosisError(
            f"{missing} of the {len(rows)} paired rows have no cluster.", hint="Name an attribute that every row has."
        )
    return Pairs(
        rows=rows,
        paired_by=PAIRED_BY_ROW if same else PAIRED_BY_CONTENT,
        baseline_only=ours.join(rows, on="key", how="anti").sort("row_index"),
        candidate_only=len(theirs) - len(rows),
    )


def _other_dataset(baseline: StoredRun, candidate: StoredRun) -> OsmosisError:
    return OsmosisError(
        f"Runs {baseline.name} and {candidate.name} evaluated different datasets.",
        code=ErrorCode.CONFLICT,
        problems=[Problem(run.location, f"dataset {dataset_digest(run)}") for run in (baseline, candidate)],
        hint="--force pairs the rows that have equal prompt and label, and says how many there are.",
    )


def compare_runs(
    baseline: StoredRun,
    candidate: StoredRun,
    pairs: Pairs,
    *,
    confidence: float = CONFIDENCE,
    slice_by: str | None = None,
    cluster_by: str | None = None,
) -> Comparison:
    """What `pairs` (of `pair`) say about the two runs. P values are adjusted later, over everything shown together
    (`adjust`). A quantity that is not the same thing in both runs is left out, and a note says so."""
    rows, unlike = pairs.rows, _unlike(baseline, candidate)
    deltas = {
        quantity: difference(rows, quantity, confidence)
        if quantity not in unlike
        else Difference(None, None, undefined(unlike[quantity]), None)
        for quantity in QUANTITIES
    }
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        baseline_model=baseline.model,
        candidate_model=candidate.model,
        pass_threshold=baseline.pass_threshold,
        confidence=confidence,
        paired_by=pairs.paired_by,
        paired_rows=len(rows),
        baseline_only=len(pairs.baseline_only),
        candidate_only=pairs.candidate_only,
        exact=exact_test(rows),
        pass_rate=deltas["pass_rate"],
        reward=deltas["reward"],
        tokens=deltas["tokens"],
        duration_ms=deltas["duration_ms"],
        cost=deltas["cost"],
        flips=_flips(rows, baseline),
        slices=_slices(rows, confidence) if slice_by else (),
        slice_by=slice_by,
        cluster_by=cluster_by,
        notes=tuple(_notes(baseline, candidate)),
    )


def _unlike(baseline: StoredRun, candidate: StoredRun) -> dict[str, str]:
    """Quantities that cannot be compared, and why. A regrade keeps its parent's tokens and spends its own time on grading."""
    unlike = {}
    if baseline.regraded != candidate.regraded:
        unlike["duration_ms"] = GRADING_TIMES
    if (baseline.regraded or candidate.regraded) and baseline.samples_of == candidate.samples_of:
        unlike |= dict.fromkeys(("tokens", "cost"), SAME_SAMPLES)
    return unlike


_SPELLED = {"duration_ms": "latency"}


def difference(rows: pl.DataFrame, quantity: str, confidence: float) -> Difference:
    """The paired difference of one quantity over the rows that report it on both sides."""
    both = rows.drop_nulls([quantity, f"{quantity}_baseline"])
    if both.is_empty():
        reason = {"cost": NO_PRICE, "pass_rate": NO_SAMPLE}.get(quantity, NO_USAGE)
        return Difference(None, None, undefined(reason), None)
    ours, theirs = both[f"{quantity}_baseline"], both[quantity]
    clusters = both["cluster"] if "cluster" in both.columns else None
    estimate = paired_difference(theirs, ours, clusters, confidence)
    if estimate.low is not None and estimate.high is not None and _are_shares(quantity, ours, theirs):
        # They differ by 1 at most, whatever a t interval of three rows says.
        estimate = msgspec.structs.replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))
    return Difference(float_sum(ours) / len(both), float_sum(theirs) / len(both), estimate, t_test_p_value(estimate))


def _are_shares(quantity: str, ours: pl.Series, theirs: pl.Series) -> bool:
    """Whether values lie between 0 and 1: pass shares do, rewards may (decision 0042), other quantities have other scales."""
    return quantity == "pass_rate" or (
        quantity == "reward" and bool(ours.is_between(0, 1).all() and theirs.is_between(0, 1).all())
    )


def exact_test(rows: pl.DataFrame) -> ExactTest:
    """The exact test of paired rows by the direction in which each went."""
    better = int((rows["pass_rate"] > rows["pass_rate_baseline"]).sum())
    worse = int((rows["pass_rate"] < rows["pass_rate_baseline"]).sum())
    once = integer_sum(rows["runs"]) == integer_sum(rows["runs_baseline"]) == len(rows)
    name = "exact McNemar test" if once else "exact sign test over rows"
    return ExactTest(name, better, worse, len(rows) - better - worse, exact_sign_test(better, worse))


def _slices(rows: pl.DataFrame, confidence: float) -> tuple[SliceDifference, ...]:
    named = rows.with_columns(slice=pl.col("slice").fill_null("(none)"))
    parts = named.partition_by("slice", as_dict=True, maintain_order=True)
    return tuple(
        SliceDifference(str(value), len(part), difference(part, "pass_rate", confidence), exact_test(part))
        for (value,), part in sorted(parts.items(), key=lambda entry: str(entry[0][0]))
    )


def _flips(rows: pl.DataFrame, baseline: StoredRun) -> tuple[Flip, ...]:
    """Rows that changed, the worse ones first, in the baseline's order."""
    changed = rows.filter(pl.col("pass_rate") != pl.col("pass_rate_baseline"))
    prompts = {row.row_index: row.prompt for row in baseline.dataset_rows or ()}
    flips = [
        Flip(
            source_row_index=line["source_row_index_baseline"],
            baseline_row_index=line["row_index_baseline"],
            candidate_row_index=line["row_index"],
            baseline_share=line["pass_rate_baseline"],
            candidate_share=line["pass_rate"],
            direction=Direction.BETTER if line["pass_rate"] > line["pass_rate_baseline"] else Direction.WORSE,
            prompt=(prompts.get(line["row_index_baseline"]) or "")[:_PROMPT_LENGTH] or None,
        )
        for line in changed.iter_rows(named=True)
    ]
    return tuple(sorted(flips, key=lambda flip: (flip.direction is Direction.BETTER, flip.baseline_row_index)))


def _notes(baseline: StoredRun, candidate: StoredRun) -> list[str]:
    notes = [
        f"run {run.name} is not finished: {counted(run.pending, 'sample')} {'is' if run.pending == 1 else 'are'} pending"
        for run in (baseline, candidate)
        if run.pending
    ]
    if baseline.pass_threshold != candidate.pass_threshold:
        own, other = baseline.pass_threshold, candidate.pass_threshold
        notes.append(f"both runs are judged by the baseline's threshold {own!r}; the candidate's own is {other!r}")
    left_out: dict[str, list[str]] = {}
    for quantity, reason in _unlike(baseline, candidate).items():
        left_out.setdefault(reason, []).append(_SPELLED.get(quantity, quantity))
    notes += [f"{reason}: {' and '.join(names)} left out" for reason, names in left_out.items()]
    return notes


def adjust(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """`comparisons` with P values adjusted over the whole family that is shown: all slices of all candidates, or all
    candidates.

    The adjusted values are those of the exact test (Holm 1979). With a single comparison nothing is adjusted.
    """
    family = [part.exact.p_value for comparison in comparisons for part in comparison.slices]
    adjusted = iter(holm(family))
    overall = holm([comparison.exact.p_value for comparison in comparisons])
    return tuple(
        msgspec.structs.replace(
            comparison,
            slices=tuple(msgspec.structs.replace(part, adjusted_p_value=next(adjusted)) for part in comparison.slices),
            adjusted_p_value=own if len(comparisons) > 1 else None,
        )
        for comparison, own in zip(comparisons, overall, strict=True)
    )
