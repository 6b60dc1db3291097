"""`osmosis eval regrade RUN`: a new grader over the samples that a run stored (issue 8)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from osmosis.pure.presentation import percent, relative_path, thousands
from osmosis.pure.report import NextStep
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult, Table
from osmosis.shell.cli.run_options import OutputOption, RunArgument
from osmosis.shell.cli.surroundings import needs_extra, working_directory

if TYPE_CHECKING:
    from osmosis.pure.regrading import Regraded

DatasetOption = Annotated[Path, Parameter(help="The run's dataset: graders get labels and metadata from it.")]
NameOption = Annotated[str, Parameter(help="Name of the new run.")]
ConfigOption = Annotated[Path | None, Parameter(help="Eval config of the new grader's rollout [the run's own].")]
SecretsOption = Annotated[str | None, Parameter(help="File of NAME=value lines for secrets; - reads standard input.")]


def eval_regrade(
    run: RunArgument,
    /,
    *,
    dataset_file: DatasetOption,
    name: NameOption,
    config: ConfigOption = None,
    secrets_file: SecretsOption = None,
    output: OutputOption = None,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Grade stored samples anew. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    with needs_extra("eval regrade"):
        from osmosis.shell.evaluation.regrade import RegradeRequest, regrade  # noqa: PLC0415 - brings polars and HTTP
    request = RegradeRequest(directory, run, dataset_file, name, config, secrets_file, output)
    return regrade_result(regrade(request, terminal.milestone), str(directory), output)


def regrade_result(regraded: Regraded, directory: str, output: Path | None = None) -> OperationResult:
    """What was graded, and how the verdicts changed."""
    rates = [percent(passed, regraded.items) for passed in (regraded.passed_before, regraded.passed)]
    facts = (
        ("Run", regraded.run_name),
        ("Parent", regraded.parent),
        ("Graded", f"{thousands(regraded.graded)} of {thousands(regraded.items)} items"),
        (
            "Carried Over",
            f"{thousands(regraded.carried_over)} failed before they had a sample" if regraded.carried_over else "",
        ),
        ("No Stored Sample", thousands(regraded.without_sample) if regraded.without_sample else ""),
        ("Passed", f"{rates[0]} before, {rates[1]} now"),
        ("Output", relative_path(regraded.path, directory)),
    )
    place = () if output is None else ("--output", str(output))
    compare = ("osmosis", "eval", "compare", regraded.parent, regraded.run_name, *place)
    return OperationResult(
        operation="eval.regrade",
        status="success",
        resource=regraded,
        message=f"Graded {thousands(regraded.graded)} stored samples of {regraded.parent} as {regraded.run_name}.",
        blocks=(Table("Regrade", tuple((label, value) for label, value in facts if value)),),
        next_steps=(NextStep("compare", "Compare", compare),),
    )
