"""Reads Parquet in a process of its own (ruling 9; contract `eval_local.md` section 3).

polars decodes Parquet in native code, which a damaged page can bring to abort: no exception, the process is gone. So a child
does it, with neither our environment nor our secrets, and its death is a clean error here. The child applies the row contract
and answers in JSON lines: an array for each row, then one object, the summary or the error. JSON escapes carry lone surrogates
and integers of any size, which binary formats do not.

Batches are decoded only where rows are wanted, a few thousand rows at a time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from osmosis.pure.dataset import RecordBatch, Row, SelectedRows, candidates, invalid_dataset, missing_columns, select_rows
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.selection import RowSelection

if TYPE_CHECKING:
    import polars as pl

_BATCH_ROWS = 8192
_COLUMNS = ("system_prompt", "user_prompt", "ground_truth", "label", "metadata")
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT")


class _Request(msgspec.Struct, frozen=True):
    path: str
    label: str
    rows: RowSelection | None
    limit: int | None


class _Summary(msgspec.Struct, frozen=True, tag="summary"):
    total_rows: int
    selected: RowSelection


class _Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    message: str
    code: ErrorCode
    problems: tuple[Problem, ...]
    hint: str | None
    details: dict[str, Any]


def read_parquet(path: Path, label: str, *, rows: RowSelection | None, limit: int | None) -> SelectedRows:
    """The selected rows of a Parquet file. `label` names it in errors.

    Raises OsmosisError when the file is damaged in whatever way, lacks columns, or holds rows that break the row contract.
    """
    request = json.dumps(msgspec.to_builtins(_Request(str(path.absolute()), label, rows, limit)))
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, request],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        with child:
            try:
                found, end = _receive(child)
                status = child.wait()
            finally:
                child.kill()
        if end is None:
            complaints.seek(0)
            _explain_death(label, status, complaints.read().decode(errors="replace"))
    if isinstance(end, _Refusal):
        raise OsmosisError(end.message, code=end.code, problems=end.problems, hint=end.hint, details=end.details)
    return SelectedRows(tuple(found), end.total_rows, end.selected)


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"}


def _receive(child: subprocess.Popen[bytes]) -> tuple[list[Row], _Summary | _Refusal | None]:
    """The rows, and the object behind them unless the child died before it."""
    rows: list[Row] = []
    for line in child.stdout or ():
        if not line.endswith(b"\n"):
            return rows, None
        value = json.loads(line)
        if isinstance(value, dict):
            end: _Summary | _Refusal = msgspec.convert(value, _Summary | _Refusal)
            return rows, end
        rows.append(Row(*value))
    return rows, None


def _explain_death(label: str, status: int, complaints: str) -> NoReturn:
    if status < 0:
        reason = f"the reader died of {signal.Signals(-status).name} while it decoded the file"
        raise _damaged(label, reason)
    raise RuntimeError(f"the Parquet reader ended with status {status}: {complaints[-2000:]}")


def _damaged(label: str, reason: str) -> OsmosisError:
    return OsmosisError(
        f"{label} is not a sound Parquet file.", problems=[Problem(label, reason)], hint="Write the file again."
    )


# The child --------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer the request in the first argument."""
    request = msgspec.convert(json.loads(sys.argv[1]), _Request)
    end: _Summary | _Refusal
    try:
        selected = _decode(request)
    except OsmosisError as error:
        end = _Refusal(error.message, error.code, error.problems, error.hint, error.details)
    else:
        for row in selected.rows:
            sys.stdout.write(json.dumps(msgspec.structs.astuple(row)) + "\n")
        end = _Summary(selected.total_rows, selected.selected)
    sys.stdout.write(json.dumps(msgspec.to_builtins(end)) + "\n")
    sys.stdout.flush()


def _decode(request: _Request) -> SelectedRows:
    try:
        import polars as pl  # noqa: PLC0415 (the one format that needs it; it takes long to import)
    except ImportError:
        raise OsmosisError(
            f"{request.label} is a Parquet file, and reading it needs polars.",
            hint='Install it: pip install "osmosis-ai[eval]"',
        ) from None
    try:
        # The path is a name, not a pattern, and its directories are no columns.
        frame = pl.scan_parquet(request.path, glob=False, hive_partitioning=False)
        names = frame.collect_schema().names()
        if lacking := missing_columns(names):
            shown = ", ".join(map(repr, names[:20]))
            raise invalid_dataset(
                request.label, [Problem(request.label, f"{lacking}; the file has {shown or 'no columns'}")], 1
            )
        wanted = candidates(request.rows, request.limit)
        batches = _batches(frame, [name for name in _COLUMNS if name in names], wanted)
        return select_rows(batches, rows=request.rows, limit=request.limit, label=request.label)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _damaged(request.label, (str(error).splitlines() or ["damaged"])[0]) from None


def _batches(frame: pl.LazyFrame, columns: list[str], wanted: RowSelection) -> Iterator[RecordBatch]:
    import polars as pl  # noqa: PLC0415

    total = int(frame.select(pl.len()).collect().item())
    for first in range(0, total, _BATCH_ROWS):
        count = min(_BATCH_ROWS, total - first)
        records: list[dict[str, Any]] = []
        if any(wanted.within(first, count)):
            records = frame.select(columns).slice(first, count).collect().to_dicts()
        yield RecordBatch(count, records, beyond_json=True)


if __name__ == "__main__":
    main()
