"""Files of `osmosis eval rubric`: the journal, appended and synced, and the output, written at once (issue 7).

Judgements that arrive together share one sync. The event loop never waits for the disk. The open journal is locked, so that two
commands cannot pay for the same judgements or mix their lines.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.rubric_journal import (
    Recorded,
    RubricHeader,
    decode_journal,
    encode_header,
    encode_judgement,
    refuse_other,
)
from osmosis.pure.rubric_report import OUTPUT_NAME


def output_file(output: str) -> Path:
    """The file that `--output` means: in a directory, or with a trailing slash, the usual name inside."""
    path = Path(output)
    return path / OUTPUT_NAME if output.endswith(os.sep) or path.is_dir() else path


def journal_file(output: Path) -> Path:
    """The journal beside an output file."""
    return output.with_name(f"{output.name}.journal.jsonl")


class JudgementJournal:
    """An open journal. `judgements` are those that it held when it was opened, by (record index, run)."""

    def __init__(self, path: Path, header: RubricHeader, *, resume: bool) -> None:
        """Open the journal at `path`, made if missing, emptied unless `resume`.

        Raises OsmosisError when the disk refuses, when another command has it open, and for a journal of other judgements.
        """
        self._path = path
        self._pending: list[bytes] = []
        self._lock = asyncio.Lock()
        self.judgements: dict[tuple[int, int], Recorded] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise disk_error(path, error) from None
        try:
            self._begin(header, resume=resume)
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, OSError):
                raise disk_error(path, error) from None
            raise

    def _begin(self, header: RubricHeader, *, resume: bool) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OsmosisError(
                f"Another command is writing {self._path}.",
                code=ErrorCode.CONFLICT,
                hint="Wait for it, or write to another --output.",
            ) from None
        journal = decode_journal(self._path.read_bytes(), str(self._path)) if resume else None
        if journal is None:
            os.ftruncate(self._file, 0)
            self._write([encode_header(header)])
            return
        if refusal := refuse_other(journal.header, header, str(self._path)):
            raise refusal
        os.ftruncate(self._file, journal.valid_bytes)
        self.judgements = journal.judgements

    async def append(self, judgement: Recorded) -> None:
        """Return once `judgement` is on the disk, also when the caller is cancelled meanwhile: it is paid for.

        Raises OsmosisError when the disk refuses.
        """
        writing = asyncio.create_task(self._append(encode_judgement(judgement)))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await writing
            raise

    async def _append(self, line: bytes) -> None:
        self._pending.append(line)
        async with self._lock:
            group, self._pending = self._pending, []
            if group:  # otherwise whoever had the lock before wrote this line too
                try:
                    await asyncio.to_thread(self._write, group)
                except OSError as error:
                    raise disk_error(self._path, error) from None

    def _write(self, group: list[bytes]) -> None:
        rest = memoryview(b"".join(group))
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file, which ends the lock."""
        os.close(self._file)


def write_output(path: Path, content: bytes) -> None:
    """Replace the output file in one step. Raises OsmosisError when the disk refuses."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(path, error) from None


def disk_error(path: Path, error: OSError) -> OsmosisError:
    """The error for a file that could not be written."""
    return OsmosisError(
        f"{path} cannot be written.",
        problems=[Problem(str(path), error.strerror or str(error))],
        hint="Check the path, its permissions and the free space. Judgements in the journal are kept; use --resume.",
    )
