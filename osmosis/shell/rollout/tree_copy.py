"""Copies a tree that a sandbox could write to, without trusting a single entry of it (contract: rollout_protocol section 10).

Every step goes through the descriptor of a directory that was opened without following a link, so that nothing swapped in
between leads anywhere else. A file is opened as a mere handle first, and read only once that very handle was seen to be a
regular file: opening a pipe would block, opening a device may do something. What may cross is decided by `pure.tree_transfer`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.tree_transfer import Entry, Skipped, Stamp, TransferLimits, Transferred, transfer_problem

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_UNFINISHED = ".osmosis-copy.tmp"
_DEFAULT_LIMITS = TransferLimits()

_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.SYMLINK}


@dataclass
class CopyReport:
    """What crossed (relative paths) and what did not."""

    copied: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def copy_tree(
    source: Path,
    target: Path,
    *,
    limits: TransferLimits = _DEFAULT_LIMITS,
    baseline: Mapping[str, Stamp] | None = None,
    replace: bool = False,
) -> CopyReport:
    """Copy the regular files below `source` to `target`, which is made if need be; with `replace` it is emptied first.

    Files that still have the stamp in `baseline` are not copied. Things in the way at the target are replaced, links never
    written through. A source that is missing or no directory gives an empty report. Raises OSError if the target refuses.
    """
    report = CopyReport()
    try:
        origin = os.open(source, _DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return report
    try:
        if replace:
            _remove(target)
        target.mkdir(parents=True, exist_ok=True)
        destination = os.open(target, _DIRECTORY)
        try:
            _Copier(limits, baseline or {}, report, keep_mode=False).copy(origin, destination)
        finally:
            os.close(destination)
    finally:
        os.close(origin)
    return report


def copy_between(
    origin: int, destination: int, *, limits: TransferLimits = _DEFAULT_LIMITS, keep_mode: bool = False
) -> CopyReport:
    """Like `copy_tree`, between the descriptors of two directories. With `keep_mode` files stay executable."""
    report = CopyReport()
    _Copier(limits, {}, report, keep_mode=keep_mode).copy(origin, destination)
    return report


def copy_file(origin: int, name: str, destination: int, target: str, *, limit: int, keep_mode: bool = False) -> str | None:
    """Copy one entry of a directory to a name in another; the reason if it is no regular file of at most `limit` bytes.

    Raises OSError for an entry that is not there or cannot be opened.
    """
    with _opened(origin, name) as (descriptor, facts):
        if descriptor is None:
            return "it is not a regular file"
        if facts.st_size > limit:
            return f"it is larger than {limit} bytes"
        _write(destination, target, descriptor, facts.st_size, _mode(facts, keep_mode))
    return None


def stamps(source: Path, *, limits: TransferLimits = _DEFAULT_LIMITS) -> dict[str, Stamp]:
    """The stamps of the regular files below `source`, for a later `baseline`."""
    found: dict[str, Stamp] = {}
    try:
        origin = os.open(source, _DIRECTORY)
    except OSError:
        return found
    try:
        for path, facts, _ in _walk(origin, limits, CopyReport()):
            found[path] = _stamp(facts)
    finally:
        os.close(origin)
    return found


def read_regular(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file of at most `limit` bytes; None for anything else: links, pipes, giants, nothing at all."""
    try:
        directory = os.open(path.parent, _DIRECTORY)
    except OSError:
        return None
    try:
        with _opened(directory, path.name) as (descriptor, facts):
            if descriptor is None or facts.st_size > limit:
                return None
            data = b"".join(_chunks(descriptor, limit + 1))
            return data if len(data) <= limit else None
    except OSError:
        return None
    finally:
        os.close(directory)


def regular_files(root: Path, limits: TransferLimits = _DEFAULT_LIMITS) -> tuple[list[str], list[Skipped]]:
    """The relative paths of the regular files below `root`, sorted; and what else lies there, with why it does not count."""
    report = CopyReport()
    try:
        origin = os.open(root, _DIRECTORY)
    except OSError:
        return [], []
    try:
        return sorted(path for path, _, _ in _walk(origin, limits, report)), report.skipped
    finally:
        os.close(origin)


