"""Which of a rollout's files may be published."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.artifacts import ArtifactEntry, EntryKind, path_problem, publication_problem
from tests.strategies import rollout as strategies

segments = st.sampled_from(["a", "..", ".", "", "notes.txt", "manifest.json", "b\\c", "d\0", "é", "C:"]) | strategies.any_text
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


@given(paths)
def test_what_may_be_published_stays_below_its_root(path):
    """Whichever system reads the path, and it can be written as UTF-8 on one line."""
    if path_problem(path) is not None:
        return
    joined = PurePosixPath("/base", path)
    assert joined.is_relative_to("/base")
    assert ".." not in joined.parts
    assert str(joined) == f"/base/{path}"
    assert len(path.encode().splitlines()) == 1
    assert ".." not in PureWindowsPath(path).parts


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("../x", "plain relative"),
        ("/etc/passwd", "plain relative"),
        ("a//b", "plain relative"),
        ("a/./b", "plain relative"),
        ("", "plain relative"),
        ("a\\b", "backslash"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("a\u2028b", "control"),
        ("a\udcffb", "control"),
        ("manifest.json", "reserved"),
        ("a" * 1025, "longer"),
    ],
)
def test_refused_paths(path, word):
    """Each with its reason."""
    assert word in (path_problem(path) or "")


@pytest.mark.parametrize("path", ["notes.txt", "sub/manifest.json", "a b/é.txt", ".hidden", "...", "a" * 1024])
def test_allowed_paths(path):
    """Only the top-level manifest is reserved."""
    assert path_problem(path) is None


@pytest.mark.parametrize("kind", list(EntryKind))
def test_only_plain_files_and_directories(kind):
    """Links and special files are refused whatever their name."""
    problem = publication_problem(ArtifactEntry("notes.txt", kind))
    assert (problem is None) == (kind in (EntryKind.FILE, EntryKind.DIRECTORY))
