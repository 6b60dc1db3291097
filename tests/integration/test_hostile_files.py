"""Reading from directories that somebody else writes to: traps are listed with a reason, and never read (must show 5)."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.hostile_files import MAX_DEPTH, Unreadable, list_files, read_file
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory

LIMIT = 1 << 20
ROLLOUT = "b" * 32


@pytest.fixture
def secret(tmp_path):
    """A directory of somebody else, with a file nobody may publish."""
    place = tmp_path / "secret"
    place.mkdir()
    (place / "key.txt").write_text("private")
    return place


def plant(root: Path, secret: Path) -> None:
    """Everything that a hostile rollout may leave behind, beside two honest files."""
    (root / "sub").mkdir(parents=True)
    (root / "honest.txt").write_text("honest")
    (root / "sub" / "honest.bin").write_bytes(b"\0\1")
    (root / "final").symlink_to(secret / "key.txt")
    (root / "dangling").symlink_to(secret / "absent")
    (root / "climbing").symlink_to("../../secret/key.txt")
    (root / "directory").symlink_to(secret, target_is_directory=True)
    (root / "loop").symlink_to("loop")
    (root / "sub" / "up").symlink_to("..", target_is_directory=True)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    with (root / "giant").open("wb") as file:
        file.truncate(1 << 40)
    (root / "back\\slash").write_text("x")
    (root / "new\nline").write_text("x")
    (root / "manifest.json").write_text("{}")
    os.close(os.open(os.fsencode(root) + b"/not-\xff-text", os.O_CREAT | os.O_WRONLY))
    deep = root
    for _ in range(MAX_DEPTH + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "too-deep").write_text("x")
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o644 | 0o020000, os.makedev(1, 5))


HONEST = ["honest.txt", "sub/honest.bin"]
LEFT_OUT = {
    "final": "symlink",
    "dangling": "symlink",
    "climbing": "symlink",
    "directory": "symlink",
    "loop": "symlink",
    "sub/up": "symlink",
    "pipe": "special file",
    "socket": "special file",
    "giant": "larger than 1 MiB",
    "back\\slash": "backslash",
    "new\nline": "control character",
    "manifest.json": "reserved",
    "not-\udcff-text": "not valid text",
    "/".join(["d"] * (MAX_DEPTH + 1)): "nested more than",
}


def test_only_honest_files_are_listed(tmp_path, secret):
    """Everything else comes with its reason, in one walk that opens none of it."""
    root = tmp_path / "artifacts"
    plant(root, secret)
    listed = {entry.path: entry.problem for entry in list_files(root, LIMIT)}
    listed.pop("device", None)
    assert [path for path, problem in listed.items() if problem is None] == HONEST
    assert {path: problem for path, problem in listed.items() if problem}.keys() == LEFT_OUT.keys()
    for path, word in LEFT_OUT.items():
        assert word in (listed[path] or "")


def test_nothing_else_can_be_read(tmp_path, secret):
    """Even when it is asked for by name: a pipe does not block, a device is not opened, a giant is not loaded."""
    root = tmp_path / "artifacts"
    plant(root, secret)
    assert read_file(root, "sub/honest.bin", LIMIT) == b"\0\1"
    traps = [
        "final",
        "dangling",
        "climbing",
        "directory/key.txt",
        "loop",
        "sub/up/honest.txt",
        "pipe",
        "socket",
        "giant",
        "sub",
    ]
    for path in [*traps, "absent", "honest.txt/x", *(["device"] if os.geteuid() == 0 else [])]:
        with pytest.raises(Unreadable):
            read_file(root, path, LIMIT)


def test_a_root_that_is_a_link_has_no_files(tmp_path, secret):
    """Nor can anything be read through it."""
    (tmp_path / "artifacts").symlink_to(secret)
    assert list(list_files(tmp_path / "artifacts", LIMIT)) == []
    with pytest.raises(Unreadable):
        read_file(tmp_path / "artifacts", "key.txt", LIMIT)


def test_entries_swapped_between_look_and_read(tmp_path, secret):
    """Files and directories become links and back as fast as a thread can; what is read is only ever the honest content."""
    root = tmp_path / "artifacts"
    (root / "sub").mkdir(parents=True)
    (root / "aside").mkdir()
    (root / "sub" / "key.txt").write_text("honest")
    (root / "aside" / "link").symlink_to(secret / "key.txt")
    (root / "aside" / "file").write_text("honest")
    (root / "aside" / "linked").symlink_to(secret, target_is_directory=True)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "sub" / "key.txt", root / "aside" / "was")
            os.rename(root / "aside" / "link", root / "sub" / "key.txt")
            os.rename(root / "sub" / "key.txt", root / "aside" / "link")
            os.rename(root / "aside" / "was", root / "sub" / "key.txt")
            os.rename(root / "sub", root / "aside" / "sub")
            os.rename(root / "aside" / "linked", root / "sub")
            os.rename(root / "sub", root / "aside" / "linked")
            os.rename(root / "aside" / "sub", root / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes: set[str] = set()
    try:
        looks = 0
        # As often as it takes to have met both; somebody who never meets one of them is told below.
        while looks < 3000 or (len(outcomes) < 2 and looks < 1_000_000):
            looks += 1
            try:
                outcomes.add(read_file(root, "sub/key.txt", LIMIT).decode())
            except Unreadable:
                outcomes.add("unreadable")
            outcomes.update(
                "listed through a link" for entry in list_files(root, LIMIT) if entry.path.startswith("aside/linked/")
            )
    finally:
        stop.set()
        swapping.join()
    assert outcomes == {"honest", "unreadable"}


def test_a_run_publishes_honest_files_only(tmp_path, secret):
    """Through the projection of a finished item: copies of two files, and one warning for every trap."""
    directory = RunDirectory(tmp_path, "run")
    plant(directory.trial(ROLLOUT) / "artifacts", secret)
    warnings: list[str] = []
    projector = Projector(FileLayer(), directory, warnings.append)
    projector.publish(Result(WorkItem(0, 0), 0, ROLLOUT, Status.SUCCESS, "2026-11-30T12:35:44.521865Z", 1.0))
    projector.close()
    published = directory.path / "artifacts" / "row_0_run_0"
    files = sorted(path.relative_to(published).as_posix() for path in published.rglob("*") if not path.is_dir())
    assert files == HONEST
    assert not any(path.is_symlink() for path in published.rglob("*"))
    told = "\n".join(warnings)
    for path in LEFT_OUT.keys() - {"manifest.json"}:
        assert ascii(path) in told
    assert "private" not in told
