"""The files by which a server and a workflow inside a sandbox speak (contract: rollout_protocol section 14).

The server puts `container_input.json` into the sandbox, the workflow leaves `container_result.json`, the grader leaves
`reward.json` for Harbor. Beside it our grader leaves `grade.json`, which holds what one number cannot: a sample that was taken
out, metrics that the grader added, why grading failed. What comes out of a sandbox is hostile until it was decoded here.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import msgspec

from osmosis.pure.canonical import canonical_json, decode_json
from osmosis.pure.json_safe import json_safe
from osmosis.pure.protocol import ErrorCategory, encode

INPUT_NAME: Final = "container_input.json"
RESULT_NAME: Final = "container_result.json"
REWARD_NAME: Final = "reward.json"
GRADE_NAME: Final = "grade.json"
TRAJECTORY_NAME: Final = "trajectory.json"
GRADER_ARTIFACTS_NAME: Final = ".osmosis-artifacts"

SUCCESS: Final = "success"
FAILURE: Final = "failure"
REMOVED_KEY: Final = "removed"
"""In `reward.json`: 1 if the grader took the sample out, since Harbor wants a number where there is none."""


class ContainerInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow or grader in a sandbox is given. The workflow's copy has no label."""

    version: int = 1
    rollout_id: str
    prompt: list[dict[str, Any]] = []
    label: str | None = None
    metadata: dict[str, Any] | None = None
    chat_completions_url: str = ""
    api_key: str | None = None
    preview_path: str | None = None


class ContainerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow left. `output` and `sample` are JSON objects of the SDK's models, not yet validated as such."""

    status: str
    output: dict[str, Any] | None = None
    sample: dict[str, Any] | None = None
    err_message: str | None = None
    err_category: ErrorCategory | msgspec.UnsetType = msgspec.UNSET


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What a grader left beside the reward. `error` is set if it failed; then there is no reward."""

    reward: float | None = None
    remove_sample: bool = False
    metrics: dict[str, Any] = {}
    extra_fields: dict[str, Any] = {}
    error: str | None = None
    error_category: ErrorCategory | None = None


_R = TypeVar("_R", ContainerInput, ContainerResult, Grade)


def encode_container_file(record: ContainerInput | ContainerResult | Grade) -> bytes:
    """The bytes of one of the three files."""
    return encode(record)


def decode_container_input(data: bytes) -> ContainerInput:
    """Read `container_input.json`. Raises ValueError."""
    return _decode(data, ContainerInput)


def decode_container_result(data: bytes) -> ContainerResult:
    """Read `container_result.json`. Raises ValueError; also for a status that is neither success nor failure."""
    result = _decode(data, ContainerResult)
    if result.status not in (SUCCESS, FAILURE):
        raise ValueError(f"status {result.status[:40]!r} is neither {SUCCESS} nor {FAILURE}")
    return result


def decode_grade(data: bytes) -> Grade:
    """Read `grade.json`. Raises ValueError."""
    return _decode(data, Grade)


def _decode(data: bytes, kind: type[_R]) -> _R:
    try:
        return msgspec.convert(decode_json(data), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error) or "nested too deeply") from None


def encode_reward(reward: float | None) -> bytes:
    """`reward.json`. None stands for a sample that was taken out. Raises ValueError for a reward that is not finite."""
    return canonical_json({"reward": 0.0, REMOVED_KEY: 1} if reward is None else {"reward": reward})


def finite_metrics(metrics: dict[str, Any]) -> dict[str, float]:
    """The metrics that are finite numbers: what an `AgentWorkflowOutput` may hold."""
    plain, _ = json_safe(metrics)
    return {
        name: float(value)
        for name, value in plain.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
