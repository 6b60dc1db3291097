from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from osmosis.pure.digest import SourceEntry, compare_source_files, source_tree_digest
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.evaluation.source_tree import scan_source_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small rollout directory."""
    root = tmp_path / "rollout"
    (root / "pkg").mkdir(parents=True)
    (root / "main.py").write_bytes(b"print()\n")
    (root / "pkg" / "a.py").write_bytes(b"")
    (root / "pkg" / "é.txt").write_bytes(b"x" * 3_000_000)
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def refused(root: Path) -> list[str]:
    """The problems that a scan tells, as people read them."""
    with pytest.raises(OsmosisError) as caught:
        scan_source_tree(root)
    assert caught.value.hint
    return [str(problem) for problem in caught.value.problems]


def test_the_digest_is_that_of_the_files(root):
    """Paths, executable bits, sizes and contents go into the digest, in path order, read in chunks."""
    expected = source_tree_digest(
        [
            SourceEntry("main.py", False, 8, [b"print()\n"]),
            SourceEntry("pkg/a.py", False, 0, []),
            SourceEntry("pkg/é.txt", False, 3_000_000, [b"x" * 3_000_000]),
            SourceEntry("run.sh", True, 10, [b"#!/bin/sh\n"]),
        ]
    )
    assert scan_source_tree(root) == expected


def test_times_places_and_products_of_tools_do_not_count(root, tmp_path):
    """Touching, moving, caches, environments, locks, empty directories: the source is the same."""
    before = scan_source_tree(root)
    os.utime(root / "main.py", (1, 1))
    (root / "empty").mkdir()
    for name in ("__pycache__/x.pyc", ".venv/bin/python", "uv.lock", "x.egg-info/PKG-INFO", "pkg/.git/HEAD", "pkg/build/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / ".venv" / "lib64").symlink_to(root / "nowhere")
    (root / ".venv" / "lib").symlink_to(tmp_path)
    moved = root.rename(tmp_path / "moved")
    assert scan_source_tree(moved) == before


@pytest.mark.parametrize("change", ["content", "mode", "name", "new", "gone", "hidden"])
def test_every_change_of_the_source_is_noticed_and_named(root, change):
    """Whatever is done to a file changes the digest, and the comparison names the file."""
    before = scan_source_tree(root)
    match change:
        case "content":
            (root / "main.py").write_bytes(b"print(1)")
        case "mode":
            (root / "main.py").chmod(0o744)
        case "name":
            (root / "main.py").rename(root / "main2.py")
        case "new":
            (root / "new.pyc").write_bytes(b"")
        case "gone":
            (root / "main.py").unlink()
        case "hidden":
            (root / ".env").write_bytes(b"A=1")
    after = scan_source_tree(root)
    assert after.digest != before.digest
    assert (
        compare_source_files(before.files, after.files)
        == {
            "content": ((), (), ("main.py",)),
            "mode": ((), (), ("main.py",)),
            "name": (("main2.py",), ("main.py",), ()),
            "new": (("new.pyc",), (), ()),
            "gone": ((), ("main.py",), ()),
            "hidden": ((".env",), (), ()),
        }[change]
    )


def test_a_link_to_a_file_counts_by_its_target(root, tmp_path):
    """A linked file is its content, so a change of the target is noticed."""
    target = tmp_path / "shared.py"
    target.write_bytes(b"1")
    (root / "shared.py").symlink_to(target)
    linked = scan_source_tree(root)
    target.write_bytes(b"2")
    assert compare_source_files(linked.files, scan_source_tree(root).files) == ((), (), ("shared.py",))
    (root / "shared.py").unlink()
    (root / "shared.py").write_bytes(b"1")
    assert scan_source_tree(root) == linked


def test_what_has_no_digest_is_refused_all_at_once(root, tmp_path):
    """Links to directories, broken and circular links, pipes and sockets are each named; a pipe does not hang the scan."""
    (root / "dirlink").symlink_to(tmp_path)
    (root / "pkg" / "broken").symlink_to(root / "nowhere")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    (root / "pipelink").symlink_to(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        found = sorted(refused(root))
    assert [problem.split(":")[0] for problem in found] == ["dirlink", "loop", "pipe", "pipelink", "pkg/broken", "socket"]
    assert [problem.split(": ")[1][:14] for problem in found] == [
        "a link to a di",
        "a link that le",
        "a named pipe",
        "a named pipe",
        "a link that le",
        "a socket",
    ]


def test_names_that_are_not_utf8_are_refused(root):
    """The digest's order is defined on UTF-8 names only."""
    descriptor = os.open(os.fsencode(root) + b"/x\xff.py", os.O_CREAT | os.O_WRONLY)
    os.close(descriptor)
    assert refused(root) == [r"x\udcff.py: the name is not UTF-8"]


def test_many_problems_fit_on_a_screen(root):
    """Twenty are shown, the rest is counted."""
    for number in range(50):
        (root / f"l{number}").symlink_to("nowhere")
    assert len(refused(root)) == 21
    assert refused(root)[-1] == "... and 30 more"


def test_the_output_root_is_left_out(root):
    """Results inside the rollout directory do not change its digest; a directory of the same name elsewhere does."""
    before = scan_source_tree(root)
    output = root / "pkg" / "out"
    output.mkdir()
    (output / "metrics.json").write_bytes(b"{}")
    assert scan_source_tree(root, output) == before
    assert scan_source_tree(root, root.parent) == scan_source_tree(root)
    assert scan_source_tree(root, output / "missing" / "..") == before
    assert scan_source_tree(root).digest != before.digest


def test_output_into_the_rollout_directory_itself_is_refused(root):
    """Everything would be output, so nothing would be source."""
    with pytest.raises(OsmosisError, match="cannot go to the rollout directory"):
        scan_source_tree(root, root / "pkg" / "..")


def test_a_missing_rollout_directory_is_told_at_once(tmp_path):
    """The error names the directory and the config key that led there."""
    (tmp_path / "file").write_bytes(b"")
    for name in ("missing", "file"):
        with pytest.raises(OsmosisError, match=name) as caught:
            scan_source_tree(tmp_path / name)
        assert caught.value.code is ErrorCode.NOT_FOUND
        assert "rollout" in str(caught.value.hint)


def test_a_rollout_directory_may_be_a_link(root, tmp_path):
    """Only links below the root are in question."""
    (tmp_path / "link").symlink_to(root)
    assert scan_source_tree(tmp_path / "link") == scan_source_tree(root)
