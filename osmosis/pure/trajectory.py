"""Trajectory documents: the Agent Trajectory Interchange Format, ATIF v1.7, written, read and checked.

Decides what a valid document is, its bytes, and what an evaluation takes from one: whose rollout it is and how many tokens it
reports (contract: rollout_protocol section 9; eval_local 1.3 and 7; requirements E16, E18). Two readers exist.
`decode_trajectory` is strict and names every broken rule. `trajectory_facts` is forgiving, because documents of other writers
count as long as they say which rollout they belong to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from osmosis.pure.canonical import decode_json, well_formed
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.usage import TrajectoryUsage, trajectory_usage

SCHEMA_VERSION: Final = "ATIF-v1.7"
_SCHEMA_VERSIONS = frozenset(f"ATIF-v1.{minor}" for minor in range(8))

Source = Literal["system", "user", "agent"]


class _Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Part of a document: unknown fields are refused, absent ones are None and left out."""


class ImageSource(_Document, frozen=True, kw_only=True):
    """Where an image of a message lies; `path` is relative to the trajectory."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class TextPart(_Document, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A text part of a message."""

    text: str


class ImagePart(_Document, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image part of a message."""

    source: ImageSource


Content = str | list[TextPart | ImagePart]


class Agent(_Document, frozen=True, kw_only=True):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class ToolCall(_Document, frozen=True, kw_only=True):
    """A call that the agent asked for."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class SubagentTrajectoryRef(_Document, frozen=True, kw_only=True):
    """A trajectory inside this document (`trajectory_id`) or beside it (`trajectory_path`)."""

    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: dict[str, Any] | None = None


class ObservationResult(_Document, frozen=True, kw_only=True):
    """What came back; `source_call_id` names a tool call of the same step."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: dict[str, Any] | None = None


class Observation(_Document, frozen=True, kw_only=True):
    """Everything that came back after a step."""

    results: list[ObservationResult]


class Metrics(_Document, frozen=True, kw_only=True):
    """Cost of the model calls of one step: tokens and US dollars."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class Step(_Document, frozen=True, kw_only=True):
    """One message of the conversation. `step_id` counts from 1 without gaps."""

    step_id: int
    timestamp: str | None = None
    source: Source
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(_Document, frozen=True, kw_only=True):
    """Totals over the document: tokens, US dollars, steps."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: dict[str, Any] | None = None


class Trajectory(_Document, frozen=True, kw_only=True):
    """A whole document."""

    # A default made by a factory is always written; a plain one would be left out like any other default.
    schema_version: str = msgspec.field(default_factory=lambda: SCHEMA_VERSION)
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: list[Step]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list[Trajectory] | None = None


class TrajectoryFacts(msgspec.Struct, frozen=True):
    """What an evaluation takes from a trajectory file."""

    rollout_id: str
    usage: TrajectoryUsage


# ---- bytes --------------------------------------------------------------------------------------------------------------

_text = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """The bytes of `trajectory.json`: two spaces of indentation, ASCII, arrays of numbers on one line, no final newline.

    Raises ValueError for NaN and infinities in free-form fields, OsmosisError if the document breaks a rule of its format.
    """
    problems = trajectory_problems(trajectory)
    if problems:
        raise OsmosisError(
            "The trajectory breaks the rules of its format.", problems=problems, hint="Correct what made the trajectory."
        )
    text = _render_simple(trajectory)
    return (_render(msgspec.to_builtins(trajectory), "\n") if text is None else text).encode("ascii")


# msgspec renders ten times faster, but says four things differently: NaN (as null), exponents, characters beyond ASCII and
# arrays of numbers. The first two are left to `_render`, the others are put right in its text, where a line break can stand
# between values only and a character beyond ASCII in strings only.
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_NUMBER_ARRAY = re.compile(rf"\[\n +({_NUMBER}(?:,\n +{_NUMBER})*)\n +\]")
_EXPONENT = re.compile(rf"(?:\n +|: ){_NUMBER}[eE]")
_BEYOND_ASCII = re.compile("[^\x00-\x7e]")  # the same as a range up to U+10FFFF takes 4 ms to compile
_LINE_BREAK = re.compile(r"\n +")


def _render_simple(trajectory: Trajectory) -> str | None:
    """What `_render` makes of a document, or None if that needs `_render` itself."""
    try:
        data = msgspec.json.encode(trajectory)
    except (ValueError, TypeError, OverflowError, RecursionError):  # Lone surrogates, numbers beyond 64 bits, ...
        return None
    if b"null" in data:
        return None
    text = msgspec.json.format(data, indent=2).decode()
    if _EXPONENT.search(text):
        return None
    text = _NUMBER_ARRAY.sub(lambda match: "[" + _LINE_BREAK.sub(" ", match[1]) + "]", text)
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return _text(match[0])[1:-1]


def _render(value: Any, newline: str) -> str:
    """JSON text of `value`; `newline` is a line break plus the indentation of the enclosing level."""
    inner = newline + "  "
    if isinstance(value, dict) and value:
        items = (f"{_text(well_formed(str(key)))}: {_render(item, inner)}" for key, item in value.items())
        return "{" + inner + ("," + inner).join(items) + newline + "}"
    if isinstance(value, list) and value:
        if all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
            return _text(value)
        return "[" + inner + ("," + inner).join(_render(item, inner) for item in value) + newline + "]"
    return _text(well_formed(value) if isinstance(value, str) else value)


def decode_trajectory(data: bytes, label: str) -> Trajectory:
    """Read and check a document. Raises OsmosisError that names, under `label`, everything wrong with it."""
    try:
        value = decode_json(data)
    except ValueError as error:
        raise _invalid(label, [Problem(label, f"not JSON: {error}")]) from None
    try:
        trajectory = msgspec.convert(value, Trajectory)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _invalid(label, [Problem(label, str(error))]) from None
    problems = trajectory_problems(trajectory)
    if problems:
        raise _invalid(label, [Problem(f"{label}: {problem.where}", problem.message) for problem in problems])
    return trajectory


def _invalid(label: str, problems: list[Problem]) -> OsmosisError:
    return OsmosisError(
        f"{label} is not a valid {SCHEMA_VERSION} trajectory.",
        problems=problems,
        hint="Correct the file, or what wrote it. `osmosis eval verify RUN` tells whether a stored one was damaged.",
    )


# ---- rules --------------------------------------------------------------------------------------------------------------

_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_CALL_ONLY = ("metrics", "reasoning_content")


def trajectory_problems(trajectory: Trajectory, where: str = "$") -> list[Problem]:
    """Every rule that the document breaks, each with the place in it (`$.steps[2].tool_calls`)."""
    problems = list(_document_problems(trajectory, where))
    for index, step in enumerate(trajectory.steps):
        problems += _step_problems(step, index, f"{where}.steps[{index}]")
    for index, nested in enumerate(trajectory.subagent_trajectories or ()):
        problems += trajectory_problems(nested, f"{where}.subagent_trajectories[{index}]")
    return problems


def _document_problems(trajectory: Trajectory, where: str) -> Iterator[Problem]:
    if trajectory.schema_version not in _SCHEMA_VERSIONS:
        yield Problem(f"{where}.schema_version", f"must be ATIF-v1.0 to {SCHEMA_VERSION}, not {trajectory.schema_version!r}")
    if not trajectory.steps:
        yield Problem(f"{where}.steps", "must hold at least one step")
    seen: set[str] = set()
    for index, nested in enumerate(trajectory.subagent_trajectories or ()):
        place = f"{where}.subagent_trajectories[{index}].trajectory_id"
        if nested.trajectory_id is None:
            yield Problem(place, "is required inside a document")
        elif nested.trajectory_id in seen:
            yield Problem(place, f"{nested.trajectory_id!r} is used twice")
        else:
            seen.add(nested.trajectory_id)


def _step_problems(step: Step, index: int, where: str) -> Iterator[Problem]:
    if step.step_id != index + 1:
        yield Problem(f"{where}.step_id", f"must be {index + 1}, not {step.step_id}")
    if step.timestamp is not None and normalised_time(step.timestamp) is None:
        yield Problem(f"{where}.timestamp", f"{step.timestamp!r} is not an ISO 8601 time")
    if step.source != "agent":
        for name in _AGENT_ONLY:
            if getattr(step, name) is not None:
                yield Problem(f"{where}.{name}", f"is for agent steps only, not for source {step.source!r}")
    if step.llm_call_count is not None and step.llm_call_count < 0:
        yield Problem(f"{where}.llm_call_count", "must not be negative")
    if step.llm_call_count == 0:
        for name in _CALL_ONLY:
            if getattr(step, name) is not None:
                yield Problem(f"{where}.{name}", "must be absent when llm_call_count is 0")
    yield from _observation_problems(step, where)


def _observation_problems(step: Step, where: str) -> Iterator[Problem]:
    calls = {call.tool_call_id for call in step.tool_calls or ()}
    for index, result in enumerate(step.observation.results if step.observation else ()):
        place = f"{where}.observation.results[{index}]"
        if result.source_call_id is not None and result.source_call_id not in calls:
            yield Problem(f"{place}.source_call_id", f"{result.source_call_id!r} is not a tool call of this step")
        for number, reference in enumerate(result.subagent_trajectory_ref or ()):
            if reference.trajectory_id is None and reference.trajectory_path is None:
                yield Problem(f"{place}.subagent_trajectory_ref[{number}]", "needs trajectory_id or trajectory_path")


def normalised_time(text: str) -> str | None:
    """An ISO 8601 time in the one form that documents use (`2023-11-14T22:13:20+00:00`), or None if `text` is no time."""
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return None


# ---- what an evaluation takes from a document -----------------------------------------------------------------------------


def trajectory_facts(data: bytes) -> TrajectoryFacts | None:
    """Identity and usage of any JSON document that says which rollout it belongs to, else None (eval_local 1.3)."""
    try:
        document = decode_json(data)
    except ValueError:
        return None
    rollout_id = _identity(document)
    return None if rollout_id is None else TrajectoryFacts(rollout_id, _usage(document))


def _identity(document: Any) -> str | None:
    """`extra.osmosis.rollout_id`, else `session_id`, else `trajectory_id` up to its first `/` (if it has one)."""
    lookups: tuple[Callable[[], Any], ...] = (
        lambda: document["extra"]["osmosis"]["rollout_id"],
        lambda: document["session_id"],
        lambda: document["trajectory_id"][: document["trajectory_id"].index("/")],
    )
    for lookup in lookups:
        try:
            value = lookup()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            continue
        if isinstance(value, str) and value:
            return value
    return None


def _usage(document: Any) -> TrajectoryUsage:
    final = _field(document, "final_metrics")
    steps = _field(document, "steps")
    metrics = [
        _field(step, "metrics")
        for step in (steps if isinstance(steps, list) else ())
        if _field(step, "is_copied_context") is not True
    ]
    return trajectory_usage(
        _field(final, "total_prompt_tokens"),
        _field(final, "total_completion_tokens"),
        ((_field(item, "prompt_tokens"), _field(item, "completion_tokens")) for item in metrics),
    )


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
