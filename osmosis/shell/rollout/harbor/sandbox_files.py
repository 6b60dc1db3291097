"""Moves files in and out of a running sandbox without its help, and without following it anywhere (issue 5, hostile artifacts).

A path is resolved as the sandbox itself would resolve it, links included, but by a call of the kernel that never leaves the
sandbox's root. What is taken out goes through `tree_copy`: contents of regular files of bounded size, nothing else.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from osmosis.pure.tree_transfer import TransferLimits
from osmosis.shell.rollout.tree_copy import CopyReport, copy_between, copy_file

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LIMITS = TransferLimits()

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class SandboxFiles:
    """The files of a sandbox, seen from outside through `root`, the descriptor of its root directory."""

    def __init__(self, root: int) -> None:
        self._root = root

    def close(self) -> None:
        """Let go of the root."""
        os.close(self._root)

    def make_directory(self, path: str, mode: int | None = None) -> None:
        """Make a directory and those above it; one that is there stays. `mode` is set in either case."""
        with self._directory(path, make=True) as directory:
            if mode is not None:
                os.fchmod(directory, mode)

    def put_file(self, source: Path, target: str) -> None:
        """Copy a file of this machine into the sandbox. Raises OSError; also for a source that is no regular file."""
        place = PurePosixPath(target)
        with _host_directory(source.parent) as origin, self._directory(str(place.parent), make=True) as directory:
            problem = copy_file(origin, source.name, directory, place.name, limit=_LIMITS.total_bytes, keep_mode=True)
        if problem is not None:
            raise OSError(f"{source} was not copied: {problem}")

    def put_directory(self, source: Path, target: str) -> CopyReport:
        """Copy the files below a directory of this machine into one of the sandbox."""
        with _host_directory(source) as origin, self._directory(target, make=True) as directory:
            return copy_between(origin, directory, keep_mode=True)

    def get_file(self, source: str, target: Path) -> None:
        """Copy a file out. Raises OSError; also for anything that is no regular file of bounded size."""
        place = PurePosixPath(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._directory(str(place.parent)) as origin, _host_directory(target.parent) as directory:
            problem = copy_file(origin, place.name, directory, target.name, limit=_LIMITS.file_bytes)
        if problem is not None:
            raise OSError(f"{source} was not taken out of the sandbox: {problem}")

    def get_directory(self, source: str, target: Path) -> CopyReport:
        """Copy the regular files below a directory out. Raises OSError if it is not there."""
        target.mkdir(parents=True, exist_ok=True)
        with self._directory(source) as origin, _host_directory(target) as directory:
            return copy_between(origin, directory)

    @contextmanager
    def _directory(self, path: str, *, make: bool = False) -> Iterator[int]:
        """The descriptor of a directory of the sandbox."""
        try:
            descriptor = self._open(path)
        except FileNotFoundError:
            if not make:
                raise
            self._make(PurePosixPath(path))
            descriptor = self._open(path)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _make(self, path: PurePosixPath) -> None:
        with self._directory(str(path.parent), make=path != path.parent) as parent:
            try:
                os.mkdir(path.name, 0o755, dir_fd=parent)
            except FileExistsError:
                pass

    def _open(self, path: str) -> int:
        how = _How(_DIRECTORY, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
        descriptor: int = _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(self._root),
            ctypes.c_char_p(os.fsencode(path or "/")),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        return descriptor


@contextmanager
def _host_directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
