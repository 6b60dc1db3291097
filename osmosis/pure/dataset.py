"""Datasets: from raw records to rows (contract `eval_local.md` section 3; rulings 8 and 9).

A record is what a line of JSONL, a record of CSV or a row of Parquet holds: values by column name. A row is what an evaluation
uses of it. The columns `system_prompt`, `user_prompt`, `ground_truth` (alias `label`) and `metadata` count, others are ignored:

- Text: null and "" are absent; white space is kept; a value of another type is written as Python's `str` writes it.
- `metadata`: an object, or a string that holds a JSON object; null, blank strings and `{}` are absent.
- Whether a record has the key `metadata` at all decides what it must offer. Without it: a user prompt and a ground truth. With
  it: at least one message or some metadata.

Every record must parse, but only selected ones are held to this contract. All problems of a file are counted, and the first
few are shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from osmosis.pure.canonical import decode_json
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.nesting import DEPTH_LIMIT, is_shallow

SHOWN_PROBLEMS = 20

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Values = Mapping[str, Any]
"""The values of one record by column name."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of a dataset. None means absent; no text is ever "", and `metadata` is never an empty object.

    Text may hold lone surrogates, which JSON can spell and UTF-8 cannot; whoever writes it replaces them. `gc=False`: a row
    holds a tree, never a circle, and there may be millions.
    """

    source_row_index: int
    system_prompt: str | None = None
    user_prompt: str | None = None
    label: str | None = None
    metadata: dict[str, Any] | None = None

    def messages(self) -> list[dict[str, str]]:
        """The chat messages, fresh on each call: at most a system message, then at most a user message."""
        pairs = (("system", self.system_prompt), ("user", self.user_prompt))
        return [{"role": role, "content": content} for role, content in pairs if content is not None]


class RecordBatch(msgspec.Struct, frozen=True):
    """A run of consecutive records from one file.

    `count` records, of which `records` holds the values. A record that did not parse is None there and stands in `problems`. A
    reader that can skip rows which nobody selected may leave `records` empty. `lines` gives the line of each record, or is
    None where a format has no lines. `beyond_json` says that values may be of types that JSON does not have.

    `data` are the bytes that the records were read from, which stand at `offset` in the file; behind `header` they read as the
    same records again. Formats that are no text have neither.
    """

    count: int
    records: Sequence[Values | None]
    lines: Sequence[int] | None = None
    problems: tuple[Problem, ...] = ()
    beyond_json: bool = False
    offset: int = 0
    data: bytes = b""
    header: bytes = b""


def invalid_dataset(label: str, problems: Sequence[Problem], count: int) -> OsmosisError:
    """The error for a dataset with `count` problems, of which `problems` are shown."""
    more = [Problem("", f"... and {count - len(problems)} more")] if count > len(problems) else []
    return OsmosisError(
        f"{label} is not a valid dataset: {'1 problem' if count == 1 else f'{count} problems'}.",
        problems=[*problems, *more],
        hint="Correct the file and run the command again.",
        details={"problem_count": count},
    )


def missing_columns(columns: Iterable[str]) -> str | None:
    """What a file whose records all have these columns lacks, or None.

    With a `metadata` column nothing is missing: each row is then judged by itself.
    """
    present = set(columns)
    if "metadata" in present:
        return None
    missing = [] if "user_prompt" in present else ["user_prompt"]
    if not present & {"ground_truth", "label"}:
        missing.append("ground_truth")
    return f"no column {' and no column '.join(missing)}" if missing else None


class _PlainRecord(msgspec.Struct, gc=False):
    """What most records of most datasets are: texts, and no key `metadata`."""

    user_prompt: Annotated[str, msgspec.Meta(min_length=1)]
    system_prompt: str | None = None
    ground_truth: str | None = None
    label: str | None = None
    metadata: msgspec.UnsetType = msgspec.UNSET


def normalise_plain(records: Sequence[Values | None], indices: range) -> list[Row] | None:
    """What `normalise_row` gives for each of the records, all at once and several times as fast; None if one of them is not
    plain or not sound. `indices` are their `source_row_index` values."""
    try:
        plain = msgspec.convert(records, list[_PlainRecord])
    except msgspec.ValidationError:
        return None
    rows = [
        Row(index, record.system_prompt or None, record.user_prompt, record.ground_truth or record.label or None)
        for index, record in zip(indices, plain, strict=True)
    ]
    return rows if all([row.label for row in rows]) else None  # noqa: C419 - a list is quicker than a generator


def normalise_row(values: Values, source_row_index: int, *, beyond_json: bool = False) -> Row | tuple[str, ...]:
    """Apply the row contract to one record. Returns the row, or what is wrong with it.

    `beyond_json`: metadata may hold what JSON cannot (times, bytes, NaN) and is searched for it.
    """
    get = values.get
    wrong: list[str] = []
    system_prompt = _text(get("system_prompt"), "system_prompt", wrong)
    user_prompt = _text(get("user_prompt"), "user_prompt", wrong)
    label = _text(get("ground_truth"), "ground_truth", wrong)
    if label is None and "label" in values:
        label = _text(get("label"), "label", wrong)
    metadata = None
    if "metadata" in values:
        metadata = _metadata(get("metadata"), wrong, beyond_json=beyond_json)
        if not wrong and system_prompt is None and user_prompt is None and metadata is None:
            wrong.append("it has neither a prompt nor metadata")
    elif not wrong:
        required = ((user_prompt, ("user_prompt",)), (label, ("ground_truth", "label")))
        wrong += [_absence(values, columns) for value, columns in required if value is None]
    return tuple(wrong) if wrong else Row(source_row_index, system_prompt, user_prompt, label, metadata)


def _absence(values: Values, columns: Sequence[str]) -> str:
    """How a required text is absent: `columns` are its names, of which the first that is there is told."""
    for column in columns:
        if column in values:
            return f"{column} is {'null' if values[column] is None else 'empty'}"
    return f"{columns[0]} is missing"


def _text(value: object, column: str, wrong: list[str]) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bytes | bytearray | memoryview):
        wrong.append(f"{column} holds binary data")
        return None
    try:
        return str(value) or None
    except (ValueError, RecursionError):
        wrong.append(f"{column} holds a value that is too large to write out")
        return None


def _metadata(value: object, wrong: list[str], *, beyond_json: bool) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = decode_json(_LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", value))
        except (ValueError, RecursionError) as error:
            wrong.append(f"metadata is a string that is not JSON: {describe_json_error(error)}")
            return None
    if not isinstance(value, dict):
        wrong.append(f"metadata must be an object, or a string that holds one, not {_kind(value)}")
        return None
    if not is_shallow(value):
        wrong.append(f"metadata is nested too deeply: more than {DEPTH_LIMIT} levels")
        return None
    if beyond_json and (unfit := _not_json(value, "metadata")):
        wrong.append(unfit)
        return None
    return value or None


def _not_json(value: object, path: str) -> str | None:
    """Which part of a value JSON cannot hold, or None. Parquet has such values, and bounds their depth."""
    match value:
        case None | bool() | int() | str():
            return None
        case float():
            return None if math.isfinite(value) else f"{path} is {value}, which JSON cannot hold"
        case dict():
            return next((found for key, inner in value.items() if (found := _not_json(inner, f"{path}.{key}"))), None)
        case list() | tuple():
            return next((found for i, inner in enumerate(value) if (found := _not_json(inner, f"{path}[{i}]"))), None)
        case _:
            return f"{path} is of type {type(value).__name__}, which JSON cannot hold"


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return kinds.get(type(value), f"a value of type {type(value).__name__}")


def describe_json_error(error: ValueError | RecursionError) -> str:
    """One line on why `decode_json` refused a text, with the column where it is known."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    message, column = getattr(error, "msg", None), getattr(error, "colno", None)
    if message is None:
        return str(error)
    # Some of the standard library's messages end with the "at" of the place that follows them.
    return f"{message[:1].lower()}{message[1:].removesuffix(' at')} at column {column}"
