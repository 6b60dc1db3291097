"""Digests that are taken while a file is read."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from io import FileIO
from pathlib import Path

import pytest

from osmosis.pure.digest import ContentHasher, FingerprintHasher, fingerprint
from osmosis.shell.evaluation.file_digest import CHUNK_BYTES, PART_BYTES, hashed_chunks, take_in

SIZES = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES + 7, 2 * CHUNK_BYTES + 1]


@pytest.fixture(params=SIZES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of one of the sizes, no part of which is like another."""
    file = tmp_path / "file"
    file.write_bytes(hashlib.shake_128(b"content").digest(request.param))
    return file


def test_the_parts_reach_the_hasher_in_order(path):
    """Two threads that take turns give the digests of the whole file, whatever its size."""
    for _ in range(3):
        hasher = ContentHasher()
        with FileIO(path) as file:
            take_in(file, hasher)
        content = path.read_bytes()
        assert hasher.fingerprint == fingerprint(content)
        assert hasher.sha256 == hashlib.sha256(content).hexdigest()
        assert hasher.size == len(content)


def test_a_read_may_bring_less_than_was_asked_for(path, monkeypatch):
    """Some file systems answer with fewer bytes in the middle of a file: nothing is left out, and the end is found."""
    read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: read(descriptor, min(size, 300_000), offset))
    hasher = FingerprintHasher()
    with FileIO(path) as file:
        take_in(file, hasher)
    assert hasher.fingerprint == fingerprint(path.read_bytes())


def test_the_rest_of_a_file_is_what_lies_behind_where_it_stands(path):
    """The digest begins there, and the file stands there afterwards."""
    hasher = FingerprintHasher()
    with FileIO(path) as file:
        file.seek(1)
        take_in(file, hasher)
        assert file.tell() == 1
    assert hasher.fingerprint == fingerprint(path.read_bytes()[1:])


def test_chunks_are_the_file_and_are_hashed_on_the_way(path):
    """Whoever reads the chunks reads the file, and the digest is of just these bytes."""
    hasher = FingerprintHasher()
    with FileIO(path) as file, hashed_chunks(file, hasher) as chunks:
        content = b"".join(chunks)
    assert content == path.read_bytes()
    assert hasher.fingerprint == fingerprint(content)


def read_chunks(file: FileIO, hasher: FingerprintHasher) -> None:
    """Read the chunks to their end."""
    with hashed_chunks(file, hasher) as chunks:
        for _ in chunks:
            pass


def test_chunks_given_up_half_way_leave_no_thread(tmp_path):
    """The context ends its thread, whoever still holds the iterator, so that closing that never waits for one.

    Such an iterator is closed by the garbage collector, which may run while another thread is being started and holds the
    interpreter's own locks.
    """
    file = tmp_path / "file"
    file.write_bytes(bytes(9 * CHUNK_BYTES))
    before = set(threading.enumerate())
    with FileIO(file) as opened, suppress(ZeroDivisionError), hashed_chunks(opened, FingerprintHasher()) as chunks:
        next(chunks)
        raise ZeroDivisionError
    assert set(threading.enumerate()) <= before  # a thread of somebody else may have ended meanwhile
    assert chunks.gi_frame is not None  # type: ignore[attr-defined] # it stands half way


@pytest.mark.parametrize("read", [take_in, read_chunks])
def test_an_error_of_the_disk_reaches_the_caller(read):
    """Both ways end with the system's error instead of waiting for each other."""
    with FileIO("/proc/self/mem") as unreadable, pytest.raises(OSError, match="Input/output error"):
        read(unreadable, FingerprintHasher())


class _Failing(FingerprintHasher):
    """Takes in one part."""

    def update(self, chunk: bytes | memoryview) -> None:
        """Take in a part, or be interrupted."""
        if self.size:
            raise KeyboardInterrupt
        super().update(chunk)


@pytest.mark.parametrize("read", [take_in, read_chunks])
def test_whoever_fails_while_hashing_ends_both(tmp_path, read):
    """An exception in one of the threads leaves none behind that waits."""
    file = tmp_path / "file"
    file.write_bytes(bytes(9 * CHUNK_BYTES))
    with FileIO(file) as opened, pytest.raises(KeyboardInterrupt):
        read(opened, _Failing())
    assert opened.closed
