"""What may cross the border of a sandbox as a file, and what is left behind with a reason (contract: rollout_protocol 10; E12).

A tree that somebody in a sandbox could write to is hostile: it may hold links out of itself, pipes that block their reader,
devices, files that claim a terabyte, a million names. Only the contents of regular files of bounded size cross. The caller
looks without following links; this module decides from what was seen.
"""

from __future__ import annotations

from typing import Final

import msgspec

from osmosis.pure.artifacts import RESERVED_PATHS, ArtifactEntry, EntryKind, publication_problem

MEBIBYTE: Final = 1 << 20


class TransferLimits(msgspec.Struct, frozen=True):
    """How much may cross: bytes of one file, bytes of all, number of entries, levels of directories."""

    file_bytes: int = 256 * MEBIBYTE
    total_bytes: int = 2048 * MEBIBYTE
    entries: int = 100_000
    depth: int = 64


class Transferred(msgspec.Struct, frozen=True):
    """How much has crossed so far."""

    entries: int = 0
    total_bytes: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One entry of the tree; `path` is relative to its root, `size` in bytes as the file system claims it."""

    path: str
    kind: EntryKind
    size: int = 0


class Stamp(msgspec.Struct, frozen=True):
    """When a file last changed: equal stamps mean that it need not be copied again."""

    size: int
    mtime_ns: int
    ctime_ns: int


class Skipped(msgspec.Struct, frozen=True):
    """An entry that stayed behind, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path!a}: {self.reason}"


def transfer_problem(entry: Entry, done: Transferred, limits: TransferLimits) -> str | None:
    """Why an entry may not cross or be walked into; None if it may.

    Names that are reserved in published artifacts may cross: they are judged again when they are published.
    """
    if done.entries >= limits.entries:
        return f"there are more than {limits.entries} entries"
    if entry.path.count("/") >= limits.depth:
        return f"it lies more than {limits.depth} directories deep"
    problem = publication_problem(ArtifactEntry(entry.path, entry.kind))
    if problem is not None and entry.path not in RESERVED_PATHS:
        return problem
    if entry.kind is not EntryKind.FILE:
        return f"it is a {entry.kind}" if entry.kind is not EntryKind.DIRECTORY else None
    if entry.size > limits.file_bytes:
        return f"it is larger than {limits.file_bytes} bytes"
    if done.total_bytes + entry.size > limits.total_bytes:
        return f"all files together are larger than {limits.total_bytes} bytes"
    return None
