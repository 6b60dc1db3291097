"""The journal: what happened in a run, in order, one self-checking JSON line a record (E22, rulings 1 and 3).

`events.jsonl` is append-only and the only authority on what happened; everything else in a run directory is a projection of
it, the manifest and the trials' own files. Three kinds of record exist:

- `invocation`: one `osmosis eval run` began or ended. The end says why, and which items were in flight if the rollout server
  died, so that crash strikes survive every restart.
- `attempt`: an item is about to be dispatched under a rollout id. Written before the dispatch, synced with the next group.
- `result`: an attempt came to a terminal result. It counts only once it is durable.

Each line begins with its sequence number and ends with the xxh3-64 checksum of everything before that last key. So a flipped
bit, a lost line, a doubled line and two lines that changed places are all found, with line number and byte offset. A last
line without its newline is a torn tail: the write that a crash cut short. It is dropped and reported, never trusted.

Records of which there is one an item are `gc=False`: they hold no containers that could point back to them, and a million of
them would keep the cyclic garbage collector busy for longer than reading takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping
from enum import StrEnum
from typing import Annotated

import msgspec
import xxhash

from osmosis.pure.canonical import well_formed
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.evidence import Evidence, encode_evidence
from osmosis.pure.usage import CallUsage

JOURNAL_FORMAT = 2
"""`inputs.versions.state_schema` in the manifest. 1 was the public package's journal of bare terminal results."""

LONGEST_RECORD = 64 << 20
"""Bytes of a line. A file without lines must not be held in memory to find out."""

_CHECK_KEY = b',"check":"'
_CHECK_LENGTH = len(_CHECK_KEY) + 16 + len(b'"}')

Count = Annotated[int, msgspec.Meta(ge=0)]
_HEXADECIMAL = b"0123456789abcdef"
RolloutId = Annotated[str, msgspec.Meta(min_length=32, max_length=32, extra_json_schema={"pattern": "^[0-9a-f]{32}$"})]
"""The digits are looked at here, for many ids at once: a pattern takes longer than all the rest of reading a record."""


