"""The selected rows of a run, read again from where they lie whenever they are needed (issue 6, E17).

A small dataset is held in memory as the bytes it came in, so that whoever edits the file meanwhile disturbs nobody. Of a larger
one the pieces are read from the file that was surveyed, which stays open: a file put in its place changes nothing, and one that
is changed in place is found out by the digest of the piece (`osmosis.pure.dataset_survey`). Decision 0063.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import IO

import msgspec

from osmosis.pure.dataset import RecordBatch, Row
from osmosis.pure.dataset_formats import TextFormat
from osmosis.pure.dataset_survey import DatasetSurvey, Piece, Survey, check_piece, rows_again
from osmosis.pure.errors import OsmosisError
from osmosis.pure.selection import RowSelection, SourceRows

HELD_BYTES = 16 * 2**20
"""Up to this size a dataset's pieces are held in memory."""


class RowStore:
    """The rows that a survey found, by the number of their record in the surveyed file."""

    def __init__(self, survey: Survey, text_format: TextFormat, label: str, held: dict[int, bytes], file: IO[bytes]) -> None:
        self.survey = survey
        self._format = text_format
        self._label = label
        self._held = held
        self._last: tuple[Piece, dict[int, Row]] | None = None
        if not held:
            # The caller closes its file; pieces are still to be read from it.
            self._descriptor = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._descriptor)

    def __iter__(self) -> Iterator[Row]:
        for piece in self.survey.pieces:
            yield from self._rows(piece)

    def row(self, record: int) -> Row:
        """The row of a selected record. Rows are mostly asked for in order, so those of one piece are kept."""
        piece = self.survey.piece_of(record)
        if self._last is None or self._last[0] is not piece:
            self._last = piece, {row.source_row_index: row for row in self._rows(piece)}
        return self._last[1][record]

    def _rows(self, piece: Piece) -> list[Row]:
        data = self._held.get(piece.offset)
        if data is None:
            data = self._read(piece)
            check_piece(piece, data, self._label)
        return rows_again(piece, self._format.again(self.survey.header, data), self.survey.selected)

    def _read(self, piece: Piece) -> bytes:
        parts: list[bytes] = []
        offset, end = piece.offset, piece.offset + piece.size
        try:
            while offset < end and (part := os.pread(self._descriptor, end - offset, offset)):
                parts.append(part)
                offset += len(part)
        except OSError as error:
            raise OsmosisError(
                f"{self._label} can no longer be read: {error.strerror or error}.",
                hint="Make the file available again and run the command again: what is finished stays finished.",
            ) from None
        return b"".join(parts)


def store_rows(
    batches: Iterable[RecordBatch], survey: DatasetSurvey, text_format: TextFormat, file: IO[bytes], label: str
) -> RowStore:
    """Survey the batches of `file`. Raises OsmosisError with every problem of the file, which `label` names."""
    held: dict[int, bytes] = {}
    size = 0
    for batch in batches:
        if survey.add(batch) and size <= HELD_BYTES:
            held[batch.offset] = batch.data
            size += len(batch.data)
            if size > HELD_BYTES:
                held.clear()
    return RowStore(survey.finish(), text_format, label, held, file)


class StoredRows:
    """The rows of a run by `row_index`: a sequence that is read from a store, which is opened once it is needed.

    Every access may raise OsmosisError: the file was changed in place, or cannot be read any more.
    """

    def __init__(self, selected: RowSelection, open_store: Callable[[], RowStore]) -> None:
        self._selected = selected
        self._source_rows = SourceRows(selected)
        self._open_store = open_store

    @cached_property
    def _store(self) -> RowStore:
        return self._open_store()

    @cached_property
    def _records(self) -> SourceRows:
        return SourceRows(self._store.survey.selected)

    def load(self) -> None:
        """Open the store now, if that has not been done: it may take as long as reading the file."""
        self._store  # noqa: B018 - a property that is computed once

    def __len__(self) -> int:
        return len(self._source_rows)

    def __getitem__(self, row_index: int) -> Row:
        return _numbered(self._store.row(self._records[row_index]), self._source_rows[row_index])

    def __iter__(self) -> Iterator[Row]:
        if self._store.survey.selected == self._selected:
            return iter(self._store)
        return map(_numbered, self._store, self._selected.indices())


def _numbered(row: Row, source_row_index: int) -> Row:
    """What was unpacked from another file is numbered as it lies there."""
    if row.source_row_index == source_row_index:
        return row
    return msgspec.structs.replace(row, source_row_index=source_row_index)
