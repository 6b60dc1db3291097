"""`osmosis rollout validate-loop -m MODULE:ATTRIBUTE`: can this agent loop be served? (contract `legacy_api.md` section 8)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from osmosis.pure.errors import OsmosisError, Problem
from osmosis.shell.cli.result import Block, OperationResult, Section, Table
from osmosis.shell.cli.surroundings import working_directory

if TYPE_CHECKING:
    from osmosis.shell.remote_rollout.agent_loop import RolloutAgentLoop
    from osmosis.shell.remote_rollout.loop_check import ValidationError

OPERATION = "rollout.validate-loop"

ModuleOption = Annotated[str, Parameter(name=("--module", "-m"), help="The agent loop: MODULE:ATTRIBUTE.")]


class Issue(msgspec.Struct, frozen=True):
    """One thing that was found."""

    code: str
    field: str | None
    message: str


class ValidateLoopResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    module: str
    agent_loop: str | None
    tool_count: int
    errors: tuple[Issue, ...]
    warnings: tuple[Issue, ...]


def rollout_validate_loop(*, module: ModuleOption) -> OperationResult:
    """Validate an agent loop. The help text stands in `app`."""
    return validate_loop_result(validated(load(module), module))


def validate_loop_result(resource: ValidateLoopResource) -> OperationResult:
    """A loop that can be served; one that cannot is an error (`validated`)."""
    rows = (("Agent Loop", resource.agent_loop or ""), ("Tools", str(resource.tool_count)))
    blocks: tuple[Block, ...] = (Table("Agent Loop", rows),)
    if resource.warnings:
        blocks += (Section("Warnings", tuple(map(issue_text, resource.warnings))),)
    return OperationResult(OPERATION, "success", resource, f"{resource.module} can be served.", blocks=blocks)


def validated(loop: RolloutAgentLoop, module: str) -> ValidateLoopResource:
    """What validation found. Raises OsmosisError with every error."""
    from osmosis.shell.remote_rollout.loop_check import validate_agent_loop  # noqa: PLC0415 - brings pydantic

    found = validate_agent_loop(loop)
    resource = ValidateLoopResource(
        module=module,
        agent_loop=found.agent_name,
        tool_count=found.tool_count,
        errors=tuple(map(_issue, found.errors)),
        warnings=tuple(map(_issue, found.warnings)),
    )
    if resource.errors:
        raise OsmosisError(
            f"{module} cannot be served.",
            problems=[
                Problem(issue.field or module, f"{issue.message} [{issue.code}]", issue.code) for issue in resource.errors
            ],
            hint="Correct the agent loop and validate it again.",
            details=msgspec.to_builtins(resource),
        )
    return resource


def load(module: str) -> RolloutAgentLoop:
    """The loop of the current directory that `module` names. Raises OsmosisError, also when the extra is not installed."""
    try:
        from osmosis.shell.remote_rollout.loading import load_agent_loop  # noqa: PLC0415 - brings pydantic
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    return load_agent_loop(module, working_directory())


def missing_extra(error: ModuleNotFoundError) -> Exception:
    """What to raise for a missing module: advice if the extra brings it, else the error itself."""
    from osmosis.shell.rollout.optional import MODULES_OF_EXTRA  # noqa: PLC0415 - only when something is missing

    if (error.name or "").partition(".")[0] not in MODULES_OF_EXTRA["remote-rollout"]:
        return error
    return OsmosisError(
        f"Remote rollouts need the package {error.name}, which is not installed.",
        hint="Install the extra that brings it: pip install 'osmosis-ai[remote-rollout]'",
        details={"missing": error.name, "extra": "remote-rollout"},
    )


def _issue(found: ValidationError) -> Issue:
    return Issue(found.code, found.field, found.message)


def issue_text(issue: Issue) -> str:
    """`[CODE] field: message`."""
    return f"[{issue.code}] {issue.field}: {issue.message}" if issue.field else f"[{issue.code}] {issue.message}"
