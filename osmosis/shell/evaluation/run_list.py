"""Reads what lists and details of runs show, from the small files of each run (issue 9).

Nothing is changed, and nothing here needs polars.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from osmosis.pure.errors import OsmosisError
from osmosis.pure.journal import RunHistory
from osmosis.pure.metrics_file import Metrics, decode_metrics
from osmosis.pure.plan import Manifest, decode_manifest
from osmosis.pure.run_overview import RunOverview, local_overview, may_run, newest_first, unreadable
from osmosis.shell.evaluation.clock import utc_at
from osmosis.shell.evaluation.journal_file import read_journal
from osmosis.shell.evaluation.own_files import SMALL, kind_of, read_own
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_location import ARCHIVED, run_directories


class RunListing(msgspec.Struct, frozen=True):
    """One page of runs, newest first. `total` counts all runs, `archived` those that `--fresh` moved aside (left out)."""

    runs: tuple[RunOverview, ...]
    total: int
    archived: int


def list_runs(root: Path, limit: int | None) -> RunListing:
    """The newest `limit` runs below `root`, or all. Only manifests are read of the others. Raises OsmosisError (`root`)."""
    directories = run_directories(root)
    current = [directory for directory in directories if not ARCHIVED.fullmatch(directory.name)]
    manifests = {directory.name: (directory, _manifest(directory)) for directory in current}
    ordered = newest_first(_outline(directory, manifest) for directory, manifest in manifests.values())
    page = (manifests[outline.name] for outline in ordered[:limit])
    runs = tuple(_overview(directory, manifest) for directory, manifest in page)
    return RunListing(runs, len(current), len(directories) - len(current))


def overview_of(directory: RunDirectory) -> RunOverview:
    """The overview of one run."""
    return _overview(directory, _manifest(directory))


def history_of(directory: RunDirectory, overview: RunOverview) -> RunHistory | None:
    """The journal of a run, folded; None where there is none. Raises OsmosisError when it is damaged or cannot be read."""
    if not kind_of(directory.journal):
        return None
    try:
        return read_journal(directory.journal, overview.planned).history
    except OSError as error:
        raise OsmosisError(
            f"{directory.journal} cannot be read: {error.strerror or error}.",
            hint="Check the permissions of the run directory.",
        ) from None


def is_held(directory: RunDirectory) -> bool:
    """Whether a process works on the run. The lock is tried for a moment, shared, and only of a run that may be going on."""
    try:
        descriptor = os.open(directory.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _manifest(directory: RunDirectory) -> Manifest | str:
    """The manifest, or why it cannot be read."""
    try:
        return decode_manifest(read_own(directory.manifest, SMALL), "manifest.json")
    except OSError as error:
        return f"manifest.json: {error.strerror or error}"
    except OsmosisError as error:
        return _words(error)


def _words(error: OsmosisError) -> str:
    return "; ".join([error.message, *map(str, error.problems)])


def _outline(directory: RunDirectory, manifest: Manifest | str) -> RunOverview:
    path = str(directory.path)
    if isinstance(manifest, str):
        return unreadable(path, directory.name, manifest)
    return local_overview(path, directory.name, manifest, None, held=False)


def _overview(directory: RunDirectory, manifest: Manifest | str) -> RunOverview:
    path = str(directory.path)
    if isinstance(manifest, str):
        return unreadable(path, directory.name, manifest)
    try:
        metrics = _metrics(directory)
    except OSError as error:
        return unreadable(path, directory.name, f"metrics.json: {error.strerror or error}")
    except OsmosisError as error:
        return unreadable(path, directory.name, _words(error))
    held = may_run(metrics) and is_held(directory)
    if may_run(metrics) and not held:
        # The run may have ended between the look at its metrics and the look at its lock.
        metrics = _settled(directory, metrics)
    written_at = _written_at(directory) if metrics and may_run(metrics) else None
    return local_overview(path, directory.name, manifest, metrics, held=held, written_at=written_at)


def _written_at(directory: RunDirectory) -> str | None:
    try:
        return utc_at(directory.metrics.lstat().st_mtime)
    except OSError:
        return None


def _metrics(directory: RunDirectory) -> Metrics | None:
    return decode_metrics(read_own(directory.metrics, SMALL), "metrics.json") if kind_of(directory.metrics) else None


def _settled(directory: RunDirectory, seen: Metrics | None) -> Metrics | None:
    try:
        return _metrics(directory)
    except (OSError, OsmosisError):
        return seen
