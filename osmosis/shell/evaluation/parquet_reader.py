"""Unpacks Parquet into JSON lines, in a process of its own (ruling 9; contract `eval_local.md` section 3).

polars decodes Parquet in native code, which a damaged page can bring to abort: no exception, the process is gone. So a child
does it, with neither our environment nor our secrets, and its death is a clean error here. The child applies the row contract
and writes the selected rows to a temporary file without a name, a JSON object a line with the columns that count; on standard
output it says how it went. JSON escapes carry lone surrogates and integers of any size, which binary formats do not.

Batches are decoded only where rows are wanted, a few thousand rows at a time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import msgspec

from osmosis.pure.dataset import RecordBatch, Row, invalid_dataset, missing_columns
from osmosis.pure.dataset_survey import DatasetSurvey, candidates
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.selection import RowSelection

if TYPE_CHECKING:
    import polars as pl

_BATCH_ROWS = 8192
_COLUMNS = ("system_prompt", "user_prompt", "ground_truth", "label", "metadata")
_KEPT_VARIABLES = ("PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT")


class _Request(msgspec.Struct, frozen=True):
    path: str
    rows_descriptor: int
    label: str
    rows: RowSelection | None
    limit: int | None


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """How many rows the file has, and which are selected."""

    total_rows: int
    selected: RowSelection


class _Refusal(msgspec.Struct, frozen=True, tag="refusal"):
    message: str
    code: ErrorCode
    problems: tuple[Problem, ...]
    hint: str | None
    details: dict[str, Any]


class Unpacking:
    """A child at work. The rows lie in `rows`, in dataset order and without numbers, once `finish` has returned."""

    def __init__(self, child: subprocess.Popen[bytes], label: str, rows: FileIO, complaints: IO[bytes]) -> None:
        self.rows = rows
        self._child, self._label, self._complaints = child, label, complaints

    def finish(self) -> Summary:
        """Wait for the child.

        Raises OsmosisError when the file is damaged in whatever way, lacks columns, or holds rows that break the row contract.
        """
        answer, _ = self._child.communicate()
        end = _end(answer)
        if end is None:
            self._complaints.seek(0)
            _explain_death(self._label, self._child.returncode, self._complaints.read().decode(errors="replace"))
        if isinstance(end, _Refusal):
            raise OsmosisError(end.message, code=end.code, problems=end.problems, hint=end.hint, details=end.details)
        self.rows.seek(0)
        return end


@contextmanager
def unpacking(path: Path, label: str, *, rows: RowSelection | None, limit: int | None) -> Iterator[Unpacking]:
    """Have a child unpack the selected rows of a Parquet file, which `label` names in errors. It ends with the context."""
    with tempfile.TemporaryFile(buffering=0) as unpacked, tempfile.TemporaryFile() as complaints:
        request = _Request(str(path.absolute()), unpacked.fileno(), label, rows, limit)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, json.dumps(msgspec.to_builtins(request))],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            pass_fds=(unpacked.fileno(),),
        )
        with child:
            try:
                yield Unpacking(child, label, unpacked, complaints)
            finally:
                child.kill()


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"}


def _end(answer: bytes) -> Summary | _Refusal | None:
    """What the child said in the end, or None if it died before it had said it."""
    if not answer.endswith(b"\n"):
        return None
    return msgspec.convert(json.loads(answer), Summary | _Refusal)


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
    end: Summary | _Refusal
    try:
        end = _unpack(request)
    except OsmosisError as error:
        end = _Refusal(error.message, error.code, error.problems, error.hint, error.details)
    sys.stdout.write(json.dumps(msgspec.to_builtins(end)) + "\n")
    sys.stdout.flush()


def _unpack(request: _Request) -> Summary:
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
        survey = DatasetSurvey(rows=request.rows, limit=request.limit, label=request.label)
        wanted = candidates(request.rows, request.limit)
        for batch in _batches(frame, [name for name in _COLUMNS if name in names], wanted):
            _write(request, survey.add(batch))
        found = survey.finish()
        return Summary(found.total_rows, found.selected)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _damaged(request.label, (str(error).splitlines() or ["damaged"])[0]) from None


def _write(request: _Request, rows: Sequence[Row]) -> None:
    data = memoryview("".join(map(_line, rows)).encode())
    try:
        while data:
            data = data[os.write(request.rows_descriptor, data) :]
    except OSError as error:
        raise OsmosisError(
            f"{request.label} cannot be unpacked: {error.strerror or error}.",
            hint="The selected rows are written to a temporary file. Free some space, or name another directory with TMPDIR.",
        ) from None


def _line(row: Row) -> str:
    """`row` as a line of a JSONL dataset. The key `metadata` is always there: the row has been found sufficient already."""
    texts = {"system_prompt": row.system_prompt, "user_prompt": row.user_prompt, "ground_truth": row.label}
    return json.dumps({**texts, "metadata": row.metadata}) + "\n"


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
