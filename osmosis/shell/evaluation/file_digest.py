"""Takes digests of files while they are read: reading and hashing overlap, in memory that does not grow (issue 6).

Both ways give a hasher the whole file in order. Reads and digests of large buffers run outside the interpreter lock, so a
second core is used where there is one; where there is none, nothing is lost.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO

from osmosis.pure.digest import FingerprintHasher

PART_BYTES = 2**20
"""Large enough that handing over costs little beside reading, small enough to be hashed out of a processor's cache."""

CHUNK_BYTES = 4 * 2**20
_CHUNKS_AHEAD = 2


def take_in(file: FileIO, hasher: FingerprintHasher) -> None:
    """Feed the rest of an unbuffered regular file to `hasher`; where the file stands is not changed. Raises OSError as reading
    does.

    Two threads, each with every other part: it reads when it likes, and hashes what it has read, while its core still has it
    at hand, when its turn comes. So both read at once, and the hasher gets the parts in order.
    """
    descriptor, start = file.fileno(), file.tell()
    turns = (queue.SimpleQueue[None](), queue.SimpleQueue[None]())
    ended = threading.Event()

    def take_turns(number: int) -> None:
        try:
            for offset in itertools.count(start + number * PART_BYTES, len(turns) * PART_BYTES):
                part = _read_part(descriptor, offset)
                turns[number].get()
                # Asked now: what lies behind the end of the file, as the other met it, came later.
                if ended.is_set():
                    return
                hasher.update(part)
                if len(part) < PART_BYTES:
                    return
                turns[1 - number].put(None)
        finally:
            ended.set()
            turns[1 - number].put(None)

    # Not in this thread: an interrupt lands between any two steps, and would leave the other without its turn.
    with ThreadPoolExecutor(len(turns), thread_name_prefix="digest") as threads:
        try:
            turns[0].put(None)
            for taken in [threads.submit(take_turns, number) for number in range(len(turns))]:
                taken.result()
        finally:
            ended.set()
            for turn in turns:
                turn.put(None)


def _read_part(descriptor: int, offset: int) -> bytes:
    """`PART_BYTES` from `offset` on; fewer only at the end of the file, as a network's file system may answer with fewer."""
    part = os.pread(descriptor, PART_BYTES, offset)
    while part and len(part) < PART_BYTES and (more := os.pread(descriptor, PART_BYTES - len(part), offset + len(part))):
        part += more
    return part


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
