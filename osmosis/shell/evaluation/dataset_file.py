"""Opens and hashes a dataset file and hands it to `osmosis.pure.dataset` (E4, E6, E19; contract `eval_local.md` section 3).

JSONL and CSV are read once, hashed on the way. Parquet is hashed and then read by `parquet_reader`. A file that changes in
between is an error: the digest in the lock must be of the rows that run.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

import msgspec

from osmosis.pure.dataset import Row, select_rows
from osmosis.pure.dataset_formats import read_csv, read_jsonl
from osmosis.pure.digest import ContentHasher
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.selection import RowSelection
from osmosis.shell.evaluation.parquet_reader import read_parquet

_CHUNK_BYTES = 1024 * 1024
_CHUNKS_AHEAD = 4
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
        chunks = hashed_chunks(file, hasher)
        try:
            if suffix in _TEXT_READERS:
                selected = select_rows(_TEXT_READERS[suffix](chunks, label), rows=rows, limit=limit, label=label)
            else:
                for _ in chunks:
                    pass
                selected = read_parquet(path, label, rows=rows, limit=limit)
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


def hashed_chunks(file: IO[bytes], hasher: ContentHasher) -> Iterator[bytes]:
    """The file in chunks. `hasher` takes them in beside whatever the caller does with them, and has them all at the end."""
    hashing: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="digest") as thread:
        while chunk := file.read(_CHUNK_BYTES):
            hashing.append(thread.submit(hasher.update, chunk))
            if len(hashing) > _CHUNKS_AHEAD:
                hashing.popleft().result()
            yield chunk
        for taken in hashing:
            taken.result()


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
