"""A run's directory: where each file lies, how it is created, locked, archived, removed (E16, E22; `eval_local.md` 1)."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from osmosis.pure.digest import SourceTree, encode_source_files
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.plan import Manifest, encode_manifest
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.process_identity import start_token

_IDENTIFICATION_SECONDS = 10.0
"""How long a holder without a name is waited for. One that starts a run names itself, and who only looks lets go; an audit of a
large run takes longer than that, and stays without a name."""
_POLL_SECONDS = 0.05


class RunDirectory(msgspec.Struct, frozen=True):
    """The paths of one run. `output_root` holds all runs of a workspace and their locks."""

    output_root: Path
    name: str

    @property
    def path(self) -> Path:
        """The run's own directory."""
        return self.output_root / self.name

    @property
    def manifest(self) -> Path:
        """Written once, at creation."""
        return self.path / "manifest.json"

    @property
    def journal(self) -> Path:
        """The only authority on what happened."""
        return self.path / "events.jsonl"

    @property
    def trials(self) -> Path:
        """One directory a rollout id, made by the rollout server."""
        return self.path / "rollout_trials"

    @property
    def source_files(self) -> Path:
        """Per-file digests of the rollout's source (ruling 5)."""
        return self.path / "source_files.json"

    @property
    def dataset_rows(self) -> Path:
        """The selected rows, for search (E17)."""
        return self.path / "dataset_rows.jsonl"

    @property
    def index(self) -> Path:
        """One line a finished item."""
        return self.path / "index.jsonl"

    @property
    def summary(self) -> Path:
        """The same bytes as the index."""
        return self.path / "summary.jsonl"

    @property
    def progress(self) -> Path:
        """The plan's size."""
        return self.path / "progress.json"

    @property
    def metrics(self) -> Path:
        """The results. Written last of all projections, so a status of `finished` vouches for the others."""
        return self.path / "metrics.json"

    @property
    def log(self) -> Path:
        """The redacted log of all invocations."""
        return self.path / "logs.txt"

    @property
    def lock(self) -> Path:
        """Outside the run directory, so that it stays put when the run is archived."""
        return self.output_root / ".locks" / f"{self.name}.lock"

    def trial(self, rollout_id: str) -> Path:
        """The directory of one attempt."""
        return self.trials / rollout_id


def refuse_symlink(directory: RunDirectory) -> None:
    """Raise OsmosisError when the run's directory is a symbolic link: what we write must stay where the user sees it."""
    if directory.path.is_symlink():
        raise OsmosisError(
            f"{directory.path} is a symbolic link.",
            hint="Remove the link or use another --name; a run is never written through one.",
        )


def refuse_foreign(directory: RunDirectory) -> None:
    """Raise OsmosisError when a directory without a manifest holds anything but what an unfinished `create` leaves there.

    A run that fails before its first dispatch removes its directory, which must not be somebody else's.
    """
    ours = {path.name for path in (directory.trials, directory.source_files, directory.dataset_rows)}
    present = directory.path.iterdir() if directory.path.is_dir() else ()
    foreign = sorted(path.name for path in present if path.name not in ours and not path.match(".*.tmp"))
    if foreign:
        raise OsmosisError(
            f"{directory.path} exists and is not a run.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(str(directory.path / name), "is not a part of a run") for name in foreign[:_FOREIGN_SHOWN]],
            hint="Use another --name or --output, or --fresh to move the directory aside.",
        )


_FOREIGN_SHOWN = 5
_PRIVATE_DIRECTORY = 0o700


def create(
    files: FileLayer, directory: RunDirectory, manifest: Manifest, sources: SourceTree, dataset_rows: Iterable[bytes]
) -> None:
    """Lay out a new run. The manifest comes last: a directory without one is not yet a run."""
    files.make_directory(directory.trials, step="run_directory")
    # The rollout server writes below it with the caller's umask, and what rollouts say is nobody else's to read.
    directory.trials.chmod(_PRIVATE_DIRECTORY)
    # The lock made the output root, whose name must last as long as the run.
    for parent in directory.output_root.parents:
        files.sync_directory(parent, step="output_root")
    files.replace(directory.source_files, encode_source_files(sources), step="source_files")
    files.replace_streamed(directory.dataset_rows, dataset_rows, step="dataset_rows")
    files.replace(directory.manifest, encode_manifest(manifest), step="manifest")


