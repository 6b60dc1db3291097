"""What a journal records of files, so that damage to them is noticed later (decision 0014; issue 3, `eval verify`).

A line of the journal proves itself; the files beside it do not. So three kinds of record carry digests, as two more keys of
their line that readers of runs pass over:

- the first `invocation.started`: `files`, the run's own files that are written once, before it;
- each `result` whose rollout was over: `files`, what then lay in its trial's directory;
- `invocation.ended`: `log`, the beginning of `logs.txt` up to its length at that moment.

Digests are xxh3-64, 16 hex digits: they guard against accidents, not against somebody who changes both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import xxhash

from osmosis.pure.artifacts import path_problem

MOST_NAMED = 32
"""Files of one trial that are recorded by name; a journal must not grow with what a rollout throws off."""
REST = "*"
"""Stands for everything in the trial's directory that is not recorded by name."""

PASSED_OVER = frozenset({".osmosis-health-check"})
"""Says nothing of a rollout, and may be gone."""

_LONGEST_NAME = 200
_FIRST = ("trajectory.json", "sample.json")
_DIGEST_LENGTH = 16


class LogMark(msgspec.Struct, frozen=True):
    """The first `size` bytes of `logs.txt` have this digest."""

    size: int
    digest: str


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one line of the journal says of files; None where it says nothing. `files` maps paths to digests."""

    files: dict[str, str] | None = None
    log: LogMark | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Evidence)


def encode_evidence(evidence: Evidence) -> bytes:
    """The keys of a journal line, each with a comma before it; nothing for no evidence."""
    body = _encoder.encode(evidence)[1:-1]
    return b"," + body if body else b""


def decode_evidence(line: bytes) -> Evidence:
    """The evidence in a sound line of the journal. Keys that are not what they should be are no evidence."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return Evidence()


class ContentDigest:
    """The digest of a content that comes in parts."""

    __slots__ = ("_hasher",)

    def __init__(self) -> None:
        self._hasher = xxhash.xxh3_64()

    def update(self, chunk: bytes) -> None:
        """Take in the next part."""
        self._hasher.update(chunk)

    @property
    def digest(self) -> str:
        """16 hex digits of everything so far."""
        return self._hasher.hexdigest()


def digest_of(chunks: Iterable[bytes]) -> str:
    """The digest of a whole content."""
    content = ContentDigest()
    for chunk in chunks:
        content.update(chunk)
    return content.digest


def is_digest(value: str) -> bool:
    """Whether `value` is a digest and not a word for what could not be digested."""
    return len(value) == _DIGEST_LENGTH and " " not in value


def record_files(entries: Mapping[str, str]) -> dict[str, str]:
    """What is recorded of a trial's directory. `entries` maps each relative path to its digest, or to a word for what else
    lies there. Files are named, the trajectory and the sample first, as far as there is room; the rest shares one digest."""
    known = {path: value for path, value in entries.items() if path not in PASSED_OVER}
    nameable = [path for path, value in known.items() if is_digest(value) and _is_nameable(path)]
    nameable.sort(key=lambda path: (path not in _FIRST, path))
    named = {path: known.pop(path) for path in nameable[:MOST_NAMED]}
    return named | ({REST: _digest_rest(known)} if known else {})


def _is_nameable(path: str) -> bool:
    return path != REST and len(path) <= _LONGEST_NAME and (path_problem(path) is None or path == "manifest.json")


def _digest_rest(entries: Mapping[str, str]) -> str:
    parts = (f"{len(path)} {path} {value}\n".encode(errors="surrogateescape") for path, value in sorted(entries.items()))
    return digest_of(parts)


class Contradiction(msgspec.Struct, frozen=True):
    """One way in which a directory is not what was recorded of it. `path` is REST where no single file is to blame."""

    path: str
    what: str


def contradictions(recorded: Mapping[str, str], entries: Mapping[str, str]) -> Iterator[Contradiction]:
    """How the `entries` of a trial's directory (as for `record_files`) differ from what was recorded of it."""
    named = recorded.keys() - {REST}
    for path in sorted(named):
        value = entries.get(path)
        if value is None:
            yield Contradiction(path, "is missing")
        elif value != recorded[path]:
            yield Contradiction(path, "is not what the result was recorded with" if is_digest(value) else f"is {value}")
    others = {path: value for path, value in entries.items() if path not in named and path not in PASSED_OVER}
    if REST in recorded:
        if _digest_rest(others) != recorded[REST]:
            yield Contradiction(REST, f"its files beyond the {len(named)} recorded by name are not what they were")
    else:
        yield from (Contradiction(path, "was not there when the result was recorded") for path in sorted(others))
