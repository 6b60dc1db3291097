"""What the journal records of files: nothing changed, lost or added goes unnoticed, and readers of runs are not disturbed."""

from __future__ import annotations

import json

from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.evidence import (
    MOST_NAMED,
    PASSED_OVER,
    REST,
    ContentDigest,
    Evidence,
    LogMark,
    contradictions,
    decode_evidence,
    digest_of,
    encode_evidence,
    is_digest,
    record_files,
)
from osmosis.pure.evidence_audit import LOG, LogFact, audit_log, copy_of, feeds_projections
from osmosis.pure.journal import JournalDecoder, Record, encode_record
from tests.strategies import journal

digests = st.binary(max_size=3).map(lambda data: digest_of([data]))
words = st.sampled_from(["a symlink", "a special file", "not readable", "nested too deep"])
segments = st.sampled_from(["a", "b", REST, "größe", "\udcff", "x" * 250, "\x1b[2J", "manifest.json", "artifacts"])
paths = st.sampled_from(["trajectory.json", "sample.json", *PASSED_OVER]) | st.lists(segments, min_size=1, max_size=3).map(
    "/".join
)
few = st.dictionaries(paths, digests | words, max_size=8)
many = st.integers(MOST_NAMED - 2, MOST_NAMED + 4).map(lambda size: {f"logs/{n}": digest_of([b"%d" % n]) for n in range(size)})
trees = few | st.tuples(few, many).map(lambda pair: pair[0] | pair[1])


@given(trees)
def test_a_directory_that_is_as_it_was_contradicts_nothing(entries: dict[str, str]) -> None:
    """The order in which entries are met does not matter, nor do files that say nothing of a rollout."""
    recorded = record_files(entries)
    shuffled = {path: entries[path] for path in reversed(entries)} | dict.fromkeys(PASSED_OVER, digest_of([b"new"]))
    assert list(contradictions(recorded, shuffled)) == []


@given(trees, st.data())
def test_whatever_is_changed_lost_or_added_is_noticed(entries: dict[str, str], data: st.DataObject) -> None:
    """One difference of any kind is one contradiction; it names the path if that was recorded by name."""
    recorded = record_files(entries)
    path = data.draw(paths | st.sampled_from(sorted(entries) or ["a"]))
    value = data.draw(st.none() | digests | words)
    assume(path not in PASSED_OVER and entries.get(path) != value)
    changed = {name: entry for name, entry in entries.items() if name != path} | ({} if value is None else {path: value})
    (found,) = contradictions(recorded, changed)
    if path in recorded and path != REST:
        assert found.path == path
    assert found.path in (path, REST)


@given(trees)
def test_a_line_stays_bounded(entries: dict[str, str]) -> None:
    """However many files a rollout leaves, a bounded number is named, the trajectory and the sample first."""
    recorded = record_files(entries)
    assert len(recorded) <= MOST_NAMED + 1
    assert all(is_digest(value) for value in recorded.values())
    for path in ("trajectory.json", "sample.json"):
        assert (path in recorded) == is_digest(entries.get(path, ""))
    assert all(len(path) <= 200 and path.isprintable() for path in recorded)


evidences = st.builds(
    Evidence, st.none() | trees.map(record_files), st.none() | st.builds(LogMark, st.integers(0, 2**50), digests)
)


@given(st.lists(st.tuples(journal.records, evidences), max_size=5))
def test_readers_of_a_run_pass_over_evidence(lines: list[tuple[Record, Evidence]]) -> None:
    """Records come back as they are, evidence or not; evidence comes back from the very same lines."""
    written = [encode_record(record, number, evidence) for number, (record, evidence) in enumerate(lines, 1)]
    plain = [encode_record(record, number) for number, (record, _) in enumerate(lines, 1)]
    assert JournalDecoder("j").feed(b"".join(written)) == JournalDecoder("j").feed(b"".join(plain))
    assert [decode_evidence(line) for line in written] == [evidence for _, evidence in lines]
    assert all(decode_evidence(line) == Evidence() for line in plain)


