"""The file thread: whatever is asked for is done once, off the loop, and its result or error comes back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from osmosis.shell.rollout.file_worker import off_loop


async def test_many_pieces_of_work_come_back_to_whoever_asked():
    """Hundreds at once, in one thread that is not the loop's."""

    def work(number: int) -> tuple[int, int]:
        return number, threading.get_ident()

    results = await asyncio.gather(*(off_loop(partial(work, number)) for number in range(300)))
    assert [number for number, _ in results] == list(range(300))
    threads = {thread for _, thread in results}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_an_error_is_raised_where_the_work_was_asked_for():
    """And the others are not touched by it."""

    def work(number: int) -> int:
        if number == 2:
            raise OSError(28, "no space")
        return number

    calls = [off_loop(partial(work, number)) for number in (1, 2, 3)]
    first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
    assert (first, last) == (1, 3)
    assert isinstance(failed, OSError)


async def test_work_whose_asker_gave_up_is_finished_all_the_same():
    """A cancelled rollout leaves no half-written file."""
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def work():
        begun.set()
        assert release.wait(90)
        done.set()

    asked = asyncio.create_task(off_loop(work))
    await asyncio.to_thread(begun.wait, 90)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    release.set()
    await off_loop(lambda: None)
    assert done.is_set()


def test_event_loops_do_not_mix():
    """Several loops in several threads each get their own results, also after a loop that ended without waiting."""

    async def abandoned():
        asyncio.create_task(off_loop(lambda: None))  # noqa: RUF006 - nobody waits for it, that is the point

    def run(number):
        asyncio.run(abandoned())
        return asyncio.run(off_loop(lambda: number))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(run, range(40))) == list(range(40))
