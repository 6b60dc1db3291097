"""`osmosis rollout init NAME`: a new rollout that works as it is (requirement E21; contract: rollout_protocol section 18)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from osmosis.pure.presentation import relative_path
from osmosis.pure.report import NextStep
from osmosis.pure.scaffold import ScaffoldReport
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult, Section
from osmosis.shell.cli.surroundings import working_directory
from osmosis.shell.evaluation.workspace import find_workspace
from osmosis.shell.scaffold import write_rollout

ForceFlag = Annotated[bool, Parameter(help="Replace the rollout's directory, configs and dataset if they exist.")]


class ConfigPaths(msgspec.Struct, frozen=True):
    """Where the configs are."""

    eval: str
    training: str


class ScaffoldResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    name: str
    workspace_directory: str
    rollout_dir: str
    configs: ConfigPaths
    dataset: str
    files: tuple[str, ...]
    replaced: tuple[str, ...]


def rollout_init(
    name: Annotated[str, Parameter(help="Name of the new rollout: lower-case letters, digits, hyphens.")],
    /,
    *,
    force: ForceFlag = False,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Write a new rollout. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    report = write_rollout(find_workspace(directory), name, force=force, force_hint=f"osmosis rollout init {name} --force")
    return scaffold_result(report, str(directory))


def scaffold_result(report: ScaffoldReport, base: str) -> OperationResult:
    """`report` as a result; paths for people are relative to `base`."""
    config, dataset = (relative_path(path, base) for path in (report.configs["eval"], report.dataset))
    return OperationResult(
        operation="rollout.init",
        status="success",
        resource=ScaffoldResource(
            name=report.name,
            workspace_directory=report.workspace_directory,
            rollout_dir=report.rollout_directory,
            configs=ConfigPaths(**report.configs),
            dataset=report.dataset,
            files=report.files,
            replaced=report.replaced,
        ),
        message=f"The rollout {report.name} is ready.",
        blocks=(Section("Files", tuple(relative_path(path, base) for path in report.files)),),
        next_steps=(
            NextStep("validate", "Validate", ("osmosis", "rollout", "validate", report.name)),
            NextStep("run", "Evaluate", ("osmosis", "eval", "run", config, f"--dataset-file={dataset}")),
        ),
    )
