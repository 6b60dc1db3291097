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
    Header,
    RecordedCall,
    encode_call,
    encode_header,
    redact,
    request_digest,
)
from osmosis.pure.completion import Redactor
from osmosis.pure.errors import OsmosisError
from osmosis.pure.request_policy import UpstreamRequest
from osmosis.pure.usage import CallUsage
from osmosis.shell.bridge.cassette_file import disk_error, open_locked, read_cassette, write_cassette
from osmosis.shell.bridge.source import Rollout


class Recorder:
    """An open cassette. `error` is set once the file could not be written; the run goes on and reports it."""

    def __init__(self, path: Path, header: Header, redactor: Redactor) -> None:
        """Open `path` for appending, made if missing; calls that it already holds are kept.

        Raises OsmosisError, also when another run records into it.
        """
        self.path = path
        self.error: OsmosisError | None = None
        self._redactor = redactor
        self._recorded = 0
        self._file = open_locked(path)
        try:
            held = path.stat().st_size
            tail = read_cassette(path) if held else None
            if tail is None:
                _write(self._file, encode_header(header))
            elif tail.valid_bytes < held:
                os.ftruncate(self._file, tail.valid_bytes)
            elif not path.read_bytes().endswith(b"\n"):
                _write(self._file, b"\n")
        except OSError as error:
            os.close(self._file)
            raise disk_error(path, "written", error) from None
        except OsmosisError:
            os.close(self._file)
            raise
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
            self.error = disk_error(self.path, "written", error)
        else:
            self._recorded += 1

    def close(self) -> None:
        """Put the file into its normal form. Closing twice is harmless. Raises OsmosisError when the disk refuses."""
        if self._file < 0:
            return
        try:
            if self.error is None:
                written = read_cassette(self.path).cassette
                header = self._header if self._recorded else written.header
                write_cassette(self.path, Cassette(header, written.calls))
        except OsmosisError as error:
            self.error = error
            raise
        finally:
            # The lock goes with the descriptor, so that nobody records into the file that was just replaced.
            os.close(self._file)
            self._file = -1


def _write(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]
