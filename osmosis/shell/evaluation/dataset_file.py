"""Opens and hashes a dataset file and hands it to `osmosis.pure.dataset` (E4, E6, E19; contract `eval_local.md` section 3).

JSONL and CSV are read once, hashed on the way. Parquet is hashed and then read by polars, a batch of rows at a time and only
where rows are wanted. A file that changes in between is an error: the digest in the lock must be of the rows that run.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from osmosis.pure.dataset import RecordBatch, Row, SelectedRows, candidates, invalid_dataset, missing_columns, select_rows
from osmosis.pure.dataset_formats import read_csv, read_jsonl
from osmosis.pure.digest import ContentHasher
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.selection import RowSelection

if TYPE_CHECKING:
    import polars as pl

_CHUNK_BYTES = 1024 * 1024
_BATCH_ROWS = 8192
_COLUMNS = ("system_prompt", "user_prompt", "ground_truth", "label", "metadata")
_TEXT_READERS = {".jsonl": read_jsonl, ".csv": read_csv}
_SUFFIXES = (".csv", ".jsonl", ".parquet")


class LoadedDataset(msgspec.Struct, frozen=True):
    """The selected rows of a dataset file, normalised and in dataset order.

    `str(selected)` is the compact selector for the manifest. `sha256` (64 hex digits) and `fingerprint` are of the file's
    bytes, `size` is their number. `label` is the path as it was given.
    """

    rows: tuple[Row, ...]
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
    path = path.expanduser()
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise OsmosisError(
            f"{label} is not a dataset file: its extension is {suffix or '(none)'}.",
            hint=f"Give a file that ends in {', '.join(_SUFFIXES)}.",
        )
    hasher = ContentHasher()
    with _opened(path, label) as file:
        before = os.fstat(file.fileno())
        chunks = _hashed_chunks(file, hasher)
        try:
            if suffix in _TEXT_READERS:
                selected = select_rows(_TEXT_READERS[suffix](chunks, label), rows=rows, limit=limit, label=label)
            else:
                for _ in chunks:
                    pass
                selected = _read_parquet(path, label, rows=rows, limit=limit)
        finally:
            # First of all complaints: what looks malformed may just be half written.
            _refuse_change(before, os.fstat(file.fileno()), path, label)
    return LoadedDataset(
        rows=selected.rows,
        total_rows=selected.total_rows,
        selected=selected.selected,
        sha256=hasher.sha256,
        fingerprint=hasher.fingerprint,
        size=hasher.size,
        label=label,
    )


@contextlib.contextmanager
def _opened(path: Path, label: str) -> Iterator[IO[bytes]]:
    """The open file, once it is known to be a regular one; a pipe without a writer must not hold us up."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OsmosisError(f"{label} is not a file.", hint="Give the path of a csv, jsonl or parquet file.")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise OsmosisError(
            f"{label} does not exist.", code=ErrorCode.NOT_FOUND, hint="Check the path; a relative one begins here."
        ) from None
    except OSError as error:
        raise OsmosisError(
            f"{label} cannot be read: {error.strerror or error}.", hint="Check the path and its permissions."
        ) from None


def _hashed_chunks(file: IO[bytes], hasher: ContentHasher) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        hasher.update(chunk)
        yield chunk


def _refuse_change(before: os.stat_result, after: os.stat_result, path: Path, label: str) -> None:
    """Compare the file as opened with the file now, and with what now stands at its path."""
    if not _identity(before) == _identity(after) == _identity(path.stat()):
        raise OsmosisError(
            f"{label} changed while it was read.",
            code=ErrorCode.CONFLICT,
            hint="Let whatever writes the file finish, then run the command again.",
        )


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# Parquet ----------------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, label: str, *, rows: RowSelection | None, limit: int | None) -> SelectedRows:
    try:
        import polars as pl  # noqa: PLC0415 (the one format that needs it; it takes long to import)
    except ImportError:
        raise OsmosisError(
            f"{label} is a Parquet file, and reading it needs polars.", hint='Install it: pip install "osmosis-ai[eval]"'
        ) from None
    # polars reports some damage as a panic, which is no Exception.
    damage = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
    try:
        # The path is a name, not a pattern, and its directories are no columns.
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        names = frame.collect_schema().names()
        if lacking := missing_columns(names):
            shown = ", ".join(map(repr, names[:20]))
            raise invalid_dataset(label, [Problem(label, f"{lacking}; the file has {shown or 'no columns'}")], 1)
        batches = _parquet_batches(frame, [name for name in _COLUMNS if name in names], candidates(rows, limit))
        return select_rows(batches, rows=rows, limit=limit, label=label)
    except damage as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise OsmosisError(
            f"{label} is not a sound Parquet file.", problems=[Problem(label, reason)], hint="Write the file again."
        ) from None


def _parquet_batches(frame: pl.LazyFrame, columns: list[str], wanted: RowSelection) -> Iterator[RecordBatch]:
    import polars as pl  # noqa: PLC0415

    total = int(frame.select(pl.len()).collect().item())
    for first in range(0, total, _BATCH_ROWS):
        count = min(_BATCH_ROWS, total - first)
        records: list[dict[str, Any]] = []
        if any(wanted.within(first, count)):
            records = frame.select(columns).slice(first, count).collect().to_dicts()
        yield RecordBatch(count, records, beyond_json=True)
