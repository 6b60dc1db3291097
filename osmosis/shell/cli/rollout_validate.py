"""`osmosis rollout validate NAME`: does this rollout work (issue 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter, validators

from osmosis import __version__
from osmosis.pure.presentation import relative_path
from osmosis.pure.report import NextStep
from osmosis.pure.rollout_check import Check, CheckStatus, RolloutCheck
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.exit_codes import ExitCode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import Block, OperationResult, Quote, Table
from osmosis.shell.cli.surroundings import needs_extra, working_directory

EntrypointOption = Annotated[str, Parameter(help="File of the rollout that serves it [main.py].")]
DatasetOption = Annotated[Path | None, Parameter(help="Take the row from this dataset file instead of a small sum.")]
TimeoutOption = Annotated[float, Parameter(validator=validators.Number(gt=0), help="Seconds that the row may take [120].")]


class CheckResource(msgspec.Struct, frozen=True):
    """One check as programs get it."""

    name: str
    status: CheckStatus
    detail: str


class RolloutCheckResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    name: str
    workspace_directory: str
    rollout_dir: str
    entrypoint: str
    valid: bool
    checks: tuple[CheckResource, ...]
    sdk_version: str | None
    model_calls: int | None


def rollout_validate(
    name: Annotated[str, Parameter(help="Name of the rollout: a directory below rollouts/.")],
    /,
    *,
    entrypoint: EntrypointOption = "main.py",
    dataset_file: DatasetOption = None,
    timeout: TimeoutOption = 120.0,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Try a rollout out. The help text stands in `app`, where it needs no import of this module."""
    directory = working_directory()
    with needs_extra("rollout validate"):
        check = _validate(name, directory, entrypoint, dataset_file, timeout, terminal)
    if check.sdk_version not in (None, __version__):
        terminal.warning(
            "ROLLOUT_SDK_VERSION_MISMATCH",
            f"the rollout's environment has osmosis-ai {check.sdk_version}, this command is {__version__}",
        )
    usual = Path(check.workspace_directory) / "data" / f"{name}.jsonl"
    dataset = dataset_file or (usual if usual.is_file() else None)
    return check_result(check, str(directory), dataset)


def _validate(
    name: str, directory: Path, entrypoint: str, dataset_file: Path | None, timeout: float, terminal: Output
) -> RolloutCheck:
    from osmosis.shell.evaluation.rollout_validation import (  # noqa: PLC0415 - brings aiohttp
        ValidationRequest,
        validate_rollout,
    )

    return validate_rollout(ValidationRequest(name, directory, entrypoint, dataset_file, timeout), terminal.milestone)


def check_result(check: RolloutCheck, base: str, dataset: Path | None) -> OperationResult:
    """`check` as a result; paths for people are relative to `base`. `dataset` is what an evaluation may begin with."""
    failed = next((item for item in check.checks if item.status is CheckStatus.FAILED), None)
    run = ("osmosis", "eval", "run", relative_path(f"{check.workspace_directory}/configs/eval/{check.name}.toml", base))
    rows = () if dataset is None else (f"--dataset-file={relative_path(str(dataset), base)}",)
    return OperationResult(
        operation="rollout.validate",
        status="success" if failed is None else "failed",
        resource=RolloutCheckResource(
            name=check.name,
            workspace_directory=check.workspace_directory,
            rollout_dir=check.rollout_directory,
            entrypoint=check.entrypoint,
            valid=check.valid,
            checks=tuple(CheckResource(item.name, item.status, item.detail) for item in check.checks),
            sdk_version=check.sdk_version,
            model_calls=check.model_calls,
        ),
        message=f"The rollout {check.name} works." if failed is None else f"The rollout {check.name} failed at: {failed.name}.",
        exit_code=ExitCode.SUCCESS if failed is None else ExitCode.ERROR,
        blocks=_blocks(check, failed, base),
        next_steps=(NextStep("run", "Evaluate", (*run, *rows)),) if failed is None else (),
    )


def _blocks(check: RolloutCheck, failed: Check | None, base: str) -> tuple[Block, ...]:
    table = Table(
        "Rollout",
        (
            ("Rollout", relative_path(check.rollout_directory, base)),
            ("Entrypoint", check.entrypoint),
            *((f"Check: {item.name}", _short(item)) for item in check.checks),
        ),
    )
    return (table,) if failed is None else (table, Quote(failed.name.capitalize(), failed.detail))


def _short(item: Check) -> str:
    if item.status is CheckStatus.FAILED or not item.detail:
        return item.status.value
    return f"{item.status.value}: {item.detail}"
