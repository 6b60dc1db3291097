"""`osmosis eval compare` and `osmosis eval gate`: reads the runs and lets the core compare and judge them (issue 8)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from osmosis.pure.comparison import Comparison, Pairs, adjust, compare_runs, pair
from osmosis.pure.dataset import Row
from osmosis.pure.estimate import CONFIDENCE
from osmosis.pure.gate import GateReport, Measure, infrastructure_failures, judge
from osmosis.pure.price import Price
from osmosis.pure.stored_run import StoredRun, row_attribute
from osmosis.shell.evaluation.run_reader import load_dataset_of, locate_run, read_run


class ComparisonRequest(msgspec.Struct, frozen=True):
    """What is compared. Runs are names or paths, as `run_reader.locate_run` takes them; relative paths begin at
    `working_directory`. `cluster_by` and `slice_by` name an attribute of rows: `label`, `prompt`, or a key of the metadata in
    `dataset_file`. `prices` is by model."""

    working_directory: Path
    baseline: str
    candidates: tuple[str, ...]
    output: Path | None = None
    confidence: float = CONFIDENCE
    cluster_by: str | None = None
    slice_by: str | None = None
    dataset_file: Path | None = None
    prices: Mapping[str, Price] = {}
    force: bool = False


def compare(request: ComparisonRequest) -> tuple[Comparison, ...]:
    """Each candidate against the baseline, in order. Raises OsmosisError when they cannot be compared."""
    baseline = _run(request, request.baseline)
    candidates = [_run(request, run) for run in request.candidates]
    attributes = _Attributes.of(request, baseline)
    return adjust(
        [
            compare_runs(
                baseline,
                candidate,
                attributes.pair(request, baseline, candidate),
                confidence=request.confidence,
                slice_by=request.slice_by,
                cluster_by=request.cluster_by,
            )
            for candidate in candidates
        ]
    )


def judge_gate(request: ComparisonRequest, measure: Measure, max_drop: float) -> GateReport:
    """The verdict on the only candidate. Raises OsmosisError when it cannot be compared with the baseline."""
    baseline, candidate = (_run(request, run) for run in (request.baseline, *request.candidates))
    attributes = _Attributes.of(request, baseline)
    readings = [("as measured", attributes.pair(request, baseline, candidate))]
    failures = infrastructure_failures(baseline) + infrastructure_failures(candidate)
    if failures and measure is Measure.PASS_RATE:
        pairs = attributes.pair(request, baseline, candidate, without_infrastructure_errors=True)
        readings.append((f"without the {failures} infrastructure errors", pairs))
    return judge(baseline, candidate, readings, measure=measure, max_drop=max_drop, confidence=request.confidence)


def _run(request: ComparisonRequest, run: str) -> StoredRun:
    return read_run(locate_run(run, request.working_directory, request.output))


class _Attributes(msgspec.Struct, frozen=True):
    """What the baseline's source rows are clustered and sliced by."""

    clusters: dict[int, str | None] | None
    slices: dict[int, str | None] | None

    @classmethod
    def of(cls, request: ComparisonRequest, baseline: StoredRun) -> _Attributes:
        """The attributes that `request` names."""
        dataset: dict[int, Row] | None = None
        if request.dataset_file is not None:
            loaded = load_dataset_of(baseline, request.working_directory / request.dataset_file)
            dataset = {row.source_row_index: row for row in loaded.rows}
        values = [
            None if name is None else row_attribute(baseline, name, dataset) for name in (request.cluster_by, request.slice_by)
        ]
        return cls(*values)

    def pair(
        self,
        request: ComparisonRequest,
        baseline: StoredRun,
        candidate: StoredRun,
        *,
        without_infrastructure_errors: bool = False,
    ) -> Pairs:
        """The pairs of two runs, with these attributes."""
        return pair(
            baseline,
            candidate,
            force=request.force,
            prices=request.prices,
            clusters=self.clusters,
            slices=self.slices,
            without_infrastructure_errors=without_infrastructure_errors,
        )
