"""What may cross the border of a sandbox (rollout_protocol 10; issue 5, must show 5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.tree_transfer import Entry, TransferLimits, Transferred, transfer_problem

LIMITS = TransferLimits(file_bytes=10, total_bytes=15, entries=3, depth=2)


@pytest.mark.parametrize(
    ("entry", "done", "said"),
    [
        (Entry("a", EntryKind.FILE, 10), Transferred(), None),
        (Entry("a/b", EntryKind.DIRECTORY), Transferred(), None),
        (Entry("manifest.json", EntryKind.FILE, 1), Transferred(), None),
        (Entry("a", EntryKind.SYMLINK), Transferred(), "symlink"),
        (Entry("manifest.json", EntryKind.SYMLINK), Transferred(), "symlink"),
        (Entry("a", EntryKind.SPECIAL), Transferred(), "special file"),
        (Entry("a", EntryKind.FILE, 11), Transferred(), "larger than 10 bytes"),
        (Entry("a", EntryKind.FILE, 10), Transferred(1, 6), "together are larger than 15"),
        (Entry("a", EntryKind.FILE, 1), Transferred(3, 0), "more than 3 entries"),
        (Entry("a/b/c", EntryKind.DIRECTORY), Transferred(), "2 directories deep"),
        (Entry("a\\b", EntryKind.FILE), Transferred(), "backslash"),
        (Entry("a\nb", EntryKind.FILE), Transferred(), "control character"),
    ],
)
def test_each_reason_has_its_words(entry, done, said):
    """None for what may cross."""
    problem = transfer_problem(entry, done, LIMITS)
    assert problem is None if said is None else said in str(problem)


@given(
    st.text(max_size=12),
    st.sampled_from(EntryKind),
    st.integers(0, 1 << 45),
    st.builds(Transferred, st.integers(0, 200_000), st.integers(0, 1 << 40)),
)
def test_what_crosses_is_a_bounded_file_or_a_directory(path, kind, size, done):
    """Whatever a sandbox calls its entries and whatever it claims about them."""
    limits = TransferLimits()
    if transfer_problem(Entry(path, kind, size), done, limits) is None:
        assert kind in (EntryKind.FILE, EntryKind.DIRECTORY)
        assert kind is EntryKind.DIRECTORY or (size <= limits.file_bytes and done.total_bytes + size <= limits.total_bytes)
        assert not set(path) & set("\\\0\n")
        assert ".." not in path.split("/")
