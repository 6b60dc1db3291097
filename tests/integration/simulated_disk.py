"""A disk that fails where a test says: a real directory behind a `FileLayer` that counts its steps (ruling 28).

Every primitive call has a label, `step:primitive`, and a number among the calls of that label in one invocation. A `Fault`
names one call and what happens there:

- `CRASH_*`: the process is gone. `Gone` is raised there and from every later call, so that nothing after it reaches the disk,
  whatever the dying code tries. What was written stays, as it does in the system's memory after a SIGKILL.
- `POWER_*`: the same, and the machine is gone too: what was not synced is lost, contents and names alike (`Platter`).
- `ENOSPC`: half of what is written arrives, then the disk is full, and stays full until the next invocation.
- `EIO`: this one call fails. A failed write leaves half of its bytes, a failed sync loses nothing and promises nothing.

A fault can also name a `moment`: something that happens outside the disk, such as the arrival of a model call.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterable
from enum import StrEnum
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.synced_files import below


class Kind(StrEnum):
    """What goes wrong, and whether it does so before, in the middle of, or after the call."""

    CRASH_BEFORE = "crash before"
    CRASH_HALF = "crash half-way"
    CRASH_AFTER = "crash after"
    POWER_BEFORE = "power loss before"
    POWER_AFTER = "power loss after"
    ENOSPC = "disk full"
    EIO = "input/output error"

    @property
    def ends_process(self) -> bool:
        """Whether the process does not live on."""
        return self not in (Kind.ENOSPC, Kind.EIO)

    @property
    def loses_power(self) -> bool:
        """Whether the machine does not live on."""
        return self in (Kind.POWER_BEFORE, Kind.POWER_AFTER)


class Point(NamedTuple):
    """The `occurrence`-th call, from 1, of the primitive at `step`; "moment" is the primitive of what is no write."""

    step: str
    primitive: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.step}:{self.primitive}#{self.occurrence}"


class Fault(NamedTuple):
    """What happens at a point."""

    point: Point
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} {self.point}"


KINDS: dict[str, tuple[Kind, ...]] = {
    "moment": (Kind.CRASH_BEFORE, Kind.POWER_BEFORE),
    "write": tuple(Kind),
} | dict.fromkeys(
    ("open", "sync", "sync_file", "truncate", "rename", "mkdir", "remove", "remove_tree", "sync_directory"),
    tuple(kind for kind in Kind if kind is not Kind.CRASH_HALF),
)
"""Which faults each primitive can suffer."""


class Gone(BaseException):
    """The process has ended. Not an `Exception`: nothing may handle it."""


class Platter:
    """What survives a power loss below `root`: for each file its last synced content, for each directory its last synced names.

    Strict as POSIX lets a file system be: syncing a file keeps its bytes and not its name, syncing a directory keeps the names
    in it and neither their contents nor its own name. What is there when a `Platter` is made is durable.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._keep(root)

    def _keep(self, directory: Path) -> None:
        self.sync_names(directory)
        for path in directory.iterdir():
            if path.is_dir():
                self._keep(path)
            else:
                self._contents[path.stat().st_ino] = path.read_bytes()

    def forget(self, inode: int) -> None:
        """A new file or directory has this inode, which an old one may have had."""
        self._contents.pop(inode, None)
        self._names.pop(inode, None)

    def sync_content(self, descriptor: int) -> None:
        """A file was synced."""
        found = os.fstat(descriptor)
        self._contents[found.st_ino] = os.pread(descriptor, found.st_size, 0)

    def sync_file(self, path: Path) -> None:
        """A file that somebody else wrote was synced."""
        self._contents[path.stat().st_ino] = path.read_bytes()

    def sync_names(self, directory: Path) -> None:
        """A directory was synced."""
        names = {}
        with os.scandir(directory) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                names[entry.name] = (found.st_ino, stat.S_ISDIR(found.st_mode))
        self._names[directory.stat().st_ino] = names

    def content(self, path: Path) -> bytes | None:
        """What survives of one file."""
        return self._surviving(self._root.stat().st_ino).get(str(path.relative_to(self._root)))

    def lose_power(self) -> None:
        """Rewrite the directory to what survives."""
        kept = self._surviving(self._root.stat().st_ino)
        for path in self._root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in kept.items():
            path = self._root / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)
                path.write_bytes(content)

    def _surviving(self, inode: int, prefix: str = "") -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for name, (child, is_directory) in self._names.get(inode, {}).items():
            path = prefix + name
            if is_directory:
                found[path] = None
                found |= self._surviving(child, path + "/")
            else:
                found[path] = self._contents.get(child, b"")
        return found


