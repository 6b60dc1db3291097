"""`osmosis eval compare BASELINE CANDIDATE...`: flags in, the runs compared, their differences out (issue 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from osmosis.pure.errors import OsmosisError
from osmosis.pure.presentation import relative_path
from osmosis.pure.price import read_prices
from osmosis.shell.cli.comparison_options import (
    ClusterOption,
    ConfidenceOption,
    DatasetOption,
    ForceFlag,
    OutputOption,
)
from osmosis.shell.cli.modes import UsageError
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.surroundings import needs_extra, working_directory

SliceOption = Annotated[str | None, Parameter(help="Attribute to compare slices by: label, prompt, or a metadata key.")]
PriceOption = Annotated[
    tuple[str, ...], Parameter(help="US dollars for a million tokens: MODEL=PROMPT,COMPLETION; once a model.")
]
HtmlOption = Annotated[Path | None, Parameter(help="Write the comparison as a page to this file.")]


def eval_compare(
    baseline: Annotated[str, Parameter(help="Name of a run, or path of a run directory.")],
    /,
    *candidates: Annotated[str, Parameter(help="One or more runs to compare with it.")],
    slice_by: SliceOption = None,
    cluster_by: ClusterOption = None,
    dataset_file: DatasetOption = None,
    price: PriceOption = (),
    confidence: ConfidenceOption = 0.95,
    force: ForceFlag = False,
    html: HtmlOption = None,
    output: OutputOption = None,
) -> OperationResult:
    """Compare runs on the same rows. The help text stands in `app`, where it needs no import of this module."""
    if not candidates:
        raise UsageError("Missing argument CANDIDATE.", hint="osmosis eval compare BASELINE CANDIDATE [CANDIDATE...]")
    directory = working_directory()
    with needs_extra("eval compare"):
        from osmosis.pure.comparison_page import comparison_page  # noqa: PLC0415 - brings polars
        from osmosis.shell.cli.comparison_result import comparison_result  # noqa: PLC0415
        from osmosis.shell.evaluation.run_comparison import ComparisonRequest, compare  # noqa: PLC0415
    request = ComparisonRequest(
        working_directory=directory,
        baseline=baseline,
        candidates=candidates,
        output=output,
        confidence=confidence,
        cluster_by=cluster_by,
        slice_by=slice_by,
        dataset_file=dataset_file,
        prices=read_prices(price),
        force=force,
    )
    comparisons = compare(request)
    page = None if html is None else _write_page(directory / html.expanduser(), comparison_page(comparisons))
    return comparison_result(comparisons, None if page is None else relative_path(str(page), str(directory)))


def _write_page(path: Path, page: bytes) -> Path:
    try:
        path.write_bytes(page)
    except OSError as error:
        raise OsmosisError(
            f"{path} cannot be written: {error.strerror or error}.", hint="Name another file with --html."
        ) from None
    return path
