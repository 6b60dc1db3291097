"""What happens to a trial's files once it is over, in a strict order (contract: rollout_protocol 13.8; E9, E12).

First the rollout's key is taken out of every file, and whatever cannot be cleaned is deleted; only then is anything copied to
where runners look: the grader's artifacts, the logs, the evidence, the artifacts. Everything is read as hostile.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from osmosis.pure.container_files import GRADER_ARTIFACTS_NAME
from osmosis.pure.secret_forms import forms
from osmosis.pure.tree_transfer import TransferLimits
from osmosis.shell.rollout.harbor.evidence import EVIDENCE_NAME, log_sources, write_evidence
from osmosis.shell.rollout.tree_copy import copy_tree, read_regular

logger = logging.getLogger(__name__)

CLEANABLE_BYTES = 256 << 20
SHORTEST_KEY = 8

_MARKER = b"[REDACTED]"
_CONVENTION = Path("artifacts", "logs", "artifacts")


@dataclass(frozen=True)
class Aftermath:
    """What is to be done. `kept` is the rollout's own directory; `cancelled` trials keep only their evidence."""

    trial: Path
    kept: Path
    rollout_id: str
    process_id: str | None
    key: str | None
    cancelled: bool
    clean_up: bool


def settle(work: Aftermath) -> tuple[str, ...]:
    """Do it. Returns what was left out, each with its reason. Raises OSError if this machine's own disk refuses."""
    if not work.trial.is_dir() or work.trial.is_symlink():
        return ()
    skipped = _clean(work.trial, work.key)
    if not work.trial.is_dir():
        return tuple(skipped)
    if not work.cancelled:
        skipped += _copied(work.trial / "verifier" / GRADER_ARTIFACTS_NAME, work.trial / _CONVENTION, "artifacts")
        skipped += _copy_logs(work.trial, work.kept / "logs")
    write_evidence(work.trial, work.kept / EVIDENCE_NAME, rollout_id=work.rollout_id, process_id=work.process_id)
    if not work.cancelled:
        skipped += _copied(work.trial / "artifacts", work.kept / "artifacts", "artifacts", replace=True)
    if work.cancelled or work.clean_up:
        shutil.rmtree(work.trial, ignore_errors=True)
    return tuple(skipped)


def _clean(trial: Path, key: str | None) -> list[str]:
    """Take the key out of every file, and take out everything that is neither file nor directory."""
    secrets = sorted(forms(key), key=len, reverse=True) if key and len(key) >= SHORTEST_KEY else []
    removed: list[str] = []
    try:
        for directory, names, files in os.walk(trial):
            for name in [*names, *files]:
                path = Path(directory, name)
                reason = _cleaned(path, [secret.encode() for secret in secrets])
                if reason is not None:
                    path.unlink()
                    removed.append(f"{str(path.relative_to(trial))!a}: {reason}")
    except OSError as error:
        logger.error("The trial %s cannot be cleaned and is dropped: %s", trial.name, error)
        shutil.rmtree(trial, ignore_errors=True)
        return [*removed, f"{trial.name!a}: the whole trial, since it cannot be cleaned ({error.strerror})"]
    return removed


def _cleaned(path: Path, secrets: list[bytes]) -> str | None:
    """Clean one file in place; the reason if it must go."""
    facts = path.lstat()
    if stat.S_ISDIR(facts.st_mode):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return "it is a symlink" if stat.S_ISLNK(facts.st_mode) else "it is a special file"
    if facts.st_size > CLEANABLE_BYTES:
        return f"it is larger than {CLEANABLE_BYTES} bytes"
    if not secrets:
        return None
    data = read_regular(path, CLEANABLE_BYTES)
    if data is None:
        return "it cannot be read"
    clean = data
    for secret in secrets:
        clean = clean.replace(secret, _MARKER)
    if clean != data:
        unfinished = path.with_name(f".{path.name[:100]}.osmosis-clean")
        unfinished.unlink(missing_ok=True)
        with unfinished.open("xb") as file:
            file.write(clean)
        unfinished.replace(path)
    return None


def _copy_logs(trial: Path, target: Path) -> list[str]:
    skipped: list[str] = []
    for name, source in log_sources(trial):
        if source.is_dir() and not source.is_symlink():
            skipped += _copied(source, target / name, f"logs/{name}")
            continue
        data = read_regular(source, CLEANABLE_BYTES)
        if data is not None:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
    return skipped


def _copied(source: Path, target: Path, label: str, *, replace: bool = False) -> list[str]:
    report = copy_tree(source, target, limits=TransferLimits(), replace=replace)
    return [f"{label}/{entry}" for entry in report.skipped]
