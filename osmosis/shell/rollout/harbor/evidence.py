"""Writes and checks the evidence of trials (rollout_protocol 13.8). What it must contain is up to `pure.trial_evidence`."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from osmosis.pure.artifacts import path_problem
from osmosis.pure.trial_evidence import (
    LOGS,
    MANIFEST_NAME,
    MAX_FILE_BYTES,
    RESULT_NAME,
    EvidenceFile,
    EvidenceManifest,
    Excluded,
    decode_evidence_manifest,
    encode_evidence_manifest,
    evidence_problems,
    excluded_kind,
)
from osmosis.shell.rollout.tree_copy import read_regular, regular_files

EVIDENCE_NAME = "harbor"

_LOG_FILES = ("trial.log", "exception.txt")
_LOG_DIRECTORIES = ("agent", "verifier")


def log_sources(trial: Path) -> Iterator[tuple[str, Path]]:
    """(name below `logs/`, path) of each file and directory of a trial that is a log."""
    for name in _LOG_FILES:
        yield name, trial / name
    for name in _LOG_DIRECTORIES:
        yield name, trial / name
    steps = trial / "steps"
    if steps.is_dir() and not steps.is_symlink():
        for step in sorted(steps.iterdir()):
            for name in _LOG_DIRECTORIES:
                yield f"steps/{step.name}/{name}", step / name


def write_evidence(trial: Path, directory: Path, *, rollout_id: str, process_id: str | None) -> None:
    """Write the evidence of a trial into `directory`, replacing what is there."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    files: list[EvidenceFile] = []
    errors: list[str] = []
    excluded: Counter[str] = Counter()
    for name, path in _candidates(trial, errors):
        kind = excluded_kind(name)
        if kind is not None:
            excluded[kind] += 1
            continue
        data = read_regular(path, MAX_FILE_BYTES)
        problem = path_problem(name)
        if problem is not None or data is None:
            errors.append(f"{name!a}: {problem or 'it is no regular file of bounded size'}")
            continue
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        files.append(_entry(name, data))
    manifest = EvidenceManifest(
        rollout_id=rollout_id,
        process_id=process_id,
        excluded=Excluded(excluded["opencode_database"], excluded["opencode_snapshot"]),
        complete=not errors,
        files=tuple(files),
        errors=tuple(errors),
    )
    (directory / MANIFEST_NAME).write_bytes(encode_evidence_manifest(manifest))


def _candidates(trial: Path, errors: list[str]) -> Iterator[tuple[str, Path]]:
    yield RESULT_NAME, trial / RESULT_NAME
    for name, path in log_sources(trial):
        if path.is_dir() and not path.is_symlink():
            inside, skipped = regular_files(path)
            errors += [f"{LOGS}{name}/{entry.path!a}: {entry.reason}" for entry in skipped]
            yield from ((f"{LOGS}{name}/{file}", path / file) for file in inside)
        elif path.exists() or path.is_symlink():
            yield f"{LOGS}{name}", path


def _entry(name: str, data: bytes) -> EvidenceFile:
    return EvidenceFile(name, len(data), hashlib.sha256(data).hexdigest())


def verify_trial_evidence(directory: Path | str, rollout_id: str, process_id: str | None = None) -> EvidenceManifest:
    """The manifest of a directory of evidence. Raises ValueError with everything that is wrong with it."""
    directory = Path(directory)
    data = read_regular(directory / MANIFEST_NAME, MAX_FILE_BYTES)
    if data is None:
        raise ValueError(f"{directory} holds no {MANIFEST_NAME}")
    manifest = decode_evidence_manifest(data)
    inside, skipped = regular_files(directory)
    present = {}
    for path in inside:
        content = read_regular(directory / path, MAX_FILE_BYTES)
        if path != MANIFEST_NAME and content is not None:
            present[path] = _entry(path, content)
    strange = [entry.path for entry in skipped]
    problems = evidence_problems(manifest, present, strange, rollout_id=rollout_id, process_id=process_id)
    if problems:
        raise ValueError(f"The evidence in {directory} is not sound: " + "; ".join(problems))
    return manifest


def trial_evidence_inventory(
    root: Path | str, ids: Iterable[str], process_id: str | None = None
) -> dict[str, EvidenceManifest | None]:
    """The sound manifest of each rollout below `root`; None for one without sound evidence."""
    found: dict[str, EvidenceManifest | None] = {}
    for rollout_id in ids:
        try:
            found[rollout_id] = verify_trial_evidence(Path(root) / rollout_id / EVIDENCE_NAME, rollout_id, process_id)
        except ValueError:
            found[rollout_id] = None
    return found
