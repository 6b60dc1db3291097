"""`osmosis eval verify --repair`: performs the remedies that an audit found (issue 3; decisions 0013 and 0014).

Nothing is deleted: what is in the way is moved aside. Manifest and journal are never written, but for the torn tail that is cut
off, and a trial's file only where the journal proves that its copy is what it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.evidence import digest_of
from osmosis.pure.finding import AuditReport, Remedy
from osmosis.pure.journal import RunHistory
from osmosis.pure.journal_audit import JOURNAL
from osmosis.pure.plan import Manifest
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.hostile_files import Unreadable, read_file
from osmosis.shell.evaluation.journal_file import JournalReading, settle_journal
from osmosis.shell.evaluation.own_files import kind_of, open_regular
from osmosis.shell.evaluation.projection import MAX_FILE_BYTES, Projector
from osmosis.shell.evaluation.run_directory import RunDirectory


class ProvenCopy(msgspec.Struct, frozen=True):
    """A copy from which a trial's file is put back: where it lies, and the digest that the journal has of it."""

    path: str
    digest: str


class Examination(msgspec.Struct, frozen=True):
    """One look: the report, and what a repair needs. `copies` is by the path of the trial's file; all paths are relative to
    the run directory."""

    report: AuditReport
    manifest: Manifest | None = None
    reading: JournalReading = JournalReading(RunHistory(0))
    dataset_rows: bytes | None = None
    source_files: bytes | None = None
    copies: dict[str, ProvenCopy] = {}


class Repair:
    """Performs the remedies of one examination."""

    def __init__(self, files: FileLayer, directory: RunDirectory, before: Examination) -> None:
        self._files = files
        self._directory = directory
        self._before = before
        self._stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        self._aside: Path | None = None

    def restore(self) -> list[str]:
        """Put the files of trials back that have a proven copy. Returns what was moved aside, as `perform` does."""
        return [kept for path in self._paths(Remedy.RESTORE) for kept in self._restore(path, self._before.copies[path])]

    def perform(self) -> list[str]:
        """Mend everything that can be, and return the paths of what was kept, relative to the run directory."""
        kept = [self._cut_tail()] if self._paths(Remedy.CUT_TAIL) else []
        kept += self._move_aside(self._paths(Remedy.MOVE_ASIDE))
        for path in self._paths(Remedy.MAKE_PRIVATE):
            self._make_private(self._directory.path / path)
        if self._paths(Remedy.WRITE_ROWS):
            kept += self._write(self._directory.dataset_rows, self._before.dataset_rows)
        if self._paths(Remedy.WRITE_SOURCES):
            kept += self._write(self._directory.source_files, self._before.source_files)
        if self._paths(Remedy.REBUILD, Remedy.MOVE_ASIDE):
            assert self._before.manifest is not None
            Projector(self._files, self._directory, lambda _: None).finalize(
                self._before.manifest, self._before.reading.history
            )
        return kept

    def _paths(self, *remedies: Remedy) -> list[str]:
        return sorted({finding.path for finding in self._before.report.findings if finding.remedy in remedies})

    def _cut_tail(self) -> str:
        """The tail is durable in a file of its own before the journal is cut."""
        journal, size = self._directory.journal, self._before.reading.size
        with open(open_regular(journal), "rb") as file:
            file.seek(size)
            tail = file.read()
        target = self._unused(f"{JOURNAL}.torn-{self._stamp}")
        self._files.replace(target, tail, step="torn_tail")
        settle_journal(self._files, journal, self._before.reading)
        return target.name

    def _restore(self, path: str, copy: ProvenCopy) -> Iterator[str]:
        try:
            data = read_file(self._directory.path, copy.path, MAX_FILE_BYTES)
        except Unreadable:
            return
        if digest_of([data]) != copy.digest:
            return
        # A rollout may have left links where directories belong: nothing is written through one.
        parents = [parent.as_posix() for parent in reversed(Path(path).parents[:-1])]
        in_the_way = [parent for parent in parents if self._kind(parent) not in (None, EntryKind.DIRECTORY)]
        yield from self._move_aside(in_the_way[:1] or [path])
        self._files.replace(self._directory.path / path, data, step="restore")

    def _kind(self, relative: str) -> EntryKind | None:
        return kind_of(self._directory.path / relative)

    def _move_aside(self, paths: Iterable[str]) -> Iterator[str]:
        """Into a directory of this repair, each under its own path. A parent goes with all that it holds."""
        for relative in paths:
            source = self._directory.path / relative
            if kind_of(source) is None:
                continue
            self._aside = aside = self._aside or self._unused(f"replaced-{self._stamp}")
            target = aside / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            self._files.rename(source, target, step="move_aside")
            yield target.relative_to(self._directory.path).as_posix()

    def _make_private(self, path: Path) -> None:
        if kind_of(path) is not EntryKind.FILE:
            return
        descriptor = open_regular(path)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)

    def _write(self, path: Path, data: bytes | None) -> Iterator[str]:
        """One of the run's own files, from what was found to be its content."""
        assert data is not None
        if kind_of(path) not in (None, EntryKind.FILE):
            yield from self._move_aside([path.name])
        self._files.replace(path, data, step=path.stem)

    def _unused(self, name: str) -> Path:
        """A path in the run directory that nothing has yet."""
        names = (name if number == 0 else f"{name}-{number}" for number in range(10_000))
        return next(path for name in names if kind_of(path := self._directory.path / name) is None)
