"""`dataset_rows.jsonl`: what people search a run's samples by (E17; issue "First light" section 2).

One line a selected row, in dataset order, written before any work is dispatched: compact JSON with the keys `row_index`,
`prompt`, `label` in that order, raw UTF-8, `\n` behind each. `prompt` is the user prompt or, where there is none, the metadata
as canonical JSON, or else "" (a row that has nothing but a system prompt). `label` is left out when there is none. Both are cut
by Unicode code points; a lone surrogate becomes U+FFFD. The bytes depend on the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from osmosis.pure.canonical import canonical_json, lines, well_formed
from osmosis.pure.dataset import Row
from osmosis.pure.errors import OsmosisError, Problem

PROMPT_LENGTH = 2000
LABEL_LENGTH = 500
"""Cuts, in code points."""

_CHUNK_ROWS = 1024
_SHOWN_PROBLEMS = 20


class DatasetRow(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One line of `dataset_rows.jsonl`. `row_index` is the position in the selection, from 0."""

    row_index: int
    prompt: str
    label: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(DatasetRow)


def encode_dataset_rows(rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield the bytes of `dataset_rows.jsonl` in chunks of whole lines. `rows` are the selected rows in dataset order."""
    numbered = enumerate(rows)
    while chunk := [describe_row(row, index) for index, row in islice(numbered, _CHUNK_ROWS)]:
        try:
            yield _encoder.encode_lines(chunk)
        except UnicodeEncodeError:
            yield _encoder.encode_lines(map(_well_formed, chunk))


def describe_row(row: Row, row_index: int) -> DatasetRow:
    """The line of one row, its texts cut but not yet well formed."""
    prompt = row.user_prompt or (canonical_json(row.metadata).decode() if row.metadata else "")
    return DatasetRow(row_index, prompt[:PROMPT_LENGTH], row.label and row.label[:LABEL_LENGTH])


def _well_formed(row: DatasetRow) -> DatasetRow:
    return DatasetRow(row.row_index, well_formed(row.prompt), None if row.label is None else well_formed(row.label))


def decode_dataset_rows(data: bytes, label: str) -> tuple[DatasetRow, ...]:
    """Read `dataset_rows.jsonl`. `label` names the file in errors.

    Raises one OsmosisError with every problem: lines that are no such record, row indices that do not count from 0, a last
    line without its newline.
    """
    rows: list[DatasetRow] = []
    problems: list[Problem] = []
    for number, offset, line in lines(data):
        where = f"{label}:{number}"
        try:
            row = _decoder.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            problems.append(Problem(where, str(error)))
            continue
        if row.row_index != number - 1:
            problems.append(Problem(where, f"row_index is {row.row_index}, and {number - 1} is due"))
        elif offset + len(line) == len(data):
            problems.append(Problem(where, "the last line has no newline"))
        rows.append(row)
    if problems:
        more = [Problem("", f"... and {len(problems) - _SHOWN_PROBLEMS} more")] if problems[_SHOWN_PROBLEMS:] else []
        raise OsmosisError(
            f"{label} is not a list of dataset rows.",
            problems=[*problems[:_SHOWN_PROBLEMS], *more],
            hint="The file is written before a run begins; it can be written again from the dataset.",
        )
    return tuple(rows)
