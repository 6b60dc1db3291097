"""The journal is read back exactly as it was written, and never otherwise."""

from __future__ import annotations

import json

import pytest
import xxhash
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.journal import (
    Attempt,
    Ending,
    InvocationEnded,
    InvocationStarted,
    JournalDamage,
    JournalDecoder,
    Record,
    Result,
    Status,
    WorkItem,
    encode_record,
    fold,
)
from tests.strategies.journal import encoded, journals, records, results

AT = "2026-11-30T12:35:44.521865Z"


def decode(data: bytes) -> tuple[list[Record], JournalDecoder]:
    """All records of `data`, given at once."""
    decoder = JournalDecoder("events.jsonl")
    return decoder.feed(data), decoder


@given(journals)
def test_round_trip(journal: list[Record]) -> None:
    """Whatever is written is read back, record for record, with nothing torn."""
    data = b"".join(encoded(journal))
    found, decoder = decode(data)
    assert found == journal
    assert (decoder.count, decoder.offset, decoder.torn) == (len(journal), len(data), 0)


@given(journals, st.data())
def test_any_chunking_gives_the_same_records(journal: list[Record], data: st.DataObject) -> None:
    """Records do not depend on how the bytes arrive, one at a time included."""
    content = b"".join(encoded(journal))
    decoder = JournalDecoder("events.jsonl")
    found: list[Record] = []
    position = 0
    while position < len(content):
        size = data.draw(st.sampled_from([1, 7, 64, 1024]))
        found += decoder.feed(content[position : position + size])
        position += size
    assert found == journal


@given(journals)
def test_truncated_at_every_byte(journal: list[Record]) -> None:
    """A file cut anywhere holds exactly the records whose newline survived; the rest is a torn tail of known length."""
    lines = encoded(journal)
    content = b"".join(lines)
    for length in range(len(content) + 1):
        found, decoder = decode(content[:length])
        assert found == journal[: len(found)]
        assert decoder.offset == sum(map(len, lines[: len(found)]))
        assert decoder.torn == length - decoder.offset


@given(journals.filter(bool), st.data())
def test_a_changed_byte_is_found(journal: list[Record], data: st.DataObject) -> None:
    """No byte of a complete line can change unnoticed, and the error names the line and its offset."""
    lines = encoded(journal)
    number = data.draw(st.integers(0, len(lines) - 1))
    position = data.draw(st.integers(0, len(lines[number]) - 2))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[number][position]))
    changed = bytearray(lines[number])
    changed[position] = value
    with pytest.raises(JournalDamage) as caught:
        decode(b"".join([*lines[:number], bytes(changed), *lines[number + 1 :]]))
    assert (caught.value.line, caught.value.offset) == (number + 1, sum(map(len, lines[:number])))


@given(journals.filter(lambda journal: len(journal) > 1), st.data())
def test_lost_doubled_and_moved_lines_are_found(journal: list[Record], data: st.DataObject) -> None:
    """A line that is missing, stands twice or changed places is damage, although each line by itself is sound."""
    lines = encoded(journal)
    first = data.draw(st.integers(0, len(lines) - 2))
    second = data.draw(st.integers(first + 1, len(lines) - 1))
    lost = [*lines[:first], *lines[first + 1 :]]
    doubled = [*lines[: first + 1], lines[first], *lines[first + 1 :]]
    moved = [*lines]
    moved[first], moved[second] = moved[second], moved[first]
    for damaged in (lost, doubled, moved):
        with pytest.raises(JournalDamage):
            decode(b"".join(damaged))


@given(records)
def test_lines_are_plain_json(record: Record) -> None:
    """Any JSON reader can read a line, and each line is one line."""
    line = encode_record(record, 3)
    assert line.count(b"\n") == 1
    value = json.loads(line)
    assert value["seq"] == 3
    assert list(value)[-1] == "check"


