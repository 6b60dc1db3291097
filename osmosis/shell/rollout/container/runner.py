"""Runs a workflow or a grader inside a sandbox and leaves files for the server (contract: rollout_protocol section 14; E1).

A bundle's generated module calls `agent_main` and `grader_main`. Whatever user code does, the workflow's process ends with
exit code 0 and a result file that says how it went. A grader that fails leaves no reward and says why in `grade.json`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from osmosis.pure.container_files import (
    FAILURE,
    GRADE_NAME,
    GRADER_ARTIFACTS_NAME,
    INPUT_NAME,
    RESULT_NAME,
    REWARD_NAME,
    SUCCESS,
    TRAJECTORY_NAME,
    ContainerInput,
    ContainerResult,
    Grade,
    decode_container_input,
    decode_container_result,
    encode_container_file,
    encode_reward,
    finite_metrics,
)
from osmosis.pure.json_safe import json_safe
from osmosis.pure.trajectory import decode_trajectory, encode_trajectory
from osmosis.pure.trajectory_messages import messages_of
from osmosis.shell.rollout.agent_workflow import AgentWorkflow
from osmosis.shell.rollout.context import AgentWorkflowContext, GraderContext, RolloutContext
from osmosis.shell.rollout.failure import error_category, error_text
from osmosis.shell.rollout.grader import Grader
from osmosis.shell.rollout.trajectory import convert_sample_to_trajectory
from osmosis.shell.rollout.tree_copy import copy_tree, read_regular, stamps
from osmosis.shell.rollout.types.config import AgentWorkflowConfig, GraderConfig
from osmosis.shell.rollout.types.output import AgentWorkflowOutput, coerce_output
from osmosis.shell.rollout.types.sample import RolloutSample

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class ContainerPaths:
    """Where Harbor puts things in a sandbox, below `root`."""

    root: Path = Path("/")

    @property
    def agent(self) -> Path:
        """What the agent leaves."""
        return self.root / "logs" / "agent"

    @property
    def verifier(self) -> Path:
        """What the grader leaves."""
        return self.root / "logs" / "verifier"

    @property
    def artifacts(self) -> Path:
        """Files to keep."""
        return self.root / "logs" / "artifacts"

    @property
    def tests(self) -> Path:
        """What the grader is given; not there while the agent runs."""
        return self.root / "tests"


CONTAINER: Final = ContainerPaths()


def agent_main(
    workflow_cls: type[AgentWorkflow[Any]], config: AgentWorkflowConfig | None = None, *, paths: ContainerPaths = CONTAINER
) -> None:
    """Run the workflow and write `container_result.json`, and `trajectory.json` if there is a conversation. Never raises."""
    sample = None
    try:
        given = decode_container_input((paths.agent / INPUT_NAME).read_bytes())
        result, sample = asyncio.run(_run_workflow(workflow_cls, config, given, paths))
    except (Exception, SystemExit) as error:
        logger.exception("The workflow failed")
        result = ContainerResult(status=FAILURE, err_message=error_text(error), err_category=error_category(error))
    _write(paths.agent / RESULT_NAME, encode_container_file(result))
    if sample is not None:
        _write_trajectory(paths, given.rollout_id, sample)


async def _run_workflow(
    workflow_cls: type[AgentWorkflow[Any]], config: AgentWorkflowConfig | None, given: ContainerInput, paths: ContainerPaths
) -> tuple[ContainerResult, RolloutSample | None]:
    with _context(given) as context:
        workflow = workflow_cls(config)
        returned = await workflow.run(
            AgentWorkflowContext(
                prompt=given.prompt, config=config, metadata=given.metadata, artifacts_dir=_artifacts_dir(paths)
            )
        )
        output = coerce_output(returned)
        if output is not None and output.messages is not None:
            sample = RolloutSample(messages=output.messages, metrics=dict(output.metrics))
            return ContainerResult(status=SUCCESS, output=_plain(output.model_dump())), sample
        ambient = await context.get_sample()
        if ambient is None:
            return ContainerResult(status=SUCCESS, output=None if output is None else _plain(output.model_dump())), None
        if output is not None:
            ambient.metrics = {**ambient.metrics, **output.metrics}
    plain = _plain(ambient.model_dump())
    projection = AgentWorkflowOutput(messages=plain.get("messages"), metrics=finite_metrics(ambient.metrics))
    return ContainerResult(status=SUCCESS, output=projection.model_dump(), sample=plain), ambient


def _context(given: ContainerInput) -> RolloutContext:
    return RolloutContext(
        chat_completions_url=given.chat_completions_url,
        api_key=given.api_key,
        rollout_id=given.rollout_id,
        preview_path=None if given.preview_path is None else Path(given.preview_path),
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    plain, dropped = json_safe(values)
    if dropped:
        logger.warning("Values that JSON cannot hold were left out of the result: %s", ", ".join(sorted(dropped)))
    return plain


def _artifacts_dir(paths: ContainerPaths) -> Path | None:
    try:
        paths.artifacts.mkdir(parents=True, exist_ok=True)
    except OSError:
        logger.warning("There is no directory for artifacts", exc_info=True)
        return None
    return paths.artifacts


def _write_trajectory(paths: ContainerPaths, rollout_id: str, sample: RolloutSample) -> None:
    try:
        trajectory = convert_sample_to_trajectory(sample.json_safe_copy(), rollout_id=rollout_id)
        if trajectory is not None:
            _write(paths.agent / TRAJECTORY_NAME, encode_trajectory(trajectory))
    except Exception:
        # Best effort: the sample itself is in the result.
        logger.exception("The trajectory was not written")


# --- Grading -----------------------------------------------------------------------------------------------------------------


def grader_main(grader_cls: type[Grader], config: GraderConfig | None = None, *, paths: ContainerPaths = CONTAINER) -> None:
    """Grade what the agent left and write `reward.json` and `grade.json`.

    Without anything to grade the reward is 0. Raises what the grader raised, and RuntimeError if it set no reward and did not
    take the sample out either; `grade.json` says so too, and there is no reward then.
    """
    try:
        grade = asyncio.run(_grade(grader_cls, config, paths))
        reward = encode_reward(None if grade.remove_sample else grade.reward)
    except Exception as error:
        failed = Grade(error=error_text(error), error_category=error_category(error))
        _write(paths.verifier / GRADE_NAME, encode_container_file(failed))
        raise
    _write(paths.verifier / GRADE_NAME, encode_container_file(grade))
    _write(paths.verifier / REWARD_NAME, reward)


async def _grade(grader_cls: type[Grader], config: GraderConfig | None, paths: ContainerPaths) -> Grade:
    given = _grader_input(paths)
    sample = _graded_sample(paths)
    if sample is None:
        logger.warning("There is nothing to grade: the agent left neither a result nor a trajectory")
        return Grade(reward=0.0)
    if sample.label is None:
        sample.label = given.label
    before = stamps(paths.artifacts)
    grading = GraderContext(
        label=given.label, sample=sample, metadata=given.metadata, artifacts_dir=_artifacts_dir(paths), project_path=None
    )
    with _context(given):
        await grader_cls(config).grade(grading)
    copy_tree(paths.artifacts, paths.verifier / GRADER_ARTIFACTS_NAME, baseline=before)
    graded = grading.sample
    if graded is None or (graded.reward is None and not graded.remove_sample):
        raise RuntimeError("Sample has no reward after grading")
    safe = graded.json_safe_copy()
    return Grade(
        reward=safe.reward,
        remove_sample=safe.remove_sample,
        metrics=_plain(safe.metrics),
        extra_fields=_plain(safe.extra_fields),
    )


def _grader_input(paths: ContainerPaths) -> ContainerInput:
    for directory in (paths.tests, paths.agent):
        data = read_regular(directory / INPUT_NAME, MAX_FILE_BYTES)
        if data is not None:
            return decode_container_input(data)
    raise FileNotFoundError(f"There is no {INPUT_NAME} in {paths.tests} or {paths.agent}")


def _graded_sample(paths: ContainerPaths) -> RolloutSample | None:
    data = read_regular(paths.agent / RESULT_NAME, MAX_FILE_BYTES)
    if data is not None:
        return sample_of(decode_container_result(data))
    for path in sorted(paths.agent.glob("*trajectory*.json")):
        document = read_regular(path, MAX_FILE_BYTES)
        if document is not None and (messages := messages_of(decode_trajectory(document, path.name))):
            return RolloutSample(messages=messages)
    return None


def sample_of(result: ContainerResult) -> RolloutSample | None:
    """The sample in a result: the whole one, else one made of the output; None if there is neither. Raises ValueError."""
    if result.sample is not None:
        return RolloutSample.model_validate(result.sample)
    if result.output is None:
        return None
    output = AgentWorkflowOutput.model_validate(result.output)
    return None if output.messages is None else RolloutSample(messages=output.messages, metrics=dict(output.metrics))


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def run_named(main: str) -> None:
    """Import `module:function` and call it: how a bundle is started without its console scripts. Logs go to standard error."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    module, _, function = main.partition(":")
    getattr(importlib.import_module(module), function)()
