"""Digests: of contents, and of a rollout's source tree (rulings 4 and 5; issue "First light" section 2).

A fingerprint is written with its algorithm and format version, `xxh3-128:v1:<32 hex digits>`, so that a later format is never
mistaken for a change of content. SHA-256 stands beside it where the platform verifies.

Source tree, format v1. Entries in the order of their POSIX paths' UTF-8 bytes; each entry is framed as

    8 bytes  length of the path, big endian      8 bytes  size of the content, big endian
    n bytes  path, UTF-8                         m bytes  content
    1 byte   1 if the owner may execute it, else 0

in this order: path length, path, executable, size, content. Every length precedes what it measures, so two different trees
never give the same stream.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import xxhash

from osmosis.pure.canonical import pretty_json
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem

FINGERPRINT_FORMAT = "xxh3-128:v1"
SOURCE_FILES_SCHEMA = 1

EXCLUDED_NAMES = frozenset(
    (
        "__pycache__",
        ".git",
        ".venv",
        "venv",
        "dist",
        "build",
        "node_modules",
        ".pytest_cache",
        ".ruff_cache",
        "uv.lock",
    )
)
"""What tools write beside the source. A path with such a component is no part of it (`eval_local.md` section 2)."""


class FingerprintHasher:
    """Fingerprint and size of a content in one pass."""

    __slots__ = ("_xxh3", "size")

    def __init__(self) -> None:
        self._xxh3 = xxhash.xxh3_128()
        self.size = 0

    def update(self, chunk: bytes | memoryview) -> None:
        """Take in the next part of the content."""
        self._xxh3.update(chunk)
        self.size += len(chunk)

    @property
    def fingerprint(self) -> str:
        """`xxh3-128:v1:<32 hex digits>` of everything so far."""
        return f"{FINGERPRINT_FORMAT}:{self._xxh3.hexdigest()}"


class ContentHasher(FingerprintHasher):
    """SHA-256 as well, which takes some thirty times as long."""

    __slots__ = ("_sha256",)

    def __init__(self) -> None:
        super().__init__()
        self._sha256 = hashlib.sha256()

    def update(self, chunk: bytes | memoryview) -> None:
        """Take in the next part of the content."""
        super().update(chunk)
        self._sha256.update(chunk)

    @property
    def sha256(self) -> str:
        """64 hex digits of everything so far."""
        return self._sha256.hexdigest()


def fingerprint(content: bytes) -> str:
    """`xxh3-128:v1:<32 hex digits>` of `content`."""
    return f"{FINGERPRINT_FORMAT}:{xxhash.xxh3_128_hexdigest(content)}"


class SourceEntry(msgspec.Struct, frozen=True):
    """A file to be digested. `path` is relative and POSIX; `chunks` yields its `size` bytes and is consumed once."""

    path: str
    executable: bool
    size: int
    chunks: Iterable[bytes]


class SourceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as the source digest saw it; `digest` is the fingerprint of its content."""

    path: str
    executable: bool
    size: int
    digest: str


class SourceTree(msgspec.Struct, frozen=True):
    """The digest of a whole tree and its files in path order."""

    digest: str
    files: tuple[SourceFile, ...]


def is_excluded(parts: Sequence[str]) -> bool:
    """Whether a path with these components is left out of the source digest."""
    return any(part in EXCLUDED_NAMES or part.endswith(".egg-info") for part in parts)


def source_tree_digest(entries: Iterable[SourceEntry]) -> SourceTree:
    """Digest a source tree; entries may come in any order and are consumed one after the other, in path order.

    Raises ValueError for a path given twice, and OsmosisError when a content has another length than announced: the file
    changed while it was read.
    """
    tree = xxhash.xxh3_128()
    files: list[SourceFile] = []
    for entry in sorted(entries, key=lambda entry: entry.path.encode()):
        if files and files[-1].path == entry.path:
            raise ValueError(f"{entry.path!r} is given twice")
        files.append(_digest_entry(entry, tree))
    return SourceTree(f"{FINGERPRINT_FORMAT}:{tree.hexdigest()}", tuple(files))


def _digest_entry(entry: SourceEntry, tree: xxhash.xxh3_128) -> SourceFile:
    path = entry.path.encode()
    tree.update(len(path).to_bytes(8, "big") + path + bytes((entry.executable,)) + entry.size.to_bytes(8, "big"))
    content, size = xxhash.xxh3_128(), 0
    for chunk in entry.chunks:
        size += len(chunk)
        content.update(chunk)
        tree.update(chunk)
    if size != entry.size:
        raise OsmosisError(
            f"{entry.path} changed while it was read.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(entry.path, f"{entry.size} bytes were announced, {size} came")],
            hint="Let whatever writes to the rollout directory finish, then run the command again.",
        )
    return SourceFile(entry.path, entry.executable, size, f"{FINGERPRINT_FORMAT}:{content.hexdigest()}")


class _SourceFilesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: int
    source_digest: str
    files: tuple[SourceFile, ...]


def encode_source_files(tree: SourceTree) -> bytes:
    """The bytes of `source_files.json`, which lets a refusal name the files that changed (ruling 5)."""
    document = _SourceFilesDocument(SOURCE_FILES_SCHEMA, tree.digest, tree.files)
    return pretty_json(msgspec.to_builtins(document))


def decode_source_files(data: bytes, label: str) -> SourceTree:
    """Read `source_files.json`. `label` names the file in errors. Raises OsmosisError if it is not one."""
    try:
        document = msgspec.json.decode(data, type=_SourceFilesDocument)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise _unreadable(label, str(error)) from None
    if document.schema_version != SOURCE_FILES_SCHEMA:
        raise _unreadable(label, f"schema_version is {document.schema_version}, and {SOURCE_FILES_SCHEMA} can be read")
    paths = [file.path.encode() for file in document.files]
    if any(following <= path for path, following in itertools.pairwise(paths)):
        raise _unreadable(label, "the paths are not in order")
    return SourceTree(document.source_digest, document.files)


def _unreadable(label: str, reason: str) -> OsmosisError:
    return OsmosisError(
        f"{label} is not a list of source files.",
        problems=[Problem(label, reason)],
        hint="The file only serves to name changed files; remove it to go on without the names.",
    )


def compare_source_files(
    old: Iterable[SourceFile], new: Iterable[SourceFile]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The paths that were (added, removed, edited), each sorted. A changed executable bit is an edit."""
    before, after = _by_path(old), _by_path(new)
    edited = (path for path in before.keys() & after.keys() if before[path] != after[path])
    return tuple(sorted(after.keys() - before.keys())), tuple(sorted(before.keys() - after.keys())), tuple(sorted(edited))


def _by_path(files: Iterable[SourceFile]) -> dict[str, Any]:
    return {file.path: file for file in files}
