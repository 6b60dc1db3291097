"""The input of `osmosis eval rubric`: JSON lines, one conversation or one candidate each (E41; contract `cli.md` section 8).

The judge sees the last message of the assistant that has text. `human_score` is ours: a person's score for the same candidate,
or a list of several people's, against which the judge is calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from osmosis.pure.canonical import lines, strip_byte_order_mark
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.nesting import decode_shallow


class RubricRecord(msgspec.Struct, frozen=True):
    """One record to judge. `index` counts records from 1; `label` is its id, or `record[N]`."""

    index: int
    label: str
    solution_str: str
    ground_truth: str | None = None
    original_input: str | None = None
    metadata: Mapping[str, Any] | None = None
    human_score: float | None = None


def read_records(data: bytes, file: str) -> tuple[RubricRecord, ...]:
    """The records of a file, whose name `file` stands in errors. Raises OsmosisError with every bad line."""
    records: list[RubricRecord] = []
    problems: list[Problem] = []
    for number, _, line in lines(strip_byte_order_mark(data)):
        if not line.strip():
            continue
        try:
            records.append(_record(line, len(records) + len(problems) + 1))
        except ValueError as error:
            problems.append(Problem(f"{file}:{number}", str(error)))
    if problems:
        raise OsmosisError(
            f"{file} cannot be judged.",
            problems=problems,
            hint='Each line is an object with "messages" (a conversation) or "solution_str" (a text).',
        )
    if not records:
        raise OsmosisError(f"{file} holds no records.", hint="Write one JSON object a line.")
    return tuple(records)


def _record(line: bytes, index: int) -> RubricRecord:
    fields = decode_shallow(line)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    metadata = fields.get("metadata")
    return RubricRecord(
        index=index,
        label=_label(fields, index),
        solution_str=_solution(fields),
        ground_truth=_text(fields.get("ground_truth")),
        original_input=_text(fields.get("original_input")),
        metadata=metadata if isinstance(metadata, dict) and metadata else None,
        human_score=_human_score(fields.get("human_score")),
    )


def _label(fields: Mapping[str, Any], index: int) -> str:
    names = (fields.get("id"), fields.get("conversation_id"))
    given = next((name for name in names if isinstance(name, str | int) and not isinstance(name, bool) and name != ""), None)
    return f"record[{index}]" if given is None else str(given)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _solution(fields: Mapping[str, Any]) -> str:
    messages = fields.get("messages")
    if messages is None or messages == []:
        solution = fields.get("solution_str")
        if not isinstance(solution, str) or not solution.strip():
            raise ValueError('needs non-empty "messages" or a non-blank "solution_str"')
        return solution
    if not isinstance(messages, list):
        raise ValueError('"messages" is not a list')
    text = last_assistant_text(messages)
    if text is None:
        raise ValueError('"messages" holds no assistant message with text')
    return text


def last_assistant_text(messages: object) -> str | None:
    """The text of the last assistant message that has any: a string, or the text parts of a list joined by newlines."""
    if not isinstance(messages, list | tuple):
        return None
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            text = content_text(message.get("content"))
            if text.strip():
                return text
    return None


def content_text(content: object) -> str:
    """The text of a message's content; empty when it has none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, Mapping) and part.get("type", "text") == "text")
    return "\n".join(part for part in parts if isinstance(part, str))


def _human_score(value: object) -> float | None:
    if value is None:
        return None
    scores = value if isinstance(value, list) else [value]
    numbers = [float(score) for score in scores if isinstance(score, int | float) and not isinstance(score, bool)]
    if not scores or len(numbers) != len(scores) or not all(map(math.isfinite, numbers)):
        raise ValueError('"human_score" must be a number or a list of numbers')
    return math.fsum(numbers) / len(numbers)
