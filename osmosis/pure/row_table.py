"""From samples to dataset rows: what each row's runs came to. Rows, not samples, are the independent units (ruling 32)."""

from __future__ import annotations

import msgspec
import polars as pl

from osmosis.pure.error_origin import infrastructure_expression
from osmosis.pure.exact_sums import FixedPoint, fixed_point
from osmosis.pure.index_frame import normalised
from osmosis.pure.journal import Status
from osmosis.pure.pass_at_k import RowOutcomes


class RowTable(msgspec.Struct, frozen=True):
    """One line a dataset row with a terminal result. Columns of `rows`, all integers but `cluster`:

    row_index, scored, passed, failed, infrastructure (failed through no fault of the model's), graded, units (the sum of the
    rewards of graded samples, in `unit`s), and cluster, where one was named.
    """

    rows: pl.DataFrame
    unit: FixedPoint

    def histogram(self, *, without: str | None = None) -> tuple[RowOutcomes, ...]:
        """(scored, passed) over rows with a scored sample. `without` names a column of samples to leave out: "failed", ..."""
        scored = pl.col("scored") if without is None else pl.col("scored") - pl.col(without)
        return _counted(self.rows.lazy().select(scored=scored, passed="passed"))

    def mean_rewards(self) -> pl.DataFrame:
        """row_index, graded, cluster (if there is one), and `mean`: the mean of the row's graded rewards, as a multiple of
        2^`unit.exponent`. Rows without a graded sample are left out."""
        graded = self.rows.filter(pl.col("graded") > 0)
        keep = [name for name in ("row_index", "graded", "cluster") if name in graded.columns]
        return graded.select(*keep).with_columns(mean=self.unit.shares(graded["units"]) / graded["graded"])


def row_table(samples: pl.DataFrame) -> RowTable:
    """The table of normalised `samples` (`osmosis.pure.index_frame.normalised`).

    Optional columns that are not there count nothing. A row whose samples name several clusters is in the smallest.
    """
    greatest = float(samples.select(pl.col("reward").filter("graded").abs().max()).item() or 0.0)
    # Runs are numbered from 0 and each stands once; only a frame that is no index has larger groups, and is then read twice.
    runs = int(samples["run_index"].max() or 0) + 1  # type: ignore[arg-type]
    table = _grouped(samples, fixed_point(greatest, runs))
    largest = int(table.rows["samples"].max() or 0)  # type: ignore[arg-type]
    return table if largest <= runs else _grouped(samples, fixed_point(greatest, largest))


def _grouped(samples: pl.DataFrame, unit: FixedPoint) -> RowTable:
    failed = pl.col("status") == Status.FAILED.value
    infrastructure = failed & infrastructure_expression() if "error_type" in samples.columns else pl.lit(False)
    counted = ("scored", "passed", "failed", "infrastructure", "graded", "units")
    cluster = [pl.col("cluster").min()] if "cluster" in samples.columns else []
    rows = (
        samples.lazy()
        .with_columns(
            failed=failed,
            infrastructure=infrastructure,
            units=pl.when("graded").then(unit.encode("reward")).otherwise(pl.lit(0, dtype=pl.Int64)),
        )
        .group_by("row_index")
        .agg(*(pl.col(name).sum().cast(pl.Int64) for name in counted), *cluster, samples=pl.len())
        .collect()
    )
    return RowTable(rows, unit)


def outcome_histogram(frame: pl.DataFrame | pl.LazyFrame, pass_threshold: float) -> tuple[RowOutcomes, ...]:
    """The histogram of (scored samples, passes) over dataset rows. Rows with no scored sample take no part (ruling 6)."""
    samples = normalised(frame, pass_threshold, optional=())
    return _counted(samples.lazy().filter("scored").group_by("row_index").agg(scored=pl.len(), passed=pl.col("passed").sum()))


def _counted(rows: pl.LazyFrame) -> tuple[RowOutcomes, ...]:
    counts = (
        rows.filter(pl.col("scored") > 0).group_by("scored", "passed").agg(rows=pl.len()).sort("scored", "passed").collect()
    )
    return tuple(RowOutcomes(*counts_of_pair) for counts_of_pair in counts.iter_rows())
