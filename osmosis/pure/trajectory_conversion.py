"""From a rollout's chat messages to its trajectory document.

Decides how each role, tool call, tool result and usage report of a chat conversation stands in ATIF (contract: rollout_protocol
section 9). Messages come from user code and from every kind of framework, so nothing here refuses: what has no place of its own
is kept in an `extra`, and what JSON cannot say is dropped by the rule that serves the wire too (`json_safe`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from osmosis.pure.canonical import decode_json
from osmosis.pure.json_safe import json_safe
from osmosis.pure.trajectory import (
    Agent,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Source,
    Step,
    ToolCall,
    Trajectory,
    normalised_time,
)

AGENT_NAME: Final = "osmosis-rollout-sdk"

_SOURCES: Mapping[str, Source] = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}
_TOOL_ROLES = frozenset({"tool", "function"})


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A finished rollout as its trajectory tells it. `request_*` is what the runner sent along."""

    rollout_id: str
    messages: Sequence[Mapping[str, Any]]
    label: str | None = None
    reward: float | None = None
    metrics: dict[str, Any] = {}
    extra_fields: dict[str, Any] = {}
    request_label: str | None = None
    request_metadata: dict[str, Any] | None = None
    request_extra_fields: dict[str, Any] | None = None


class SampleReport(msgspec.Struct, frozen=True):
    """What a controller measured of one sample: the model's name, metrics of each call in order, totals."""

    model_name: str | None = None
    llm_call_metrics: list[dict[str, Any]] = []
    final_metrics: dict[str, Any] | None = None


class TrajectoryReport(msgspec.Struct, frozen=True):
    """What a controller measured of a rollout. Unknown keys are ignored when it is read."""

    model_name: str | None = None
    samples: dict[str, SampleReport] = {}


def convert_conversation(conversation: Conversation, *, sdk_version: str, report: TrajectoryReport | None = None) -> Trajectory:
    """The document of a finished rollout.

    A report's calls are laid over the agent steps if their numbers match, else kept under `extra.osmosis`. An empty
    conversation becomes one empty system step, since a document needs one.
    """
    steps = _steps(conversation.messages)
    sample_report = _pick(report, conversation.rollout_id)
    calls = sample_report.llm_call_metrics if sample_report else []
    overlaid = _overlay(steps, calls)
    unmatched = calls if overlaid is None else []
    steps = steps if overlaid is None else overlaid
    model_name = (sample_report.model_name if sample_report else None) or (report.model_name if report else None)
    return Trajectory(
        session_id=conversation.rollout_id,
        trajectory_id=conversation.rollout_id,
        agent=Agent(name=AGENT_NAME, version=sdk_version, model_name=model_name),
        steps=steps,
        final_metrics=_final_metrics(sample_report.final_metrics if sample_report else None, len(steps)),
        extra={"osmosis": _provenance(conversation, unmatched, report if sample_report is None else None)},
    )


def read_report(document: object) -> TrajectoryReport | None:
    """A report from decoded JSON; None if it is malformed."""
    try:
        return msgspec.convert(document, TrajectoryReport)
    except (msgspec.ValidationError, RecursionError):
        return None


def _provenance(
    conversation: Conversation, unmatched: list[dict[str, Any]], unmatched_report: TrajectoryReport | None
) -> dict[str, Any]:
    samples = unmatched_report.samples if unmatched_report else {}
    entries: dict[str, Any] = {
        "rollout_id": conversation.rollout_id,
        "label": conversation.request_label if conversation.label is None else conversation.label,
        "reward": conversation.reward,
        "sample_metrics": _free(conversation.metrics) or None,
        "sample_extra_fields": _free(conversation.extra_fields) or None,
        "request_metadata": _free(conversation.request_metadata),
        "request_extra_fields": _free(conversation.request_extra_fields),
        "unmatched_llm_call_metrics": [_free(call) for call in unmatched] or None,
        "unmatched_sample_reports": {key: _free(msgspec.to_builtins(value)) for key, value in samples.items()} or None,
    }
    return _free({key: value for key, value in entries.items() if value is not None}) or {}


# ---- steps --------------------------------------------------------------------------------------------------------------


def _steps(messages: Sequence[Mapping[str, Any]]) -> list[Step]:
    steps: list[Step] = []
    for message in messages:
        if _role(message) in _TOOL_ROLES:
            _add_tool_result(steps, message)
        else:
            steps.append(_step(len(steps) + 1, message))
    return steps or [Step(step_id=1, source="system", message="")]


def _role(message: Mapping[str, Any]) -> str:
    return str(message.get("role"))


def _step(step_id: int, message: Mapping[str, Any]) -> Step:
    role = _role(message)
    source = _SOURCES.get(role, "user")
    extra: dict[str, Any] = {} if role in _SOURCES else {"original_role": message.get("role")}
    reasoning = message.get("reasoning_content")
    calls = _sequence(message.get("tool_calls"))
    if source != "agent":
        extra |= {"reasoning_content": reasoning} if reasoning is not None else {}
        extra |= {"tool_calls": calls} if calls else {}
        return Step(
            step_id=step_id, timestamp=_timestamp(message), source=source, message=_content(message), extra=_free(extra) or None
        )
    usage = _nested(message, "usage") or _nested(message, "extra", "response", "usage")
    metrics = _metrics(usage) if isinstance(usage, Mapping) else None
    return Step(
        step_id=step_id,
        timestamp=_timestamp(message),
        source=source,
        model_name=_model_name(message),
        message=_content(message),
        reasoning_content=None if reasoning is None else _words(reasoning),
        tool_calls=[_tool_call(index, call) for index, call in enumerate(calls)] or None,
        metrics=metrics,
        llm_call_count=None if metrics is None else 1,
    )


