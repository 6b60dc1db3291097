"""One pass over a dataset, in memory that does not grow with it (issue 6; contract `eval_local.md` section 3).

A survey judges every record and keeps none. It remembers pieces: runs of consecutive records that hold selected rows, with the
bytes of the file that they were read from and the digest of those bytes. From a piece's bytes its rows are made again, the same
rows as often as they are needed; bytes that are no longer the same are refused, because the run is locked to what was surveyed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import xxhash

from osmosis.pure.dataset import (
    SHOWN_PROBLEMS,
    RecordBatch,
    Row,
    Values,
    invalid_dataset,
    normalise_plain,
    normalise_row,
)
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.selection import RowRange, RowSelection, resolve_selection


class Piece(msgspec.Struct, frozen=True, gc=False):
    """`count` records beginning with record `first` of the file, read from `size` bytes at `offset` that have this xxh3-64."""

    first: int
    count: int
    offset: int
    size: int
    digest: int


class Survey(msgspec.Struct, frozen=True):
    """What a pass over a file found: where its selected rows lie, how many rows it has, and which are selected.

    `pieces` ascend; the bytes of a piece are to be read behind `header`.
    """

    pieces: tuple[Piece, ...]
    header: bytes
    total_rows: int
    selected: RowSelection

    def piece_of(self, record: int) -> Piece:
        """The piece that holds a selected record, by its number in the file."""
        return self.pieces[bisect_right(self.pieces, record, key=lambda piece: piece.first) - 1]


class DatasetSurvey:
    """Takes the batches of one file, in order; `finish` says what was found.

    `rows` wins over `limit`; without either all rows are selected. `label` names the file.
    """

    def __init__(self, *, rows: RowSelection | None, limit: int | None, label: str) -> None:
        self._rows, self._limit, self._label = rows, limit, label
        self._wanted = candidates(rows, limit)
        self._pieces: list[Piece] = []
        self._problems: list[Problem] = []
        self._problem_count = self._total = 0
        self._header = b""

    def add(self, batch: RecordBatch) -> list[Row]:
        """Judge one more batch. Returns its selected rows as far as they are sound."""
        first, self._total = self._total, self._total + batch.count
        found = [*batch.problems]
        rows: list[Row] = []
        for part in self._wanted.within(first, len(batch.records)):
            records = batch.records[part.start - first : part.stop - first]
            plain = normalise_plain(records, part)
            if plain is not None:
                rows += plain
                continue
            for index, row in zip(part, _one_by_one(records, part, beyond_json=batch.beyond_json), strict=True):
                match row:
                    case Row():
                        rows.append(row)
                    case tuple():
                        found += _problems(row, index, batch, first, self._label)
        if rows:
            digest = xxhash.xxh3_64_intdigest(batch.data)
            self._pieces.append(Piece(first, batch.count, batch.offset, len(batch.data), digest))
            self._header = batch.header
        if found:
            self._problem_count += len(found)
            self._problems += found[: SHOWN_PROBLEMS - len(self._problems)]
        return rows

    def finish(self) -> Survey:
        """The whole survey. Raises one OsmosisError with every problem of the file, or else the one of `resolve_selection`."""
        if self._problems:
            raise invalid_dataset(self._label, self._problems, self._problem_count)
        selected = resolve_selection(self._rows, self._limit, self._total, self._label)
        return Survey(tuple(self._pieces), self._header, self._total, selected)


def candidates(rows: RowSelection | None, limit: int | None) -> RowSelection:
    """The rows that may be selected, as far as that is known before the file has been counted."""
    if rows is not None:
        return rows
    return RowSelection((RowRange(0, 2**63 if limit is None else limit - 1),))


def _one_by_one(
    records: Sequence[Values | None], part: range, *, beyond_json: bool = False
) -> Iterator[Row | tuple[str, ...] | None]:
    """Each record as its row, as what is wrong with that, or None where it did not even parse."""
    for index, values in zip(part, records, strict=True):
        yield None if values is None else normalise_row(values, index, beyond_json=beyond_json)


def _problems(wrong: Iterable[str], index: int, batch: RecordBatch, first: int, label: str) -> Iterator[Problem]:
    where = label if batch.lines is None else f"{label}:{batch.lines[index - first]}"
    return (Problem(where, f"row {index}: {reason}") for reason in wrong)


def check_piece(piece: Piece, data: bytes, label: str) -> None:
    """Raise OsmosisError unless `data` are the bytes that were surveyed."""
    if len(data) != piece.size or xxhash.xxh3_64_intdigest(data) != piece.digest:
        last = piece.first + piece.count - 1
        raise OsmosisError(
            f"{label} was changed in place while a run was using it.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(label, f"records {piece.first} to {last} are not what they were when the run began")],
            hint="Put the file back as it was and run the command again, or start a new run from the changed file.",
        )


def rows_again(piece: Piece, records: Sequence[Values], selected: RowSelection) -> list[Row]:
    """The selected rows of a piece, from the records that its bytes gave again. `source_row_index` is the record's number."""
    rows: list[Row] = []
    for part in selected.within(piece.first, piece.count):
        chosen = records[part.start - piece.first : part.stop - piece.first]
        plain = normalise_plain(chosen, part)
        rows += [row for row in _one_by_one(chosen, part) if isinstance(row, Row)] if plain is None else plain
    return rows
