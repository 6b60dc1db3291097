"""Opens and hashes a dataset file and surveys it with `osmosis.pure.dataset_survey` (E4, E6, E19; `eval_local.md` section 3).

JSONL and CSV are read once, hashed on the way. Parquet is unpacked by `parquet_reader` while it is hashed. A file that changes
in between is an error: the digest in the lock must be of the rows that run.

Where a run's manifest knows the file already, its fingerprint is all that is computed: the same bytes have the same rows. Those
are looked for only once somebody asks for them. Decision 0063.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from osmosis.pure.dataset_formats import CSV, JSONL
from osmosis.pure.dataset_survey import DatasetSurvey
from osmosis.pure.digest import ContentHasher, FingerprintHasher
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.known_dataset import KnownDataset
from osmosis.pure.selection import RowSelection, resolve_selection
from osmosis.shell.evaluation.file_digest import CHUNK_BYTES, hashed_chunks, take_in
from osmosis.shell.evaluation.missing_file import meant_beside
from osmosis.shell.evaluation.stored_rows import RowStore, StoredRows, store_rows

_TEXT_FORMATS = {".jsonl": JSONL, ".csv": CSV}
_SUFFIXES = (".csv", ".jsonl", ".parquet")


class LoadedDataset(msgspec.Struct, frozen=True):
    """The selected rows of a dataset file, normalised and in dataset order.

    `str(selected)` is the compact selector for the manifest. `sha256` (64 hex digits) and `fingerprint` are of the file's
    bytes, `size` is their number. `label` is the path as it was given.
    """

    rows: StoredRows
    total_rows: int
    selected: RowSelection
    sha256: str
    fingerprint: str
    size: int
    label: str


def read_dataset(path: Path, *, rows: RowSelection | None, limit: int | None) -> LoadedDataset:
    """Read a csv, jsonl or parquet file. `rows` wins over `limit`; without either all rows are selected.

    Raises OsmosisError when the file is missing, unreadable, of another kind, corrupt, empty or changed while it was read, and
    with every problem of its content.
    """
    label = str(path)
    path = _checked(path, label)
    hasher = ContentHasher()
    selected, total_rows, store = _read(path, label, hasher, rows=rows, limit=limit)
    return LoadedDataset(
        rows=StoredRows(selected, lambda: store),
        total_rows=total_rows,
        selected=selected,
        sha256=hasher.sha256,
        fingerprint=hasher.fingerprint,
        size=hasher.size,
        label=label,
    )


def recognise_dataset(path: Path, known: KnownDataset, *, rows: RowSelection | None, limit: int | None) -> LoadedDataset | None:
    """The dataset at `path` if it is the known one, by its fingerprint alone; None if it is another.

    Its records are judged only when the first row is asked for. Raises OsmosisError as `read_dataset` does, but for problems of
    the content, which a known file does not have.
    """
    label = str(path)
    path = _checked(path, label)
    hasher = FingerprintHasher()
    with _unchanging(path, label) as file:
        take_in(file, hasher)
    if hasher.fingerprint != known.fingerprint:
        return None

    def open_store() -> RowStore:
        again = FingerprintHasher()
        found = _read(path, label, again, rows=rows, limit=limit)
        if again.fingerprint != known.fingerprint:
            raise _changed(label)
        if found.total_rows != known.total_rows:
            raise OsmosisError(
                f"{label} has {found.total_rows} rows, and the run's manifest says {known.total_rows} of the same file.",
                code=ErrorCode.CONFLICT,
                hint="The manifest has been changed: restore it, or start over with --fresh (the directory is archived).",
            )
        return found.store

    selected = resolve_selection(rows, limit, known.total_rows, label)
    return LoadedDataset(
        rows=StoredRows(selected, open_store),
        total_rows=known.total_rows,
        selected=selected,
        sha256=known.sha256,
        fingerprint=known.fingerprint,
        size=hasher.size,
        label=label,
    )


def _checked(path: Path, label: str) -> Path:
    path = path.expanduser()
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise OsmosisError(
            f"{label} is not a dataset file: its extension is {suffix or '(none)'}.",
            hint=f"Give a file that ends in {', '.join(_SUFFIXES)}.",
        )
    return path


class _Found(NamedTuple):
    """What one reading found. `selected` and `total_rows` are of the dataset, of which the store may hold a part."""

    selected: RowSelection
    total_rows: int
    store: RowStore


def _read(path: Path, label: str, hasher: FingerprintHasher, *, rows: RowSelection | None, limit: int | None) -> _Found:
    with _unchanging(path, label) as file:
        text_format = _TEXT_FORMATS.get(path.suffix.lower())
        if text_format is not None:
            survey = DatasetSurvey(rows=rows, limit=limit, label=label)
            with hashed_chunks(file, hasher) as chunks:
                store = store_rows(text_format.read(chunks, label), survey, text_format, file, label)
            return _Found(store.survey.selected, store.survey.total_rows, store)
        from osmosis.shell.evaluation.parquet_reader import unpacking  # noqa: PLC0415 - for the one format that needs a child

        with unpacking(path, label, rows=rows, limit=limit) as parquet:
            take_in(file, hasher)
            summary = parquet.finish()
            batches = JSONL.read(iter(partial(parquet.rows.read, CHUNK_BYTES), b""), label)
            survey = DatasetSurvey(rows=None, limit=None, label=label)
            store = store_rows(batches, survey, JSONL, parquet.rows, label)
            return _Found(summary.selected, summary.total_rows, store)


@contextlib.contextmanager
def _unchanging(path: Path, label: str) -> Iterator[FileIO]:
    """The open file, which must be at the end what it was in the beginning."""
    with _opened(path, label) as file:
        before = os.fstat(file.fileno())
        try:
            yield file
        finally:
            # First of all complaints: what looks malformed may just be half written.
            if not _identity(before) == _identity(os.fstat(file.fileno())) == _identity(path.stat()):
                raise _changed(label)


@contextlib.contextmanager
def _opened(path: Path, label: str) -> Iterator[FileIO]:
    """The open file, once it is known to be a regular one; a pipe without a writer must not hold us up."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OsmosisError(f"{label} is not a file.", hint="Give the path of a csv, jsonl or parquet file.")
        with FileIO(path) as file:
            yield file
    except FileNotFoundError:
        raise OsmosisError(
            f"{label} does not exist.{meant_beside(path)}",
            code=ErrorCode.NOT_FOUND,
            hint="Check the path; a relative one begins here.",
        ) from None
    except OSError as error:
        raise OsmosisError(
            f"{label} cannot be read: {error.strerror or error}.", hint="Check the path and its permissions."
        ) from None


def _changed(label: str) -> OsmosisError:
    """The file is not what it was as opened, or another one now stands at its path."""
    return OsmosisError(
        f"{label} changed while it was read.",
        code=ErrorCode.CONFLICT,
        hint="Let whatever writes the file finish, then run the command again.",
    )


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
