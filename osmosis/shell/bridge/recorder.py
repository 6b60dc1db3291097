"""The cassette file while calls are recorded into it (ruling 21).

Each finished call is one appended line, written with a single `write`, so that a crash leaves at most a torn last line, which
the next start cuts off. Closing rewrites the file in its normal form, sorted and without replaced calls. Secrets are taken out
of requests and answers before they reach the disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from osmosis.pure.canonical import decode_json
from osmosis.pure.cassette import (
    CallKey,
    Cassette,
    CassetteTail,
    Header,
    RecordedCall,
    decode_cassette,
    encode_call,
    encode_cassette,
    encode_header,
    redact,
    request_digest,
)
from osmosis.pure.completion import Redactor
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.source import Rollout


def load_cassette(path: Path) -> Cassette:
    """Read a cassette for replay. Raises OsmosisError when it is missing or damaged."""
    return _read(path).cassette


def _read(path: Path) -> CassetteTail:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise OsmosisError(
            f"There is no cassette {path}.",
            code=ErrorCode.NOT_FOUND,
            hint="Record one with --record FILE, or correct the path.",
        ) from None
    except OSError as error:
        raise _disk_error(path, "read", error) from None
    return decode_cassette(data, str(path))


def _disk_error(path: Path, action: str, error: OSError) -> OsmosisError:
    return OsmosisError(
        f"The cassette {path} cannot be {action}.",
        problems=[Problem(str(path), error.strerror or str(error))],
        hint="Check the path, its permissions and the free space.",
    )


class Recorder:
    """An open cassette. `error` is set once the file could not be written; the run goes on and reports it."""

    def __init__(self, path: Path, header: Header, redactor: Redactor) -> None:
        """Open `path` for appending, made if missing; calls that it already holds are kept. Raises OsmosisError."""
        self.path = path
        self.error: OsmosisError | None = None
        self._redactor = redactor
        self._recorded = 0
        held = path.stat().st_size if path.is_file() else 0
        tail = _read(path) if held else None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                if tail is None:
                    _write(self._file, encode_header(header))
                elif tail.valid_bytes < held:
                    os.ftruncate(self._file, tail.valid_bytes)
                elif not path.read_bytes().endswith(b"\n"):
                    _write(self._file, b"\n")
            except OSError:
                os.close(self._file)
                raise
        except OSError as error:
            raise _disk_error(path, "written", error) from None
        self._header = header

    def record(
        self,
        rollout: Rollout,
        request: UpstreamRequest,
        *,
        status: int,
        body: bytes | None = None,
        events: tuple[bytes, ...] | None = None,
        usage: CallUsage | None = None,
    ) -> None:
        """Append one finished call: its whole `body`, or the `events` of its stream."""
        if self.error is not None:
            return
        asked: dict[str, Any] = decode_json(request.body)
        digest = request_digest(asked)
        key = CallKey(rollout.source_row, rollout.run_index, digest, rollout.digests[digest])
        rollout.digests[digest] += 1
        call = RecordedCall.of(key, asked, status=status, body=body, events=events, usage=usage)
        try:
            _write(self._file, encode_call(redact(call, self._redactor)))
        except OSError as error:
            self.error = _disk_error(self.path, "written", error)
        else:
            self._recorded += 1

    def close(self) -> None:
        """Put the file into its normal form. Closing twice is harmless. Raises OsmosisError when the disk refuses."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if self.error is not None:
            return
        written = _read(self.path).cassette
        header = self._header if self._recorded else written.header
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(encode_cassette(Cassette(header, written.calls)))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            self.error = _disk_error(self.path, "written", error)
            raise self.error from None


def _write(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]