def remove(files: FileLayer, directory: RunDirectory) -> None:
    """Remove a run that never dispatched anything, as far as the disk obeys (ruling 10). Half removed, it is still a run."""
    with suppress(OSError):
        for path in directory.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                files.remove_tree(path, step="run_directory.remove")
            elif path != directory.manifest:
                files.remove(path, step="run_directory.remove")
        files.remove_tree(directory.path, step="run_directory.remove")


def archive(files: FileLayer, directory: RunDirectory, now: datetime) -> Path:
    """Move the run aside, to `<name>.archive-<UTC time>`, with a number behind it if that is taken. Nothing is deleted."""
    stem = f"{directory.name}.archive-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    candidates = (stem if number == 0 else f"{stem}-{number}" for number in range(10_000))
    target = next(path for name in candidates if not (path := directory.output_root / name).exists())
    files.rename(directory.path, target, step="archive")
    return target


def restore(files: FileLayer, directory: RunDirectory, archived: Path) -> None:
    """Put an archived run back in its place, which is empty again; it stays archived if the disk refuses."""
    with suppress(OSError):
        files.rename(archived, directory.path, step="archive.restore")


@contextmanager
def disk_errors(directory: RunDirectory) -> Iterator[None]:
    """Turn an error of the disk into one that says which path of the run it was, and what to do."""
    try:
        yield
    except OSError as error:
        raise OsmosisError(
            f"The run directory {directory.path} cannot be written.",
            problems=[Problem(str(error.filename or directory.path), error.strerror or str(error))],
            hint="Free some space, check the permissions, or name another place with --output.",
        ) from None


class Holder(msgspec.Struct, frozen=True):
    """Who works on a run. `started_at` is ISO 8601 UTC."""

    pid: int
    command: str
    started_at: str


class RunLock:
    """The exclusive right to change a run. The kernel releases it when the process dies, however it dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def identify(self, now: str) -> None:
        """Write down who holds the lock, for whoever is refused. Called once there is work, so that a look changes nothing."""
        holder = Holder(os.getpid(), " ".join(sys.argv), now)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, msgspec.json.encode(holder), 0)


@contextmanager
def locked(directory: RunDirectory) -> Iterator[RunLock]:
    """Hold the run's lock. Raises OsmosisError that names the holder when another process has it."""
    directory.lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(descriptor):
            _take_after_all(directory, descriptor)
        yield RunLock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held_still(directory: RunDirectory) -> Iterator[None]:
    """Keep everybody from changing the run while it is looked at; others may look too. Raises OsmosisError as `locked` does.

    Nothing is made or written: where no lock is, as beside a copy, or where it may not be opened, nobody is kept out.
    """
    try:
        descriptor = os.open(directory.lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        descriptor = None
    try:
        if descriptor is not None and not _taken(descriptor, fcntl.LOCK_SH):
            _take_after_all(directory, descriptor, fcntl.LOCK_SH)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _taken(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_after_all(directory: RunDirectory, descriptor: int, kind: int = fcntl.LOCK_EX) -> None:
    """Take a lock that was held a moment ago. Raises OsmosisError once its holder is known and still there.

    A list of runs tries the lock for a moment, to see whether a run is going on: that must not turn a run away. One that has
    only just taken it gets time to say who it is.
    """
    deadline = time.monotonic() + _IDENTIFICATION_SECONDS
    while True:
        holder, late = _holder(descriptor), time.monotonic() > deadline
        if _taken(descriptor, kind):
            return
        if holder is not None or late:
            raise _held(directory, holder)
        time.sleep(_POLL_SECONDS)


def _holder(descriptor: int) -> Holder | None:
    """Who says to hold the lock; what a dead one wrote is not believed."""
    with suppress(msgspec.MsgspecError):
        holder = msgspec.json.decode(os.pread(descriptor, 1 << 16, 0), type=Holder)
        return holder if start_token(holder.pid) is not None else None
    return None


def _held(directory: RunDirectory, holder: Holder | None) -> OsmosisError:
    who = f"process {holder.pid} ({holder.command}), since {holder.started_at}" if holder else "another process"
    return OsmosisError(
        f"Run {directory.name} is being worked on by {who}.",
        code=ErrorCode.CONFLICT,
        problems=[Problem(str(directory.lock), "the lock is held")],
        hint="Wait for it to end, stop it, or use another --name.",
        details={"lock": str(directory.lock), "holder": json.loads(msgspec.json.encode(holder)) if holder else None},
    )
