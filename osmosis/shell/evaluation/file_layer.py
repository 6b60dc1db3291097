"""Every durable write of a run goes through these few primitives.

Each call names its `step` (`journal.write`, `index.rename`, ...). Tests put a simulated disk in the place of this one: it
fails, fills up or loses power at a chosen step (ruling 28). Errors are the system's own; callers turn them into events.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

_PRIVATE: Final = 0o600
_UNSYNCABLE: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})


class FileLayer:
    """The real disk. Stateless: one instance serves a whole run, from any thread."""

    def open_append(self, path: Path, *, step: str) -> int:
        """A descriptor that appends to `path`, created private (0600) with its directory entry synced."""
        exists = path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)
        if not exists:
            self.sync_directory(path.parent, step=step)
        return descriptor

    def write(self, descriptor: int, data: bytes, *, step: str) -> None:
        """Write all of `data`, however many calls it takes."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int, *, step: str) -> None:
        """Make what was written durable."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, length: int, *, step: str) -> None:
        """Cut the file to `length` bytes."""
        os.ftruncate(descriptor, length)

    def close(self, descriptor: int) -> None:
        """Close a descriptor that `open_append` gave."""
        os.close(descriptor)

    def replace(self, path: Path, data: bytes, *, step: str) -> None:
        """Put `data` at `path` atomically and durably: readers see the old file or the new one, also after a power cut."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            try:
                self.write(descriptor, data, step=f"{step}.write")
                self.sync(descriptor, step=f"{step}.sync")
            finally:
                os.close(descriptor)
            self.rename(Path(name), path, step=f"{step}.rename")
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def rename(self, source: Path, target: Path, *, step: str) -> None:
        """Rename, durably, replacing `target` if it is a file."""
        source.replace(target)
        self.sync_directory(target.parent, step=step)

    def sync_directory(self, path: Path, *, step: str) -> None:
        """Make the names in `path` durable. File systems that cannot sync a directory do not need it."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            return
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _UNSYNCABLE:
                raise
        finally:
            os.close(descriptor)
