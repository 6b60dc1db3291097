"""The evidence of a Harbor trial: which files prove what happened, and whether all are still there (rollout_protocol 13.8).

`manifest.json` in a rollout's `harbor/` directory lists `result.json` and everything below `logs/`, with sizes and SHA-256. It
is evidence of the trial as Harbor left it, after the rollout's key was taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from osmosis.pure.artifacts import path_problem
from osmosis.pure.canonical import decode_json, pretty_json

SCHEMA_VERSION: Final = "harbor-evidence-v1"
SELECTION_POLICY: Final = "harbor-native-logs-v1"
MANIFEST_NAME: Final = "manifest.json"
RESULT_NAME: Final = "result.json"
LOGS: Final = "logs/"
MAX_FILE_BYTES: Final = 64 << 20

_OPENCODE_DATABASE = "opencode.db"
_OPENCODE_SNAPSHOT = "snapshot/"


class EvidenceFile(msgspec.Struct, frozen=True, order=True):
    """One file of the evidence."""

    path: str
    size_bytes: int
    sha256: str


class Excluded(msgspec.Struct, frozen=True):
    """How many files of kinds that prove nothing were left out: OpenCode's database and its snapshots of the work tree."""

    opencode_database: int = 0
    opencode_snapshot: int = 0


class EvidenceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest. `complete` is false if a file that belongs here could not be taken along; `errors` says which and why."""

    schema_version: str = SCHEMA_VERSION
    rollout_id: str
    process_id: str | None = None
    selection_policy: str = SELECTION_POLICY
    excluded: Excluded = Excluded()
    complete: bool = True
    files: tuple[EvidenceFile, ...] = ()
    errors: tuple[str, ...] = ()


def excluded_kind(path: str) -> str | None:
    """The kind of file that is left out, or None for one that belongs to the evidence. `path` is relative to the trial."""
    inside = path.partition("opencode/")[2] if "/opencode/" in f"/{path}" else ""
    if path.rpartition("/")[2].startswith(_OPENCODE_DATABASE):
        return "opencode_database"
    return "opencode_snapshot" if inside.startswith(_OPENCODE_SNAPSHOT) else None


def encode_evidence_manifest(manifest: EvidenceManifest) -> bytes:
    """The bytes of `manifest.json`; its files in order."""
    ordered = msgspec.structs.replace(manifest, files=tuple(sorted(manifest.files)))
    return pretty_json(msgspec.to_builtins(ordered))


def decode_evidence_manifest(data: bytes) -> EvidenceManifest:
    """Read `manifest.json`. Raises ValueError."""
    try:
        manifest = msgspec.convert(decode_json(data), EvidenceManifest)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if manifest.schema_version != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {manifest.schema_version!r}, known is {SCHEMA_VERSION}")
    return manifest


def evidence_problems(
    manifest: EvidenceManifest,
    present: Mapping[str, EvidenceFile],
    strange: Iterable[str],
    *,
    rollout_id: str,
    process_id: str | None = None,
) -> tuple[str, ...]:
    """What is wrong with a directory of evidence: `present` are its regular files without the manifest, `strange` whatever else
    lies there. Empty if it proves the rollout `rollout_id` (of the server `process_id`, if given)."""
    problems = []
    if manifest.rollout_id != rollout_id:
        problems.append(f"it is of rollout {manifest.rollout_id!r}, not of {rollout_id!r}")
    if process_id is not None and manifest.process_id != process_id:
        problems.append(f"it is of server {manifest.process_id!r}, not of {process_id!r}")
    if not manifest.complete:
        problems.append("it is not complete: " + ("; ".join(manifest.errors) or "no reason given"))
    listed = {file.path: file for file in manifest.files}
    if len(listed) != len(manifest.files):
        problems.append("a file is listed twice")
    if RESULT_NAME not in listed:
        problems.append(f"{RESULT_NAME} is not listed")
    problems += [f"{path!a} does not belong there" for path in listed if not _belongs(path)]
    problems += [f"{path!a} is missing" for path in sorted(listed.keys() - present.keys())]
    problems += [f"{path!a} is not listed" for path in sorted(present.keys() - listed.keys())]
    problems += [f"{path!a} is not a regular file" for path in strange]
    problems += [f"{path!a} has changed" for path in sorted(listed.keys() & present.keys()) if listed[path] != present[path]]
    return tuple(problems)


def _belongs(path: str) -> bool:
    return path_problem(path) is None and (path == RESULT_NAME or path.startswith(LOGS))
