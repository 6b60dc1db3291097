"""Copying trees that nobody trusts, on a real file system (rollout_protocol 10; issue 5, must show 5)."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from osmosis.pure.tree_transfer import TransferLimits
from osmosis.shell.rollout.tree_copy import copy_tree, read_regular, regular_files, stamps


def plant(root: Path, outside: Path) -> None:
    """Honest files among everything that is not."""
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "deep" / "er" / "b.txt").write_text("b")
    (root / "link").symlink_to(outside)
    (root / "directory").symlink_to(outside.parent)
    (root / "dangling").symlink_to("/nowhere")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        directory = os.getcwd()
        os.chdir(root)  # the path of a socket may not be long
        try:
            listening.bind("socket")
        finally:
            os.chdir(directory)
    with (root / "giant").open("wb") as file:
        file.truncate(1 << 42)
    (root / "odd\nname").write_text("odd")
    (root / os.fsdecode(b"not-utf8-\xff")).write_text("odd")
    (root / "hard").hardlink_to(root / "a.txt")


@pytest.fixture
def secret(tmp_path):
    """A file outside of every tree."""
    path = tmp_path / "outside" / "secret.txt"
    path.parent.mkdir()
    path.write_text("secret")
    return path


def names(root):
    """Every entry below `root` that is not a directory."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_only_regular_files_of_bounded_size_cross(tmp_path, secret):
    """Each of the others is named with its reason; nothing is opened that could block or do something."""
    source, target = tmp_path / "source", tmp_path / "target"
    plant(source, secret)
    report = copy_tree(source, target)
    assert names(target) == {"a.txt", "deep/er/b.txt", "hard"} == set(report.copied)
    reasons = {skipped.path: skipped.reason for skipped in report.skipped}
    assert {"link", "directory", "dangling", "pipe", "socket", "giant", "odd\nname", os.fsdecode(b"not-utf8-\xff")} == set(
        reasons
    )
    assert "symlink" in reasons["link"]
    assert "special file" in reasons["pipe"]
    assert "larger than" in reasons["giant"]
    assert regular_files(source)[0] == sorted(report.copied)


def test_nothing_is_written_through_a_link(tmp_path, secret):
    """Links, files and directories in the way at the target are replaced, never followed."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "dir").mkdir(parents=True)
    (source / "dir" / "x").write_text("new")
    (source / "file").write_text("new")
    target.mkdir()
    (target / "dir").symlink_to(secret.parent)
    (target / "file").mkdir()
    (target / "file" / "old").write_text("old")
    copy_tree(source, target)
    assert (target / "dir" / "x").read_text() == (target / "file").read_text() == "new"
    assert not (target / "dir").is_symlink()
    assert names(secret.parent) == {"secret.txt"}


def test_a_source_that_is_a_link_is_no_source(tmp_path, secret):
    """Neither is a file, or nothing."""
    (tmp_path / "link").symlink_to(secret.parent)
    for source in (tmp_path / "link", secret, tmp_path / "missing"):
        assert copy_tree(source, tmp_path / "target").copied == []
    assert read_regular(tmp_path / "link" / "secret.txt", 10) is None
    assert read_regular(secret, 6) == b"secret"
    assert read_regular(secret, 5) is None
    assert read_regular(tmp_path / "missing", 5) is None


def test_copies_add_unless_they_replace(tmp_path):
    """And leave alone what has not changed since a baseline."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (target / "old").write_text("old")
    (source / "one").write_text("1")
    before = stamps(source)
    (source / "two").write_text("2")
    assert copy_tree(source, target, baseline=before).copied == ["two"]
    assert names(target) == {"old", "two"}
    (source / "one").write_text("changed")
    assert copy_tree(source, target, baseline=before).copied == ["one", "two"]
    copy_tree(source, target, replace=True)
    assert names(target) == {"one", "two"}


def test_limits_hold_for_the_whole_tree(tmp_path):
    """Entries, bytes, depth: the copy ends where they do."""
    source = tmp_path / "source"
    (source / "d" / "e").mkdir(parents=True)
    for name in "abc":
        (source / name).write_text("12345")
    (source / "d" / "e" / "f").write_text("x")
    report = copy_tree(source, tmp_path / "bytes", limits=TransferLimits(total_bytes=11))
    assert report.copied == ["a", "b", "d/e/f"]
    report = copy_tree(source, tmp_path / "entries", limits=TransferLimits(entries=2))
    assert report.copied == ["a", "b"]
    report = copy_tree(source, tmp_path / "depth", limits=TransferLimits(depth=1))
    assert (report.copied, [skipped.path for skipped in report.skipped]) == (["a", "b", "c"], ["d/e"])


def test_a_tree_that_changes_all_the_time_gives_nothing_away(tmp_path, secret):
    """While somebody swaps a file and a directory for links to outside, no copy ever holds what is outside."""
    source = tmp_path / "source"
    (source / "dir").mkdir(parents=True)
    (source / "dir" / "secret.txt").write_text("decoy!")
    (source / "file").write_text("decoy!")
    stop = threading.Event()

    def swap():
        turn = 0
        while not stop.is_set():
            turn += 1
            for name, goal in (("file", secret), ("dir", secret.parent)):
                aside = source / f".{name}"
                try:
                    (source / name).rename(aside)
                    (source / name).symlink_to(goal)
                    (source / name).unlink()
                    aside.rename(source / name)
                except OSError:
                    continue

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(150):
            target = tmp_path / f"target-{number}"
            copy_tree(source, target)
            assert all((target / name).read_text() == "decoy!" for name in names(target))
    finally:
        stop.set()
        swapping.join()