class _Copier:
    def __init__(self, limits: TransferLimits, baseline: Mapping[str, Stamp], report: CopyReport, *, keep_mode: bool) -> None:
        self._limits = limits
        self._baseline = baseline
        self._report = report
        self._keep_mode = keep_mode

    def copy(self, origin: int, destination: int) -> None:
        for path, facts, directory in _walk(origin, self._limits, self._report):
            if self._baseline.get(path) == _stamp(facts):
                continue
            *parents, name = path.split("/")
            try:
                opened = _opened(directory, name)
            except OSError as error:
                self._report.skipped.append(Skipped(path, error.strerror or "it cannot be opened"))
                continue
            with opened as (descriptor, now), _descend(destination, parents) as place:
                if descriptor is None or now.st_size > facts.st_size:
                    self._report.skipped.append(Skipped(path, "it changed while it was copied"))
                    continue
                _write(place, name, descriptor, now.st_size, _mode(now, self._keep_mode))
            self._report.copied.append(path)


def _walk(directory: int, limits: TransferLimits, report: CopyReport) -> Iterator[tuple[str, os.stat_result, int]]:
    """Yield (relative path, facts, descriptor of its directory) of each regular file that may cross."""
    used = Transferred()
    pending: list[tuple[int, str, list[str]]] = [(os.dup(directory), "", sorted(os.listdir(directory)))]
    try:
        while pending:
            parent, above, names = pending[-1]
            if not names:
                os.close(pending.pop()[0])
                continue
            name = names.pop(0)
            path = above + name
            facts = _facts(parent, name)
            if facts is None:
                continue
            kind = _KINDS.get(stat.S_IFMT(facts.st_mode), EntryKind.SPECIAL)
            problem = transfer_problem(Entry(path, kind, facts.st_size), used, limits)
            if problem is not None:
                report.skipped.append(Skipped(path, problem))
                if used.entries >= limits.entries:
                    return
                continue
            size = facts.st_size if kind is EntryKind.FILE else 0
            used = Transferred(used.entries + 1, used.total_bytes + size)
            if kind is EntryKind.FILE:
                yield path, facts, parent
                continue
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=parent)
            except OSError as error:
                report.skipped.append(Skipped(path, error.strerror or "it cannot be opened"))
                continue
            pending.append((inner, f"{path}/", sorted(os.listdir(inner))))
    finally:
        for descriptor, _, _ in pending:
            os.close(descriptor)


def _facts(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (OSError, ValueError):
        return None


def _opened(directory: int, name: str) -> AbstractContextManager[tuple[int | None, os.stat_result]]:
    """A readable descriptor of a regular file and what it is; None instead if the entry is anything else. Raises OSError."""
    handle = os.open(name, _HANDLE, dir_fd=directory)
    try:
        facts = os.fstat(handle)
        descriptor = _readable(handle) if stat.S_ISREG(facts.st_mode) else None
    except BaseException:
        os.close(handle)
        raise
    return _closing(handle, descriptor, facts)


@contextmanager
def _closing(handle: int, descriptor: int | None, facts: os.stat_result) -> Iterator[tuple[int | None, os.stat_result]]:
    try:
        yield descriptor, facts
    finally:
        if descriptor is not None and descriptor != handle:
            os.close(descriptor)
        os.close(handle)


def _readable(handle: int) -> int:
    """Open for reading exactly what `handle` holds, whatever its name stands for by now."""
    if not hasattr(os, "O_PATH"):
        return handle
    return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)


def _chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    while limit > 0 and (chunk := os.read(descriptor, min(_CHUNK, limit))):
        limit -= len(chunk)
        yield chunk


@contextmanager
def _descend(root: int, parents: list[str]) -> Iterator[int]:
    """The descriptor of a directory below `root`, made on the way; a link or file in its place is removed."""
    current = os.dup(root)
    try:
        for name in parents:
            inner = _directory(current, name)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _directory(parent: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        os.unlink(name, dir_fd=parent)
    os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _mode(facts: os.stat_result, keep: bool) -> int:
    return 0o755 if keep and facts.st_mode & 0o111 else 0o644


def _write(directory: int, name: str, source: int, size: int, mode: int) -> None:
    """Write a file whole or not at all. No more than `size` bytes are taken, however the source grows."""
    _unlink(directory, _UNFINISHED)
    descriptor = os.open(_UNFINISHED, _NEW_FILE, 0o600, dir_fd=directory)
    try:
        os.fchmod(descriptor, mode)
        for chunk in _chunks(source, size):
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
    except BaseException:
        _unlink(directory, _UNFINISHED)
        raise
    finally:
        os.close(descriptor)
    facts = _facts(directory, name)
    if facts is not None and stat.S_ISDIR(facts.st_mode):
        shutil.rmtree(name, dir_fd=directory)
    os.rename(_UNFINISHED, name, src_dir_fd=directory, dst_dir_fd=directory)


def _unlink(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


def _remove(path: Path) -> None:
    """Remove whatever is at `path`, following nothing."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def _stamp(facts: os.stat_result) -> Stamp:
    return Stamp(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