class WorkItem(msgspec.Struct, frozen=True, order=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One (row, run) pair. `row_index` is the position among the selected rows, from 0; `run_index` counts runs of that row."""

    row_index: Count
    run_index: Count


class Status(StrEnum):
    """How an attempt ended (E35). All three are terminal."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


class Ending(StrEnum):
    """Why an invocation ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    HALTED = "halted"
    SERVER_CRASH = "server_crash"


class InvocationStarted(msgspec.Struct, frozen=True, tag_field="kind", tag="invocation.started", omit_defaults=True):
    """An invocation began to dispatch. `at` is an ISO 8601 UTC time; `id` is random and makes rollout ids unique."""

    id: str
    at: str
    sdk_version: str
    retry_failed: bool = False
    max_in_flight: int | None = None


class InvocationEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="invocation.ended", omit_defaults=True):
    """An invocation ended of its own accord. `in_flight` names the suspects when the rollout server was lost (ruling 15)."""

    at: str
    ending: Ending
    in_flight: tuple[WorkItem, ...] = ()


class Attempt(msgspec.Struct, frozen=True, tag_field="kind", tag="attempt", omit_defaults=True, gc=False):
    """An item is about to be dispatched. `number` counts the item's attempts over the whole run, from 1."""

    item: WorkItem
    rollout_id: RolloutId
    number: int
    at: str


class Result(msgspec.Struct, frozen=True, tag_field="kind", tag="result", omit_defaults=True, gc=False):
    """An attempt's terminal result.

    `duration_ms` is wall time from dispatch to result, in milliseconds. `reward` is finite and stands only on success, where
    it may still be absent (a rollout that was not graded). `error_type` is a short category, on failures only;
    `error_message` the longer text. `calls` is the usage of each model call that the bridge saw, in order of completion;
    None when no call reported usage. `cost_usd` is what they cost together, None where that is not known.
    """

    item: WorkItem
    source_row_index: Count
    rollout_id: RolloutId
    status: Status
    at: str
    duration_ms: float
    reward: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    calls: tuple[CallUsage, ...] | None = None
    cost_usd: float | None = None


Record = InvocationStarted | InvocationEnded | Attempt | Result

_checksum = xxhash.xxh3_64_intdigest
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
_lines_decoder: msgspec.json.Decoder[list[Record]] = msgspec.json.Decoder(list[Record])


class JournalDamage(OsmosisError):
    """A complete line of the journal is not what was written. Nothing may be appended or rebuilt before a person looks."""

    def __init__(self, label: str, line: int, offset: int, reason: str) -> None:
        super().__init__(
            f"{label} is damaged.",
            problems=[Problem(f"{label}:{line}", f"{reason} (line starts at byte {offset})")],
            hint="Nothing was changed. Restore the file from a copy, or start over with --fresh (the damaged run is archived).",
            details={"path": label, "line": line, "offset": offset, "reason": reason},
        )
        self.line = line
        self.offset = offset


def encode_record(record: Record, sequence: int, evidence: Evidence | None = None) -> bytes:
    """The line for `record` as the journal's `sequence`-th (from 1), with its newline; what it says of files stands behind
    the record's own keys (`osmosis.pure.evidence`).

    Raises ValueError when a number is not finite. Lone surrogates become U+FFFD.
    """
    if isinstance(record, Result) and not math.isfinite((record.reward or 0.0) + record.duration_ms):
        raise ValueError("a journal record holds finite numbers only")
    try:
        body = _encoder.encode(record)
    except UnicodeEncodeError:
        text = {name: well_formed(value) for name, value in msgspec.structs.asdict(record).items() if isinstance(value, str)}
        body = _encoder.encode(msgspec.structs.replace(record, **text))
    line = b'{"seq":%d,' % sequence + body[1:-1] + (b"" if evidence is None else encode_evidence(evidence))
    return line + _CHECK_KEY + xxhash.xxh3_64_hexdigest(line).encode() + b'"}\n'


class JournalDecoder:
    """Turns bytes into records as they come, in any chunking.

    `offset` is the length of everything decoded so far (where the next append belongs), `count` the number of records.
    """

    def __init__(self, label: str) -> None:
        self.offset = 0
        self.count = 0
        self._label = label
        self._rest = b""

    @property
    def torn(self) -> int:
        """Length in bytes of the incomplete last line."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[Record]:
        """The records that `data` completes. Raises JournalDamage at the first bad line."""
        complete, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest += data
            if len(self._rest) > LONGEST_RECORD:
                reason = f"the line is longer than {LONGEST_RECORD >> 20} MiB"
                raise JournalDamage(self._label, self.count + 1, self.offset, reason)
            return []
        whole = self._rest + complete
        lines = whole.split(b"\n")
        self._rest = rest
        together = self._decode_together(whole, lines)
        return [self._decode(line) for line in lines] if together is None else together

    def _decode_together(self, whole: bytes, lines: list[bytes]) -> list[Record] | None:
        """All of them at once, which takes half the time; None when one is not what it should be, without saying which."""
        beginnings = [b'{"seq":%d,' % number for number in range(self.count + 1, self.count + 1 + len(lines))]
        checksums = map(_checksum, [line[:-_CHECK_LENGTH] for line in lines])
        endings = [b'%s%016x"}' % (_CHECK_KEY, checksum) for checksum in checksums]
        if not (all(map(bytes.startswith, lines, beginnings)) and all(map(bytes.endswith, lines, endings))):
            return None
        try:
            records = _lines_decoder.decode(b"[%b]" % whole.replace(b"\n", b","))
        except msgspec.MsgspecError:
            return None
        if len(records) != len(lines) or not _well_named(records):
            return None
        self.count += len(lines)
        self.offset += len(whole) + 1
        return records

    def _decode(self, line: bytes) -> Record:
        content = line[:-_CHECK_LENGTH]
        number = self.count + 1
        if line[-_CHECK_LENGTH:] != b'%s%016x"}' % (_CHECK_KEY, _checksum(content)):
            raise JournalDamage(self._label, number, self.offset, "the line does not match its checksum")
        if not line.startswith(b'{"seq":%d,' % number, 0, len(content)):
            raise JournalDamage(self._label, number, self.offset, f"record {number} was expected; lines were lost or moved")
        try:
            record = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise JournalDamage(self._label, number, self.offset, f"not a record of this version: {error}") from None
        if not _well_named([record]):
            raise JournalDamage(self._label, number, self.offset, "not a record of this version: its rollout id is none")
        self.count = number
        self.offset += len(line) + 1
        return record


def _well_named(records: list[Record]) -> bool:
    """Whether rollout ids are made of hexadecimal digits: they name directories."""
    names = "".join([record.rollout_id for record in records if type(record) is Result or type(record) is Attempt])
    return names.isascii() and not names.encode().translate(None, _HEXADECIMAL)


class Invocation(msgspec.Struct, frozen=True):
    """One invocation as the journal tells it. `last_at` is the time of its last record of any kind."""

    started: InvocationStarted
    last_at: str
    ended: InvocationEnded | None = None


_FIRST = 1
"""The number of the first invocation, which most results come from: it is not noted."""


class RunHistory(msgspec.Struct):
    """The journal folded: everything that later decisions depend on. Built by `fold`; not changed by anybody else.

    `results` holds the current (last durable) result of each item; `attempts` how often each item was dispatched;
    `strikes` how many losses of the server it was in flight for. `carried` tells which results `index.jsonl` marks `resumed`.
    """

    total_items: int
    results: MutableMapping[WorkItem, Result] = {}
    attempts: MutableMapping[WorkItem, int] = {}
    strikes: dict[WorkItem, int] = {}
    invocations: list[Invocation] = []
    _made_by: MutableMapping[WorkItem, int] = {}
    _last_unfinished_start: int = 0

    @property
    def finished(self) -> bool:
        """Whether every planned item has a terminal result."""
        return len(self.results) >= self.total_items

    @property
    def started_at(self) -> str | None:
        """When the run first dispatched, over all its invocations."""
        return self.invocations[0].started.at if self.invocations else None

    @property
    def last_result_at(self) -> str | None:
        """When the last current result became known: the end of a finished run."""
        return max((result.at for result in self.results.values()), default=None)

    def resumed(self, item: WorkItem) -> bool:
        """Whether `item`'s result was carried over into a later invocation of a then unfinished run (ruling 3)."""
        # Most runs have one invocation, and are asked for every item.
        return self._last_unfinished_start > _FIRST and self._made_by.get(item, _FIRST) < self._last_unfinished_start

    def made_by(self, item: WorkItem) -> str | None:
        """The id of the invocation that `item`'s current result comes from; None without a result."""
        number = self._made_by.get(item, _FIRST) if item in self.results else 0
        return self.invocations[number - 1].started.id if number else None

    def add(self, record: Record) -> None:
        """Fold one more record, in journal order."""
        self.extend((record,))

    def extend(self, records: Iterable[Record]) -> None:
        """Fold more records, in journal order."""
        results, attempts, made_by = self.results, self.attempts, self._made_by
        number = len(self.invocations)
        at: str | None = None
        # Millions of results and attempts; the other kinds are few.
        for record in records:
            if type(record) is Result:
                item = record.item
                results[item] = record
                if number != _FIRST:
                    made_by[item] = number
                at = record.at
            elif type(record) is Attempt:
                attempts[record.item] = record.number
                at = record.at
            else:
                self._touch(at)
                at = None
                self._begin_or_end(record)
                number = len(self.invocations)
        self._touch(at)

    def _begin_or_end(self, record: Record) -> None:
        match record:
            case InvocationStarted():
                self.invocations.append(Invocation(record, record.at))
                if not self.finished:
                    self._last_unfinished_start = len(self.invocations)
            case InvocationEnded():
                for item in record.in_flight:
                    self.strikes[item] = self.strikes.get(item, 0) + 1
                if self.invocations:
                    self.invocations[-1] = Invocation(self.invocations[-1].started, record.at, record)

    def _touch(self, at: str | None) -> None:
        if at is not None and self.invocations:
            last = self.invocations[-1]
            self.invocations[-1] = Invocation(last.started, at, last.ended)


def fold(records: Iterable[Record], total_items: int) -> RunHistory:
    """The state of a run of `total_items` planned items after `records`, in journal order."""
    history = RunHistory(total_items)
    history.extend(records)
    return history
