"""`index.jsonl`: one line for each work item that has a terminal result (contract `eval_local.md` 1.2; E18, rulings 1 to 3).

The line is a projection of the journal's result and of the trial's own trajectory file, so it can be rebuilt at any time.
`summary.jsonl` has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from osmosis.pure.canonical import lines, spaced_json
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.journal import Result, Status
from osmosis.pure.usage import Tokens, TrajectoryUsage, rollout_usage

TRAJECTORY_FILENAME = "trajectory.json"

_LINES_TOGETHER = 256


class IndexRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One line; the fields stand in the contract's key order. What is absent (None, False) is left out, never null."""

    row_index: int
    run_index: int
    rollout_id: str
    trajectory_filename: str | None = None
    status: Status
    reward: float | None = None
    tokens: Tokens | None = None
    max_context_tokens: Tokens | None = None
    cost_usd: float | None = None
    duration_ms: float
    error_type: str | None = None
    resumed: bool = False


def index_row(result: Result, trajectory: TrajectoryUsage | None, *, resumed: bool) -> IndexRow:
    """The row for `result`.

    `trajectory` is the usage that the trial's trajectory file reports, or None when there is no file that parses and
    identifies this rollout; usage that the bridge saw wins over it (E18).
    """
    usage = rollout_usage(result.calls, trajectory)
    return IndexRow(
        row_index=result.item.row_index,
        run_index=result.item.run_index,
        rollout_id=result.rollout_id,
        trajectory_filename=None if trajectory is None else TRAJECTORY_FILENAME,
        status=result.status,
        reward=result.reward,
        tokens=usage.tokens,
        max_context_tokens=usage.max_context_tokens,
        cost_usd=result.cost_usd,
        duration_ms=result.duration_ms,
        error_type=result.error_type,
        resumed=resumed,
    )


def as_json_object(row: IndexRow) -> dict[str, Any]:
    """`row` as a JSON object in the contract's key order, without what is absent."""
    value: dict[str, Any] = msgspec.to_builtins(row)
    return value


def encode_index_line(row: IndexRow) -> bytes:
    """One line with its newline. Raises ValueError when a number is not finite."""
    return spaced_json(as_json_object(row)) + b"\n"


def encode_index(rows: Iterable[IndexRow]) -> bytes:
    """The whole file, sorted by row and run."""
    return b"".join(index_chunks(sorted(rows, key=lambda row: (row.row_index, row.run_index))))


def index_chunks(rows: Iterable[IndexRow]) -> Iterator[bytes]:
    """The lines of `rows`, in their order, some hundred in a chunk: a row is gone when the next one is made."""
    lines_left = map(encode_index_line, rows)
    while chunk := b"".join(islice(lines_left, _LINES_TOGETHER)):
        yield chunk


_decoder = msgspec.json.Decoder(IndexRow)


def decode_index(data: bytes, label: str) -> tuple[IndexRow, ...]:
    """The rows of a complete index file. Raises OsmosisError that lists every bad line."""
    rows: list[IndexRow] = []
    problems: list[Problem] = []
    for number, _, line in lines(data):
        try:
            rows.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            problems.append(Problem(f"{label}:{number}", str(error)))
    if problems:
        raise OsmosisError(
            f"{label} is not a valid index.",
            problems=problems,
            hint="The index is a projection of the journal: running the same command again rebuilds it.",
        )
    return tuple(rows)
