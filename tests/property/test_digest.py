from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import pytest
import xxhash
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.digest import (
    ContentHasher,
    SourceEntry,
    SourceFile,
    SourceTree,
    compare_source_files,
    decode_source_files,
    encode_source_files,
    fingerprint,
    is_excluded,
    source_tree_digest,
)
from osmosis.pure.errors import OsmosisError
from tests.strategies.data import chunked

names = st.text(st.sampled_from("ab.é/- "), min_size=1, max_size=6)
trees = st.dictionaries(names, st.tuples(st.booleans(), st.binary(max_size=8)), max_size=5)


def entries(tree: dict[str, tuple[bool, bytes]]) -> list[SourceEntry]:
    """A tree given as path -> (executable, content)."""
    return [SourceEntry(path, executable, len(data), [data]) for path, (executable, data) in tree.items()]


@given(st.binary(max_size=200), st.data())
def test_hasher_does_not_see_chunks(content, data):
    """However the content is cut, fingerprint, SHA-256 and size are those of the whole."""
    hasher = ContentHasher()
    for chunk in data.draw(chunked(content)):
        hasher.update(chunk)
    assert hasher.fingerprint == fingerprint(content)
    assert hasher.sha256 == hashlib.sha256(content).hexdigest()
    assert hasher.size == len(content)


def test_fingerprint_of_nothing():
    """The published XXH3-128 value of empty input with seed 0, in our spelling."""
    assert fingerprint(b"") == "xxh3-128:v1:99aa06d3014798d86001c324468d497f"


def test_source_digest_is_framed_as_documented():
    """The digest is that of the bytes which the module's docstring describes, written out by hand."""
    tree = source_tree_digest(entries({"b.py": (True, b"xyz"), "a/é": (False, b"")}))
    stream = (
        b"\x00\x00\x00\x00\x00\x00\x00\x04" b"a/\xc3\xa9" b"\x00" b"\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x04" b"b.py" b"\x01" b"\x00\x00\x00\x00\x00\x00\x00\x03" b"xyz"
    )  # fmt: skip
    assert tree.digest == f"xxh3-128:v1:{xxhash.xxh3_128_hexdigest(stream)}"
    assert tree.files[1] == SourceFile("b.py", True, 3, f"xxh3-128:v1:{xxhash.xxh3_128_hexdigest(b'xyz')}")


@given(trees, st.randoms(use_true_random=False))
def test_source_digest_does_not_depend_on_order(tree, random):
    """A directory listing comes in any order; the digest does not care."""
    listed = entries(tree)
    random.shuffle(listed)
    assert source_tree_digest(listed) == source_tree_digest(entries(tree))


@given(trees, trees)
def test_different_trees_have_different_digests(left, right):
    """No renaming, moving of bytes between files or names, or change of a mode bit goes unnoticed."""
    assume(left != right)
    assert source_tree_digest(entries(left)).digest != source_tree_digest(entries(right)).digest


def test_moving_bytes_between_name_and_content_is_noticed():
    """The public package's unframed digest called these two trees equal."""
    assert (
        source_tree_digest(entries({"ab": (False, b"c")})).digest != source_tree_digest(entries({"a": (False, b"bc")})).digest
    )


def test_a_file_that_changes_while_read_is_refused():
    """Fewer or more bytes than announced mean that somebody is writing."""
    for chunks in ([b"ab"], [b"abc", b"d"], []):
        with pytest.raises(OsmosisError, match=r"x\.py changed while it was read"):
            source_tree_digest([SourceEntry("x.py", False, 3, chunks)])


def test_a_path_given_twice_is_a_mistake_of_the_caller():
    """Two contents under one path have no digest."""
    with pytest.raises(ValueError, match="twice"):
        source_tree_digest([SourceEntry("x", False, 0, []), SourceEntry("x", False, 0, [])])


@pytest.mark.parametrize(
    ("path", "excluded"),
    [
        ("main.py", False),
        (".env", False),
        ("a/__pycache__/b.pyc", True),
        ("b.pyc", False),
        ("uv.lock", True),
        ("sub/uv.lock", True),
        ("uv.lock.bak", False),
        ("osmosis.egg-info/PKG-INFO", True),
        ("egg-info", False),
        (".venv/bin/python", True),
        ("venv", True),
        ("distx/a", False),
        ("dist/a", True),
        ("build", True),
        (".git/HEAD", True),
        (".gitignore", False),
        ("node_modules/x", True),
        (".pytest_cache/x", True),
        (".ruff_cache/x", True),
        ("UV.LOCK", False),
    ],
)
def test_exclusion(path, excluded):
    """What tools write beside the source does not lock a run; everything else does."""
    assert is_excluded(PurePosixPath(path).parts) is excluded


@given(trees)
def test_source_files_round_trip(tree):
    """The sidecar gives back what was digested."""
    scanned = source_tree_digest(entries(tree))
    assert decode_source_files(encode_source_files(scanned), "source_files.json") == scanned


def test_every_truncated_sidecar_is_refused():
    """A half-written sidecar is an error that names it, wherever the cut."""
    data = encode_source_files(source_tree_digest(entries({"a": (True, b"1"), "é": (False, b"2")})))
    for length in range(len(data) - 1):
        with pytest.raises(OsmosisError, match=r"run/source_files\.json"):
            decode_source_files(data[:length], "run/source_files.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"schema_version": 1', b'"schema_version": 2'),
        (b'"size": 1', b'"size": true'),
        (b'"path": "a"', b'"path": "z"'),
        (b'"path": "a"', b'"path": "b"'),
        (b'"size": 1', b'"size": 1, "x": 0'),
    ],
)
def test_a_damaged_sidecar_is_refused(old, new):
    """Another version, a wrong type, paths out of order or twice, an unknown key: none is taken for a list of files."""
    data = encode_source_files(source_tree_digest(entries({"a": (True, b"1"), "b": (False, b"22")})))
    assert old in data
    with pytest.raises(OsmosisError, match="not a list of source files"):
        decode_source_files(data.replace(old, new, 1), "s")


@given(trees, trees)
def test_comparison_names_every_change(old, new):
    """Added, removed and edited paths, each sorted, and nothing else."""
    found = compare_source_files(source_tree_digest(entries(old)).files, source_tree_digest(entries(new)).files)
    edited = sorted(path for path in old.keys() & new.keys() if old[path] != new[path])
    assert found == (tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys())), tuple(edited))


def test_empty_tree_has_a_digest():
    """An empty rollout directory is a tree like any other."""
    assert source_tree_digest([]) == SourceTree("xxh3-128:v1:99aa06d3014798d86001c324468d497f", ())
