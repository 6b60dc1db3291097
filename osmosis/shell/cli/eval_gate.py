"""`osmosis eval gate RUN --baseline B`: passed (0), failed (4) or inconclusive (5) (issue 8, ruling 12)."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter, validators

from osmosis.pure.errors import OsmosisError
from osmosis.shell.cli.comparison_options import ClusterOption, ConfidenceOption, DatasetOption, ForceFlag, OutputOption
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.surroundings import needs_extra, working_directory

BaselineOption = Annotated[str, Parameter(help="The run not to fall behind: a name, or path of a run directory.")]
MaxDropOption = Annotated[
    float,
    Parameter(
        validator=validators.Number(gte=0), help="How far it may fall behind: two points of a pass rate are 0.02 [0.02]."
    ),
]
MeasureOption = Annotated[Literal["pass_rate", "reward"], Parameter(help="What must not drop [pass_rate].")]


def eval_gate(
    run: Annotated[str, Parameter(help="Name of a run, or path of a run directory.")],
    /,
    *,
    baseline: BaselineOption,
    max_drop: MaxDropOption = 0.02,
    confidence: ConfidenceOption = 0.95,
    measure: MeasureOption = "pass_rate",
    cluster_by: ClusterOption = None,
    dataset_file: DatasetOption = None,
    force: ForceFlag = False,
    output: OutputOption = None,
) -> OperationResult:
    """Judge a run against a baseline. The help text stands in `app`, where it needs no import of this module."""
    if measure == "pass_rate" and max_drop > 1:  # points, where a share is meant: such a gate would never fail
        raise OsmosisError(
            f"--max-drop {max_drop:g} would allow every drop: a pass rate is a share, from 0 to 1.",
            hint="Two points are --max-drop 0.02.",
        )
    directory = working_directory()
    with needs_extra("eval gate"):
        from osmosis.pure.gate import Measure  # noqa: PLC0415 - brings polars
        from osmosis.shell.cli.comparison_result import gate_result  # noqa: PLC0415
        from osmosis.shell.evaluation.run_comparison import ComparisonRequest, judge_gate  # noqa: PLC0415
    request = ComparisonRequest(
        working_directory=directory,
        baseline=baseline,
        candidates=(run,),
        output=output,
        confidence=confidence,
        cluster_by=cluster_by,
        dataset_file=dataset_file,
        force=force,
    )
    return gate_result(judge_gate(request, Measure(measure), max_drop))