def _add_tool_result(steps: list[Step], message: Mapping[str, Any]) -> None:
    """Hang a tool's answer on the agent step just before it, or on a step of its own if there is none."""
    if not steps or steps[-1].source != "agent":
        steps.append(
            Step(
                step_id=len(steps) + 1,
                timestamp=_timestamp(message),
                source="system",
                message="",
                extra=_free({"original_role": message.get("role")}),
            )
        )
    step = steps[-1]
    call_id = message.get("tool_call_id")
    known = isinstance(call_id, str) and any(call.tool_call_id == call_id for call in step.tool_calls or ())
    result = ObservationResult(
        source_call_id=call_id if known else None,
        content=_content(message),
        extra=None if known or call_id is None else _free({"tool_call_id": call_id}),
    )
    earlier = step.observation.results if step.observation else []
    steps[-1] = msgspec.structs.replace(step, observation=Observation(results=[*earlier, result]))


def _tool_call(index: int, call: object) -> ToolCall:
    function = _nested(call, "function")
    call_id, name = _nested(call, "id"), _nested(function, "name")
    return ToolCall(
        tool_call_id=call_id if isinstance(call_id, str) and call_id else f"call_{index}",
        function_name=name if isinstance(name, str) and name else "unknown",
        arguments=_arguments(_nested(function, "arguments")),
    )


def _arguments(arguments: object) -> dict[str, Any]:
    if arguments is None or arguments == "":
        return {}
    parsed = arguments
    if isinstance(arguments, str):
        try:
            parsed = decode_json(arguments)
        except ValueError:
            parsed = None
    return (_free(parsed) or {}) if isinstance(parsed, Mapping) else (_free({"_raw": arguments}) or {})


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None:
        return ""
    texts = [_nested(part, "text") for part in _sequence(content) if _nested(part, "type") == "text"]
    if texts and len(texts) == len(_sequence(content)) and all(isinstance(text, str) for text in texts):
        return "\n".join(texts)
    return _words(content)


def _words(value: object) -> str:
    """Text as it is, anything else as JSON text."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _model_name(message: Mapping[str, Any]) -> str | None:
    names = (message.get("model"), message.get("model_name"), _nested(message, "extra", "response", "model"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _timestamp(message: Mapping[str, Any]) -> str | None:
    stamps = (
        message.get("created_at"),
        message.get("timestamp"),
        message.get("completed_at"),
        _nested(message, "extra", "timestamp"),
    )
    return next((time for stamp in stamps if (time := _time(stamp)) is not None), None)


def _time(stamp: object) -> str | None:
    if isinstance(stamp, str):
        return normalised_time(stamp)
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        try:
            return datetime.fromtimestamp(stamp, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return None
    return None


# ---- metrics ------------------------------------------------------------------------------------------------------------


def _metrics(usage: Mapping[str, Any]) -> Metrics | None:
    details = {key: value for key, value in usage.items() if str(key).endswith("_details") and isinstance(value, Mapping)}
    metrics = Metrics(
        prompt_tokens=_first(_count, usage, "prompt_tokens", "input_tokens"),
        completion_tokens=_first(_count, usage, "completion_tokens", "output_tokens"),
        cached_tokens=next(
            (
                count
                for source in (usage, usage.get("prompt_tokens_details"), usage.get("input_tokens_details"))
                if (count := _count(_nested(source, "cached_tokens"))) is not None
            ),
            None,
        ),
        cost_usd=_cost(usage.get("cost_usd")),
        extra=_free(details) or None,
    )
    return None if metrics == Metrics() else metrics


def _overlay(steps: list[Step], calls: list[dict[str, Any]]) -> list[Step] | None:
    """`steps` with a reported call on each agent step, or None if the numbers do not match."""
    if not calls:
        return steps
    if len(calls) != sum(step.source == "agent" for step in steps):
        return None
    reported = iter(calls)
    return [_with_call(step, next(reported)) if step.source == "agent" else step for step in steps]


def _with_call(step: Step, call: dict[str, Any]) -> Step:
    metrics = _metrics(call)
    return step if metrics is None else msgspec.structs.replace(step, metrics=metrics, llm_call_count=1)


def _pick(report: TrajectoryReport | None, rollout_id: str) -> SampleReport | None:
    """The report of this rollout's sample: the only one, whatever its key, or the one under the rollout's id."""
    if report is None:
        return None
    if len(report.samples) == 1:
        return next(iter(report.samples.values()))
    return report.samples.get(rollout_id)


def _final_metrics(reported: dict[str, Any] | None, steps: int) -> FinalMetrics:
    values = reported or {}
    return FinalMetrics(
        total_prompt_tokens=_count(values.get("total_prompt_tokens")),
        total_completion_tokens=_count(values.get("total_completion_tokens")),
        total_cached_tokens=_count(values.get("total_cached_tokens")),
        total_cost_usd=_cost(values.get("total_cost_usd")),
        total_steps=steps,
    )


# ---- loose values -------------------------------------------------------------------------------------------------------


def _nested(value: object, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _free(value: Mapping[Any, Any] | None) -> dict[str, Any] | None:
    return None if value is None else json_safe(dict(value))[0]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cost(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _first(read: Callable[[object], int | None], values: Mapping[str, Any], *names: str) -> int | None:
    candidates: Iterable[int | None] = (read(values.get(name)) for name in names)
    return next((value for value in candidates if value is not None), None)
