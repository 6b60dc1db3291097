"""A cassette as a file: read whole, written whole, and locked while somebody records into it (ruling 21)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from osmosis.pure.cassette import Cassette, CassetteTail, decode_cassette, encode_cassette
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem


def load_cassette(path: Path) -> Cassette:
    """Read a cassette for replay. Raises OsmosisError when it is missing or damaged."""
    return read_cassette(path).cassette


def read_cassette(path: Path) -> CassetteTail:
    """Read a cassette and where its whole lines end. Raises OsmosisError when it is missing or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise OsmosisError(
            f"There is no cassette {path}.",
            code=ErrorCode.NOT_FOUND,
            hint="Record one with --record FILE, or correct the path.",
        ) from None
    except OSError as error:
        raise disk_error(path, "read", error) from None
    return decode_cassette(data, str(path))


def write_cassette(path: Path, cassette: Cassette) -> None:
    """Put the whole cassette in its normal form at `path`, all or nothing. Raises OsmosisError when the disk refuses."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(encode_cassette(cassette))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk_error(path, "written", error) from None


def open_locked(path: Path) -> int:
    """Open the file for appending, made if missing, and take its lock; closing the descriptor gives the lock back.

    Raises OsmosisError when another process holds it, or the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(path, file):
                    return file
            except BaseException:
                os.close(file)
                raise
            # Another recorder finished and put a new file in its place between the two steps.
            os.close(file)
    except BlockingIOError:
        raise OsmosisError(
            f"Another run is recording into {path}.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(str(path), "is locked")],
            hint="Wait for it to end, or record into another file; two cassettes are merged by putting one behind the other.",
        ) from None
    except OSError as error:
        raise disk_error(path, "written", error) from None


def _is_still(path: Path, file: int) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(file)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def disk_error(path: Path, action: str, error: OSError) -> OsmosisError:
    """The error for what the disk said."""
    return OsmosisError(
        f"The cassette {path} cannot be {action}.",
        problems=[Problem(str(path), error.strerror or str(error))],
        hint="Check the path, its permissions and the free space.",
    )
