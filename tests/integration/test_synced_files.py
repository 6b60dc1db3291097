"""Making durable what somebody else wrote, side by side (decision 0062): everything, once, and nothing that is a trap."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from osmosis.shell.evaluation import synced_files
from osmosis.shell.evaluation.synced_files import sync_directory, sync_file, sync_trees

TREES = 30


class Disk:
    """The system's `fsync`, which notes what it was asked for and can refuse."""

    def __init__(self) -> None:
        self.synced: Counter[str] = Counter()
        self.threads: set[int] = set()
        self.refuse: dict[str, int] = {}
        self._lock = threading.Lock()

    def fsync(self, descriptor: int) -> None:
        """One call."""
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        with self._lock:
            self.synced[path] += 1
            self.threads.add(threading.get_ident())
        if number := self.refuse.get(Path(path).name):
            raise OSError(number, os.strerror(number))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """In the system's place."""
    disk = Disk()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    return disk


def trees(root: Path) -> list[Path]:
    """Directories as rollouts leave them, traps among their files."""
    outside = root / "outside"
    outside.write_text("not ours")
    for number in range(TREES):
        tree = root / f"tree-{number}"
        (tree / "artifacts" / "deep").mkdir(parents=True)
        for path in ("trajectory.json", "sample.json", "artifacts/deep/a", ".marker"):
            (tree / path).write_text(path)
        (tree / "link").symlink_to(outside)
        (tree / "linked").symlink_to(root)
        os.mkfifo(tree / "pipe")
    return [root / f"tree-{number}" for number in range(TREES)]


def descriptors(root: Path) -> int:
    """How many this process has open of files and directories below `root`. Whatever else is open, other tests left."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{root}/")
    return found


def test_every_file_and_every_directory_is_synced_once(tmp_path, disk):
    """What lies below, to any depth, by several threads; no link is followed, no pipe waited for, what is named is left out."""
    paths = trees(tmp_path)
    sync_trees(paths, {".marker"})
    names = ("", "/artifacts", "/artifacts/deep", "/artifacts/deep/a", "/sample.json", "/trajectory.json")
    assert disk.synced == {f"{path}{name}": 1 for path in paths for name in names}
    assert len(disk.threads) > 1


def test_what_goes_away_meanwhile_is_left_out(tmp_path, disk):
    """A tree that is not there, and one that vanishes between the look and the sync."""
    paths = trees(tmp_path)
    sync_trees([*paths, tmp_path / "absent"])
    assert f"{paths[0]}/.marker" in disk.synced
    assert not any("absent" in path for path in disk.synced)


@pytest.mark.parametrize("name", ["trajectory.json", "deep"])
def test_a_disk_that_refuses_is_heard(tmp_path, disk, name):
    """From whatever thread, and with no descriptor left open."""
    paths = trees(tmp_path)
    disk.refuse[name] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        sync_trees(paths)
    assert descriptors(tmp_path) == 0


def test_directories_that_cannot_be_synced_need_not_be(tmp_path, disk):
    """Some file systems refuse; for a file the same answer is an error."""
    disk.refuse = {tmp_path.name: errno.EINVAL, "file": errno.EINVAL}
    sync_directory(tmp_path)
    (tmp_path / "file").write_text("content")
    with pytest.raises(OSError, match="Invalid argument"):
        sync_file(tmp_path / "file")


def test_few_descriptors_are_open_at_once(tmp_path, disk, monkeypatch):
    """However many files there are."""
    paths, most = trees(tmp_path), 0
    real = disk.fsync

    def counting(descriptor: int) -> None:
        nonlocal most
        most = max(most, descriptors(tmp_path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    sync_trees(paths)
    assert 1 < most <= synced_files._OPEN_AT_ONCE + 1, "files, and the directory that is being looked at"