class SimulatedDisk(FileLayer):
    """The disk of one invocation. `points` are the calls so far, in order; `fired` whether the fault has happened.

    `on_gone` is called once, from whatever thread the process ends in.
    """

    def __init__(self, platter: Platter, fault: Fault | None = None, on_gone: Callable[[], None] = lambda: None) -> None:
        self.points: list[Point] = []
        self.fired = False
        self.gone = False
        self.on_gone = on_gone
        self._platter = platter
        self._fault = fault
        self._full = False
        self._seen: Counter[tuple[str, str]] = Counter()
        self._open: set[int] = set()
        self._lock = RLock()

    def moment(self, step: str) -> None:
        """Something happened outside the disk. Raises `Gone` when the process ends there, or has ended."""
        self._perform(step, "moment", lambda: None)

    def release(self) -> None:
        """Close the descriptors that the dead process left open, as the system does."""
        while self._open:
            os.close(self._open.pop())

    # --- The primitives ----------------------------------------------------------------------------------------------------

    def open_append(self, path: Path, *, step: str) -> int:
        """See `FileLayer`."""
        descriptor = self._opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, step)
        try:
            self.sync_directory(path.parent, step=step)
        except OSError:
            self.close(descriptor)
            raise
        return descriptor

    def create(self, path: Path, *, step: str) -> int:
        """See `FileLayer`."""
        return self._opened(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, step)

    def _opened(self, path: Path, flags: int, step: str) -> int:
        descriptor = -1

        def work() -> None:
            nonlocal descriptor
            exists = path.exists()
            descriptor = os.open(path, flags, 0o600)
            self._open.add(descriptor)
            if not exists:
                self._platter.forget(os.fstat(descriptor).st_ino)

        self._perform(step, "open", work)
        return descriptor

    def write(self, descriptor: int, data: bytes, *, step: str) -> None:
        """See `FileLayer`."""
        # Half of two lines may be a whole line, which nobody can tell from a finished write.
        middle = (len(data) + 1) // 2
        half = data[: middle + (data[middle - 1 : middle] == b"\n")]

        def writing(part: bytes) -> Callable[[], None]:
            return lambda: FileLayer.write(self, descriptor, part, step=step)

        self._perform(step, "write", writing(data), writing(half))

    def sync(self, descriptor: int, *, step: str) -> None:
        """See `FileLayer`. Nothing is really synced: the platter is what counts."""
        self._perform(step, "sync", lambda: self._platter.sync_content(descriptor))

    def sync_file(self, path: Path | str, *, step: str) -> None:
        """See `FileLayer`."""
        path = Path(path)
        if path.is_file() and not path.is_symlink():
            self._perform(step, "sync_file", lambda: self._platter.sync_file(path))

    def truncate(self, descriptor: int, length: int, *, step: str) -> None:
        """See `FileLayer`."""
        self._perform(step, "truncate", lambda: os.ftruncate(descriptor, length))

    def close(self, descriptor: int) -> None:
        """See `FileLayer`."""
        with self._lock:
            if descriptor in self._open:
                self._open.remove(descriptor)
                os.close(descriptor)

    def make_directory(self, path: Path, *, step: str) -> None:
        """See `FileLayer`."""
        if path.is_dir():
            return
        self.make_directory(path.parent, step=step)

        def work() -> None:
            path.mkdir(exist_ok=True)
            self._platter.forget(path.stat().st_ino)

        self._perform(step, "mkdir", work)
        self.sync_directory(path.parent, step=step)

    def remove(self, path: Path, *, step: str) -> None:
        """See `FileLayer`."""
        self._perform(step, "remove", lambda: path.unlink(missing_ok=True))

    def remove_tree(self, path: Path, *, step: str) -> None:
        """See `FileLayer`."""
        self._perform(step, "remove_tree", lambda: shutil.rmtree(path))

    def rename(self, source: Path, target: Path, *, step: str, durable: bool = True) -> None:
        """See `FileLayer`."""
        self._perform(step, "rename", lambda: os.replace(source, target))
        if durable:
            self.sync_directory(target.parent, step=step)

    def sync_trees(self, paths: Iterable[Path | str], *, step: str, without: Container[str] = ()) -> None:
        """See `FileLayer`. One after the other, so that a fault strikes a certain call."""
        directories: list[Path | str] = []
        for file in below(paths, directories, without):
            self.sync_file(file, step=step)
        for directory in directories:
            self.sync_directory(directory, step=step)

    def sync_directory(self, path: Path | str, *, step: str) -> None:
        """See `FileLayer`."""
        self._perform(step, "sync_directory", lambda: self._platter.sync_names(Path(path)))

    # --- What happens there ------------------------------------------------------------------------------------------------

    def _perform(self, step: str, primitive: str, work: Callable[[], None], half: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            if self.gone:
                raise Gone
            self._seen[step, primitive] += 1
            point = Point(step, primitive, self._seen[step, primitive])
            self.points.append(point)
            if self._full and primitive in _NEEDS_SPACE:
                half()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._fault is None or self._fault.point != point:
                work()
                return
            self.fired = True
            self._suffer(self._fault.kind, work, half)

    def _suffer(self, kind: Kind, work: Callable[[], None], half: Callable[[], None]) -> None:
        if kind in (Kind.CRASH_AFTER, Kind.POWER_AFTER):
            work()
        elif kind in (Kind.CRASH_HALF, Kind.ENOSPC, Kind.EIO):
            half()
        if kind.ends_process:
            self.gone = True
            self.on_gone()
            raise Gone
        self._full = kind is Kind.ENOSPC
        number = errno.ENOSPC if kind is Kind.ENOSPC else errno.EIO
        raise OSError(number, os.strerror(number))


_NEEDS_SPACE = frozenset({"open", "write", "mkdir", "rename"})
"""What a full disk refuses. Syncing, cutting and removing still work."""