@given(results())
def test_lone_surrogates_become_replacement_characters(result: Result) -> None:
    """A rollout's error text cannot make a record unwritable."""
    assume(result.status is Status.FAILED)
    odd = Result(result.item, 0, result.rollout_id, Status.FAILED, AT, 1.0, error_type="\ud800", error_message="a\udfffb")
    found, _ = decode(encode_record(odd, 1))
    assert isinstance(found[0], Result)
    assert (found[0].error_type, found[0].error_message) == ("\N{REPLACEMENT CHARACTER}", "a\N{REPLACEMENT CHARACTER}b")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    """Neither NaN nor infinity can reach the journal, as reward or as duration."""
    for record in (
        Result(WorkItem(0, 0), 0, "a" * 32, Status.SUCCESS, AT, 1.0, reward=value),
        Result(WorkItem(0, 0), 0, "a" * 32, Status.SUCCESS, AT, value),
    ):
        with pytest.raises(ValueError, match="finite"):
            encode_record(record, 1)


@pytest.mark.parametrize("name", ["../" * 10 + "up", "A" * 32, "a" * 31, "a" * 33, "\u00e4" * 32])
@pytest.mark.parametrize("before", [0, 3])
def test_a_rollout_id_is_thirty_two_hexadecimal_digits(name: str, before: int) -> None:
    """It names a directory: a line with another one is no record, however sound it is, alone or among others."""
    sound: list[Record] = [Attempt(WorkItem(row, 0), "a" * 32, 1, AT) for row in range(before)]
    for odd in (Attempt(WorkItem(9, 0), name, 1, AT), Result(WorkItem(9, 0), 9, name, Status.SUCCESS, AT, 1.0)):
        with pytest.raises(JournalDamage, match="damaged") as caught:
            decode(b"".join(encoded([*sound, odd])))
        assert "not a record of this version" in str(caught.value.problems[0])
        assert caught.value.line == before + 1


def test_a_line_holds_one_record() -> None:
    """Two of them behind a checksum that fits both are damage, also where the next line makes up for the count."""
    line = encode_record(Attempt(WorkItem(0, 0), "a" * 32, 1, AT), 1)
    both = line[:-2] + b"," + encode_record(Attempt(WorkItem(1, 0), "b" * 32, 1, AT), 2)[:-29]
    with pytest.raises(JournalDamage):
        decode(both + b',"check":"%016x"}\n' % xxhash.xxh3_64_intdigest(both))


def result(item: WorkItem, status: Status = Status.SUCCESS, at: str = AT) -> Result:
    """A result with nothing remarkable about it."""
    return Result(item, item.row_index, "a" * 32, status, at, 1.0)


def started(number: int) -> InvocationStarted:
    """The start of an invocation."""
    return InvocationStarted(f"{number:032x}", f"2026-11-30T12:00:0{number}.000000Z", "0.3.10")


A, B = WorkItem(0, 0), WorkItem(0, 1)


def test_the_last_result_of_an_item_counts() -> None:
    """A retry supersedes; what it replaced stays in the file only."""
    history = fold([started(1), result(A, Status.FAILED), result(B), started(2), result(A)], 2)
    assert history.results[A].status is Status.SUCCESS
    assert history.finished


def test_results_carried_into_an_unfinished_run_are_resumed() -> None:
    """`resumed` marks what an earlier invocation of a then unfinished run left, and nothing else (ruling 3)."""
    history = fold([started(1), result(A), started(2), result(B)], 2)
    assert [history.resumed(item) for item in (A, B)] == [True, False]


def test_a_retry_of_a_finished_run_resumes_nothing() -> None:
    """The successes that a retry keeps were not carried over from an unfinished run (ruling 3)."""
    history = fold([started(1), result(A), result(B, Status.FAILED), started(2), result(B)], 2)
    assert [history.resumed(item) for item in (A, B)] == [False, False]


def test_only_server_crashes_strike() -> None:
    """Items in flight when the server died are struck; an interrupt or a killed supervisor strikes nobody (ruling 15)."""
    attempt = Attempt(A, "a" * 32, 1, AT)
    crash = InvocationEnded(AT, Ending.SERVER_CRASH, (A,))
    history = fold(
        [started(1), attempt, crash, started(2), attempt, InvocationEnded(AT, Ending.INTERRUPTED), started(3), attempt], 2
    )
    assert history.strikes == {A: 1}


def test_times_are_those_of_the_whole_run() -> None:
    """A run starts when it first dispatched and ends with its last current result, whatever came in between."""
    late = "2026-12-01T00:00:00.000000Z"
    history = fold([started(1), result(A), started(2), result(B, at=late)], 2)
    assert (history.started_at, history.last_result_at) == (started(1).at, late)
