"""What an audit of a run directory says: one `Finding` a fault, and the report they add up to (issue 3, `eval verify`).

A finding is an error when something that the run says cannot be read or trusted, and a warning when nothing it says is wrong:
a leftover file, a file that others may read. A run is sound when it has no errors.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from osmosis.pure.artifacts import EntryKind


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    WARNING = "warning"


class Remedy(StrEnum):
    """How `--repair` mends what was found. Nothing is ever deleted: what is in the way is moved aside."""

    REBUILD = "rebuild"
    """Write the projections again from manifest, journal and trials."""
    MOVE_ASIDE = "move_aside"
    """Move the file out of the way; the rebuild then puts the right one in its place, if one belongs there."""
    CUT_TAIL = "cut_tail"
    """Keep the journal's torn tail in a file of its own and cut it off."""
    WRITE_ROWS = "write_rows"
    """Write `dataset_rows.jsonl` again from the dataset that was given."""
    WRITE_SOURCES = "write_sources"
    """Write `source_files.json` again from the rollout's source, which is still the one that the manifest locks."""
    RESTORE = "restore"
    """Put a trial's file back from its copy, which holds what the journal recorded of it."""
    MAKE_PRIVATE = "make_private"
    """Take the permissions of group and others away; no content changes."""


class Finding(msgspec.Struct, frozen=True):
    """One fault. `path` is relative to the run directory, `line` counts from 1; `remedy` is None where nothing helps."""

    path: str
    what: str
    line: int | None = None
    severity: Severity = Severity.ERROR
    remedy: Remedy | None = None

    @property
    def where(self) -> str:
        """`events.jsonl:7`."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    @property
    def repairable(self) -> bool:
        """Whether `--repair` mends it."""
        return self.remedy is not None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class FileFact(msgspec.Struct, frozen=True):
    """What was found at one path, without following links.

    `mode` are the permission bits. `digest` is the fingerprint of a regular file's content; `content` the bytes themselves of
    the few files that are looked into; `trouble` says why a regular file could not be read, or a directory was not entered.
    """

    kind: EntryKind
    mode: int = 0o600
    digest: str | None = None
    content: bytes | None = None
    trouble: str | None = None


class AuditStatus(StrEnum):
    """How an audit ended. Exit codes follow from it in one place."""

    SOUND = "sound"
    REPAIRED = "repaired"
    UNSOUND = "unsound"


class AuditReport(msgspec.Struct, frozen=True):
    """The result of `osmosis eval verify`.

    `findings` are those that stand now, `repaired` those that were mended. The counts are the journal's: planned =
    succeeded + failed + skipped + pending. They are all zero when manifest or journal cannot be read to the end; `records` are
    the journal's sound ones. `unchecked` says what was not compared, and why; `advice` what a person can do about findings
    that no repair mends; `kept` names the files that a repair moved aside, relative to the run directory.
    """

    status: AuditStatus
    run_name: str
    path: str
    planned: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0
    records: int = 0
    findings: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    unchecked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
