"""Every durable change to a run's files goes through these few primitives.

Each call names its `step` (`journal.write`, `index.rename`, ...). Tests put a simulated disk in the place of this one: it
fails, fills up or loses power at a chosen step (ruling 28). Errors are the system's own; callers turn them into events.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from osmosis.shell.evaluation import synced_files

_PRIVATE: Final = 0o600
_STEM: Final = 40
"""How many characters of a file's name its unfinished version keeps: names may be 255 bytes long."""


class FileLayer:
    """The real disk. Stateless: one instance serves a whole run, from any thread."""

    def open_append(self, path: Path, *, step: str) -> int:
        """A descriptor that appends to `path`, created private (0600), with its directory entry synced."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _PRIVATE)
        try:
            # Also for a file that was there: whoever made it may not have lived to sync its name.
            self.sync_directory(path.parent, step=step)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def create(self, path: Path, *, step: str) -> int:
        """A descriptor of an empty private file at `path`, which may have been there. Its directory entry is not synced."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)

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
        """Close a descriptor that `open_append` or `create` gave."""
        os.close(descriptor)

    def replace(self, path: Path, data: bytes, *, step: str, durable: bool = True) -> None:
        """Put `data` at `path` atomically: readers see the old file or the new one.

        Also after a power cut, if it is `durable`. Otherwise whoever needs that syncs the file and its directory later.
        """
        self.replace_streamed(path, (data,), step=step, durable=durable)

    def replace_streamed(self, path: Path, chunks: Iterable[bytes], *, step: str, durable: bool = True) -> None:
        """`replace` by data that is never in memory as a whole."""
        self.make_directory(path.parent, step=f"{step}.directory")
        # A run has one writer, so a fixed name is nobody else's; what a crash leaves there, the next replacement takes along.
        unfinished = path.with_name(f".{path.name[:_STEM]}.tmp")
        descriptor = self.create(unfinished, step=f"{step}.create")
        try:
            try:
                for chunk in chunks:
                    self.write(descriptor, chunk, step=f"{step}.write")
                if durable:
                    self.sync(descriptor, step=f"{step}.sync")
            finally:
                self.close(descriptor)
            self.rename(unfinished, path, step=f"{step}.rename", durable=durable)
        except BaseException:
            self.remove(unfinished, step=f"{step}.remove")
            raise

    def make_directory(self, path: Path, *, step: str) -> None:
        """Make `path` and the parents it lacks, durably: what is synced in a directory is lost with the directory's name."""
        if path.is_dir():
            return
        self.make_directory(path.parent, step=step)
        path.mkdir(exist_ok=True)
        self.sync_directory(path.parent, step=step)

    def remove(self, path: Path, *, step: str) -> None:
        """Remove a file, if it is there. Not synced: a file that comes back after a power cut is removed again."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path, *, step: str) -> None:
        """Remove a directory with everything in it. Not synced."""
        import shutil  # noqa: PLC0415 - for what is rare; it brings every kind of compression

        shutil.rmtree(path)

    def rename(self, source: Path, target: Path, *, step: str, durable: bool = True) -> None:
        """Rename, replacing `target` if it is a file."""
        os.replace(source, target)
        if durable:
            self.sync_directory(target.parent, step=step)

    def sync_tree(self, path: Path | str, *, step: str) -> None:
        """Make durable what somebody else wrote below the directory `path`, names and regular files; links are not followed.

        Files that go away meanwhile, or that we may not read, are left out.
        """
        directories: list[Path | str] = []
        for file in synced_files.below([path], directories):
            self.sync_file(file, step=step)
        for directory in reversed(directories):
            with suppress(FileNotFoundError):
                self.sync_directory(directory, step=step)

    def sync_trees(self, paths: Iterable[Path | str], *, step: str, without: Container[str] = ()) -> None:
        """`sync_tree` of each, side by side. Entries whose name is in `without` are left out."""
        synced_files.sync_trees(paths, without)

    def sync_file(self, path: Path | str, *, step: str) -> None:
        """Make a regular file that somebody else wrote durable; anything else is left alone."""
        synced_files.sync_file(path)

    def sync_directory(self, path: Path | str, *, step: str) -> None:
        """Make the names in `path` durable. File systems that cannot sync a directory do not need it."""
        synced_files.sync_directory(path)
