"""Which of a rollout's files may be published (contract: eval_local 1.4 and 10).

A rollout writes what it likes below its artifacts directory, so every entry is hostile until judged. Only regular files with a
portable relative name are copied, listed or sent: no symlink anywhere on the way, no device or FIFO, no name that another
system would read as an escape, and no top-level `manifest.json`, which is the platform's own. The caller looks at the entry
without following links and again when it opens it; this module decides from what was seen.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import Final

import msgspec

MAX_PATH_LENGTH: Final = 1024
RESERVED_PATHS: Final = frozenset({"manifest.json"})

_CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


class EntryKind(StrEnum):
    """What an entry is, as `lstat` sees it."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    SPECIAL = "special file"


class ArtifactEntry(msgspec.Struct, frozen=True):
    """One entry below an artifacts directory; `path` is relative to it, with `/` between its segments."""

    path: str
    kind: EntryKind


def path_problem(path: str) -> str | None:
    """Why a relative path may not be published, or None if it may. `path` has `/` between its segments."""
    if len(path) > MAX_PATH_LENGTH:
        return f"its path is longer than {MAX_PATH_LENGTH} characters"
    if "\\" in path:
        return "its path holds a backslash"
    if any(unicodedata.category(mark) in _CONTROL_CATEGORIES for mark in path):
        return "its path holds a control character or is not valid text"
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        return "its path is not a plain relative path"
    if path in RESERVED_PATHS:
        return f"{path} is reserved"
    return None


def publication_problem(entry: ArtifactEntry) -> str | None:
    """Why an entry may not be published or walked into, or None if it may."""
    if entry.kind in (EntryKind.SYMLINK, EntryKind.SPECIAL):
        return f"it is a {entry.kind}"
    return path_problem(entry.path)