def test_the_keys_of_a_line() -> None:
    """The exact bytes between a record and its checksum."""
    evidence = Evidence({"sample.json": "0123456789abcdef"}, LogMark(7, "fedcba9876543210"))
    assert encode_evidence(evidence) == (
        b',"files":{"sample.json":"0123456789abcdef"},"log":{"size":7,"digest":"fedcba9876543210"}'
    )
    assert encode_evidence(Evidence({})) == b',"files":{}'
    assert encode_evidence(Evidence()) == b""
    assert digest_of([b"ab", b"c"]) == "78af5f94892f3950", "xxh3-64 of abc"


@given(st.binary(max_size=30) | st.dictionaries(st.sampled_from(["files", "log"]), st.integers() | st.text()).map(json.dumps))
def test_no_line_is_too_odd(line: bytes | str) -> None:
    """Keys that are not what they should be are no evidence, and no error."""
    assert decode_evidence(line.encode() if isinstance(line, str) else line) == Evidence()


# --- The log ------------------------------------------------------------------------------------------------------------------


def marks_of(data: bytes, sizes: list[int]) -> list[LogMark]:
    """The marks of a log at these sizes."""
    return [LogMark(size, digest_of([data[:size]])) for size in sizes]


def fact_of(data: bytes, marks: list[LogMark]) -> LogFact:
    """The log beside its marks."""
    return LogFact(len(data), tuple(digest_of([data[: mark.size]]) for mark in marks if mark.size <= len(data)))


@given(st.binary(min_size=1, max_size=60), st.data())
def test_a_log_that_lost_or_changed_a_recorded_byte_is_noticed(data: bytes, draw: st.DataObject) -> None:
    """Any changed byte below the last mark is found between two marks that hold it; a cut is found by its length; more lines
    are nobody's fault."""
    sizes = sorted(draw.draw(st.sets(st.integers(1, len(data)), min_size=1, max_size=4)))
    marks = marks_of(data, sizes)
    assert list(audit_log(marks, fact_of(data + b"more", marks))) == []
    place = draw.draw(st.integers(0, sizes[-1] - 1))
    changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    (finding,) = audit_log(marks, fact_of(changed, marks))
    low = max((size for size in sizes if size <= place), default=0)
    high = min(size for size in sizes if size > place)
    assert finding.what.endswith(f"between bytes {low} and {high}")
    (finding,) = audit_log(marks, fact_of(data[:place], marks))
    assert finding.what == f"ends at byte {place}; {sizes[-1]} were recorded"
    (finding,) = audit_log(marks, LogFact(None))
    assert (finding.path, "is missing" in finding.what) == (LOG, True)


def test_a_log_without_marks_is_not_judged() -> None:
    """A run of an earlier build, or one that never ended, says nothing of its log."""
    assert list(audit_log([], LogFact(None))) == []


# --- Copies -------------------------------------------------------------------------------------------------------------------


def test_where_copies_lie() -> None:
    """The trajectory and the artifacts have copies; only they feed projections."""
    assert copy_of("row_0_run_1", "trajectory.json") == "trajectories/row_0_run_1.json"
    assert copy_of("row_0_run_1", "artifacts/a/b") == "artifacts/row_0_run_1/a/b"
    assert [copy_of("s", path) for path in ("sample.json", "artifacts", REST, "logs/artifacts/a")] == [None] * 4
    assert all(feeds_projections(path) for path in ("", REST, "trajectory.json", "artifacts", "artifacts/a"))
    assert not any(feeds_projections(path) for path in ("sample.json", "diagnostics.json", "harbor/result.json"))


@given(st.lists(st.binary(max_size=9)))
def test_a_digest_does_not_depend_on_the_cut(chunks: list[bytes]) -> None:
    """Chunks or the whole give the same digest."""
    content = ContentDigest()
    for chunk in chunks:
        content.update(chunk)
    assert content.digest == digest_of([b"".join(chunks)])
