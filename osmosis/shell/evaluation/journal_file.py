"""The journal on disk: reads what is there, cuts a torn tail, appends, and commits in groups (E22).

Results that arrive together share one fsync: while one group is being made durable, the next one gathers. The event loop never
waits for the disk; one thread of its own writes, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from osmosis.pure.evidence import PASSED_OVER
from osmosis.pure.journal import InvocationEnded, JournalDecoder, Record, Result, RunHistory, encode_record
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.own_files import kind_of, open_regular
from osmosis.shell.evaluation.run_evidence import RunEvidence

if TYPE_CHECKING:
    import asyncio

_CHUNK = 1 << 20


class JournalReading(msgspec.Struct, frozen=True):
    """What a journal file holds: `records` lines in `size` bytes, behind them a torn last line of `torn` bytes."""

    history: RunHistory
    records: int = 0
    size: int = 0
    torn: int = 0


def read_journal(
    path: Path, total_items: int, *, label: str | None = None, size: int | None = None, history: RunHistory | None = None
) -> JournalReading:
    """Read and fold the journal at `path`, or its first `size` bytes; an absent file is an empty journal. Raises JournalDamage.

    `history`, if given, is an empty one of `total_items` that keeps its items in its own way (`osmosis.pure.item_table`).
    Memory depends on the number of items, not on the length of the file. Reads only. Raises OSError, also for anything but a
    regular file.
    """
    decoder = JournalDecoder(label or str(path))
    history = RunHistory(total_items) if history is None else history
    if kind_of(path):
        with open(open_regular(path), "rb") as file:
            left = os.fstat(file.fileno()).st_size if size is None else size
            while chunk := file.read(min(_CHUNK, left)):
                left -= len(chunk)
                history.extend(decoder.feed(chunk))
    return JournalReading(history, decoder.count, decoder.offset, decoder.torn)


def settle_journal(files: FileLayer, path: Path, reading: JournalReading) -> None:
    """Make durable what `reading` found, without a torn tail, before anything is built on it or appended to it."""
    descriptor = files.open_append(path, step="journal.create")
    try:
        if reading.torn:
            files.truncate(descriptor, reading.size, step="journal.truncate")
        # What was read may be another process's last words, written and never synced; from now on it counts.
        files.sync(descriptor, step="journal.create.sync")
    finally:
        files.close(descriptor)


class JournalWriter:
    """Appends records after what a `JournalReading` found, on the running event loop. `size` is how many bytes are durable.

    `evidence` knows the files that records stand on: a rollout's own are made durable before its result, and their digests
    stand in its line.
    `on_committed` is called on the event loop with the rollout ids of each group that became durable; `on_failed` once, with
    the reason, when the disk refuses or a record cannot be written. After that nothing more is written.
    """

    def __init__(
        self,
        files: FileLayer,
        path: Path,
        reading: JournalReading,
        *,
        evidence: RunEvidence,
        on_committed: Callable[[tuple[str, ...]], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        from asyncio import get_running_loop  # noqa: PLC0415 - a look at a finished run reads the journal and needs no loop

        self._loop = get_running_loop()
        self._files = files
        self._sequence = reading.records
        self.size = reading.size
        self._written = reading.size
        self._evidence = evidence
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._pending: list[Record] = []
        self._going_on: set[str] = set()
        self._writing: asyncio.Task[None] | None = None
        self._failed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        settle_journal(files, path, reading)
        self._descriptor = files.open_append(path, step="journal.open")

    def append(self, record: Record) -> None:
        """Write `record` after all earlier ones, soon; it becomes durable with the next result, or at `close`.

        A killed process leaves it behind all the same: when the run began, and what it had in flight (ruling 1).
        """
        self._add(record)

    def commit(self, result: Result, *, over: bool = True) -> None:
        """Write `result` and make it durable soon, together with whatever else is waiting. A rollout that is not `over` may
        still write, so nothing is said of its files."""
        if not over:
            self._going_on.add(result.rollout_id)
        self._add(result)

    async def close(self) -> None:
        """Write and sync what is left, and close the file. A disk that refuses is reported like any other failure."""
        if self._writing is not None:
            await self._writing
        if not self._failed and self.size < self._written:
            await self._attempt(self._sync)
        self._thread.shutdown()
        self._files.close(self._descriptor)

    def _add(self, record: Record) -> None:
        self._pending.append(record)
        if self._writing is None:
            self._writing = self._loop.create_task(self._write_groups())

    async def _write_groups(self) -> None:
        while self._pending and not self._failed:
            group, self._pending = self._pending, []
            durable = tuple(record.rollout_id for record in group if isinstance(record, Result))
            if await self._attempt(partial(self._write, group, sync=bool(durable))) and durable:
                self._on_committed(durable)
        self._writing = None

    async def _attempt(self, work: Callable[[], None]) -> bool:
        try:
            await self._loop.run_in_executor(self._thread, work)
        except Exception as error:  # noqa: BLE001 - a writer that dies without a word would leave the run waiting for ever
            self._failed = True
            await self._loop.run_in_executor(self._thread, self._take_back)
            self._on_failed(error)
            return False
        return True

    def _write(self, group: list[Record], *, sync: bool) -> None:
        self._sync_evidence(record.rollout_id for record in group if isinstance(record, Result))
        encoded = [self._encode(record, number) for number, record in enumerate(group, self._sequence + 1)]
        data = b"".join(encoded)
        if any(isinstance(record, InvocationEnded) for record in group):
            # What the record says of the log must still be true after a power cut.
            self._files.sync_file(self._evidence.log, step="log.settle")
        self._files.write(self._descriptor, data, step="journal.write")
        self._sequence += len(group)
        self._written += len(data)
        if sync:
            self._sync()

    def _encode(self, record: Record, number: int) -> bytes:
        over = not (isinstance(record, Result) and record.rollout_id in self._going_on)
        return encode_record(record, number, self._evidence.of(record, first=number == 1, over=over))

    def _sync_evidence(self, rollout_ids: Iterable[str]) -> None:
        present = [directory for name in rollout_ids if (directory := self._evidence.trial(name)).is_dir()]
        self._files.sync_trees(present, step="trial", without=PASSED_OVER)
        for parent in {directory.parent for directory in present}:
            self._files.sync_directory(parent, step="trials")

    def _sync(self) -> None:
        self._files.sync(self._descriptor, step="journal.sync")
        self.size = self._written

    def _take_back(self) -> None:
        """Cut off what could not be made durable, as far as the disk still obeys.

        After a failed sync the system may show bytes that it has given up writing: a later start would trust them, and
        lose them with the next power cut.
        """
        with suppress(OSError):
            self._files.truncate(self._descriptor, self.size, step="journal.take_back")
            self._files.sync(self._descriptor, step="journal.take_back.sync")
