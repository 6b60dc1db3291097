"""Takes digests of files while they are read: reading and hashing overlap, in memory that does not grow (issue 6).

Both ways give a hasher the whole file in order. Reads and digests of large buffers run outside the interpreter lock, so a
second core is used where there is one; where there is none, nothing is lost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO

from osmosis.pure.digest import FingerprintHasher

PART_BYTES = 2 * 2**20
"""Large enough that handing over costs little beside reading, small enough to be hashed out of a processor's cache."""

CHUNK_BYTES = 4 * 2**20
_CHUNKS_AHEAD = 2


def take_in(file: FileIO, hasher: FingerprintHasher) -> None:
    """Feed the rest of an unbuffered file to `hasher`. Raises OSError as reading does.

    Two threads take turns: while one hashes its part, the other reads the next. Each takes hold of the hasher before it lets go
    of the file, so the parts stay in order, and each hashes what it has just read, while its core still has it at hand.
    """
    reading, hashing = threading.Lock(), threading.Lock()
    given_up = threading.Event()

    def take_turns() -> None:
        part = memoryview(bytearray(PART_BYTES))
        while not given_up.is_set():
            with reading:
                size = file.readinto(part)
                hashing.acquire()
            try:
                if not size:
                    return
                hasher.update(part[:size])
            finally:
                hashing.release()

    # Not in this thread: an interrupt lands between any two steps, and one of them takes a lock.
    with ThreadPoolExecutor(2, thread_name_prefix="digest") as threads:
        try:
            for turns in [threads.submit(take_turns) for _ in range(2)]:
                turns.result()
        finally:
            given_up.set()


@contextmanager
def hashed_chunks(file: FileIO, hasher: FingerprintHasher) -> Iterator[Iterator[bytes]]:
    """The rest of an unbuffered file in chunks. `hasher` takes them in beside whatever the caller does with them, and has them
    all when they are at their end.

    Chunks are large because a thread that wants the interpreter back waits up to five milliseconds for it. The thread belongs
    to the context and not to the iterator: one that is given up half way is closed by the garbage collector, wherever it runs,
    and must not have to wait for a thread there.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="digest") as thread:
        yield _chunks(file, lambda chunk: thread.submit(hasher.update, chunk))


def _chunks(file: FileIO, hashed: Callable[[bytes], Future[None]]) -> Iterator[bytes]:
    under_way: deque[Future[None]] = deque()
    while chunk := file.read(CHUNK_BYTES):
        under_way.append(hashed(chunk))
        if len(under_way) > _CHUNKS_AHEAD:
            under_way.popleft().result()
        yield chunk
    for taken in under_way:
        taken.result()
