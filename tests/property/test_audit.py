"""What `eval verify` decides: journals that a runner could have written, and any other; projections as due, and any other."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import (
    MANIFEST,
    OWN_FILES,
    after_repair,
    audit_files,
    audit_journal_file,
    audit_manifest,
    audit_report,
    audit_tail,
    blocks_rebuild,
)
from osmosis.pure.canonical import canonical_json, decode_json, pretty_json
from osmosis.pure.digest import fingerprint
from osmosis.pure.evidence_audit import TrialFact, audit_trials
from osmosis.pure.finding import AuditReport, AuditStatus, FileFact, Finding, Remedy, Severity
from osmosis.pure.journal import Attempt, Ending, InvocationEnded, InvocationStarted, Record, Result, Status, WorkItem
from osmosis.pure.journal_audit import JournalAudit, RunPlan, is_time
from osmosis.pure.plan import Manifest, encode_manifest
from osmosis.pure.projection_audit import (
    PROJECTIONS,
    Rebuilt,
    audit_projections,
    json_difference,
    line_difference,
    temporary_of,
)
from osmosis.pure.selection import RowRange, RowSelection, SourceRows, select
from tests.strategies import journal
from tests.strategies.data import json_values, selections
from tests.strategies.run import Story, manifests, plan_of, stories

# --- Journals -----------------------------------------------------------------------------------------------------------------


def audited(plan: RunPlan, records: tuple[Record, ...]) -> JournalAudit:
    """The audit of a whole journal."""
    audit = JournalAudit(plan)
    for record in records:
        audit.add(record)
    return audit


@given(stories())
def test_what_a_runner_writes_is_in_order(story: Story) -> None:
    """Resumes, retries, crashes at any place: nothing of it is a finding, and every prefix is a journal too."""
    audit = audited(story.plan, story.records)
    assert audit.findings == []
    assert audit.records == len(story.records)
    for length in range(len(story.records)):
        assert audited(story.plan, story.records[:length]).findings == [], "a crash can cut a journal at any line"


@given(stories(eventful=True), st.data())
def test_an_attempt_or_result_written_twice_is_found(story: Story, data: st.DataObject) -> None:
    """Whatever is doubled, the second one is named by its line."""
    places = [number for number, record in enumerate(story.records) if isinstance(record, Attempt | Result)]
    place = data.draw(st.sampled_from(places))
    doubled = (*story.records[: place + 1], story.records[place], *story.records[place + 1 :])
    assert place + 2 in {finding.line for finding in audited(story.plan, doubled).findings}


@given(stories(eventful=True), st.data())
def test_a_result_whose_attempt_is_lost_is_found(story: Story, data: st.DataObject) -> None:
    """Every result needs its attempt before it."""
    answered = {record.rollout_id: number for number, record in enumerate(story.records, 1) if isinstance(record, Result)}
    places = [n for n, record in enumerate(story.records) if isinstance(record, Attempt) and record.rollout_id in answered]
    place = data.draw(st.sampled_from(places))
    attempt = story.records[place]
    assert isinstance(attempt, Attempt)
    lines = {f.line for f in audited(story.plan, (*story.records[:place], *story.records[place + 1 :])).findings}
    assert answered[attempt.rollout_id] - 1 in lines


@given(stories(eventful=True), st.data())
def test_a_success_that_runs_again_is_found(story: Story, data: st.DataObject) -> None:
    """No success is ever run again, also not by an invocation that retries (E35)."""
    audit = audited(story.plan, story.records)
    successes = [item for item, result in audit.history.results.items() if result.status is Status.SUCCESS]
    item = data.draw(st.sampled_from(sorted(successes)))
    start = InvocationStarted("f" * 32, "2026-11-30T20:00:00.000000Z", "0.3.10", retry_failed=True)
    again = Attempt(item, "e" * 32, audit.history.attempts[item] + 1, start.at)
    found = audited(story.plan, (*story.records, start, again)).findings
    assert [(finding.line, "although it has succeeded" in finding.what) for finding in found] == [
        (len(story.records) + 2, True)
    ]


@given(stories(), st.integers(0, 99), st.integers(0, 9))
def test_items_outside_the_plan_are_found_and_never_counted(story: Story, row: int, run: int) -> None:
    """A record of an item that the plan does not have is a finding, and changes no count."""
    assume(row >= story.plan.rows.count or run >= story.plan.inputs.n)
    start = InvocationStarted("f" * 32, "2026-11-30T20:00:00.000000Z", "0.3.10")
    stray = Attempt(WorkItem(row, run), "e" * 32, 1, start.at)
    before = audited(story.plan, (*story.records, start)).history
    audit = audited(story.plan, (*story.records, start, stray))
    assert [finding.line for finding in audit.findings] == [len(story.records) + 2]
    assert audit.history == before


@given(st.lists(journal.records, max_size=12), selections, st.integers(1, 3))
def test_no_journal_is_too_odd_to_be_judged(records: list[Record], rows: RowSelection, n: int) -> None:
    """Records of any content in any order are judged without an exception, and counts stay inside the plan."""
    audit = audited(plan_of(rows, n), tuple(records))
    assert all(item.row_index < rows.count and item.run_index < n for item in audit.history.results)


@given(selections)
def test_source_rows_are_the_selected_indices(rows: RowSelection) -> None:
    """Looking up is listing, without the list."""
    indices = list(rows.indices())
    lookup = SourceRows(rows)
    assert [lookup[index] for index in range(len(indices))] == indices


def test_an_enormous_selection_costs_nothing() -> None:
    """A hostile manifest cannot make the audit list a billion rows."""
    plan = plan_of(select([RowRange(3, 10**17)]), 3)
    start = InvocationStarted("1" * 32, "2026-11-30T20:00:00.000000Z", "0.3.10")
    attempt = Attempt(WorkItem(10**16, 2), "e" * 32, 1, start.at)
    result = Result(attempt.item, 10**16 + 3, attempt.rollout_id, Status.SKIPPED, start.at, 1.0)
    assert audited(plan, (start, attempt, result)).findings == []


@given(st.integers(0, 10**11).map(lambda second: datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")))
def test_times_of_the_journal_are_times(time: str) -> None:
    """Everything that the clock writes is accepted; without its zone it is not."""
    assert is_time(time)
    assert not is_time(time.removesuffix("Z"))
    assert not is_time(time.replace("Z", "+01:00"))


# --- Manifests ----------------------------------------------------------------------------------------------------------------


@given(manifests(), st.data())
def test_a_manifest_with_one_byte_changed_is_found(manifest: Manifest, data: st.DataObject) -> None:
    """Either the bytes are no manifest of ours any more, or another value stands in it, which the plan shows."""
    content = encode_manifest(manifest)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = content[:place] + bytes([content[place] ^ data.draw(st.integers(1, 255))]) + content[place + 1 :]
    sound = {MANIFEST: FileFact(EntryKind.FILE, content=content)}
    damaged = {MANIFEST: FileFact(EntryKind.FILE, content=changed)}
    plan, findings = audit_manifest(damaged)
    assert findings or plan != audit_manifest(sound)[0]


@given(st.binary(max_size=60) | json_values.map(canonical_json))
def test_anything_can_stand_in_a_manifest(content: bytes) -> None:
    """No content makes the audit fail; what is no manifest gives findings and no plan."""
    plan, findings = audit_manifest({MANIFEST: FileFact(EntryKind.FILE, content=content)})
    assert plan is None
    assert findings


# --- Projections --------------------------------------------------------------------------------------------------------------

paths = st.sampled_from(
    [*PROJECTIONS, "trajectories/row_0_run_0.json", "trajectories/row_0_run_1.json", "artifacts/row_0_run_0/a/b.txt"]
)
trees = st.dictionaries(paths, st.binary(max_size=20), max_size=6)


def due(tree: dict[str, bytes]) -> dict[str, Rebuilt]:
    """A rebuild that wrote this."""
    return {path: Rebuilt(fingerprint(data), data if path in PROJECTIONS else None) for path, data in tree.items()}


def there(tree: dict[str, bytes]) -> dict[str, FileFact]:
    """A run directory that holds this."""
    return {
        path: FileFact(EntryKind.FILE, 0o600, fingerprint(data), data if path in PROJECTIONS else None)
        for path, data in tree.items()
    }


@given(trees, trees)
def test_exactly_the_paths_that_differ_are_found(wanted: dict[str, bytes], found: dict[str, bytes]) -> None:
    """One finding a path that is missing, wrong or a stray, each with a remedy; none for what is right.

    A projection that no rebuild writes cannot be: every rebuild writes all four.
    """
    found = {path: data for path, data in found.items() if path in wanted or path not in PROJECTIONS}
    wanted = {path: data if not path.endswith(".json") else pretty_json(data.hex()) for path, data in wanted.items()}
    different = {path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)}
    findings = list(audit_projections(due(wanted), there(found)))
    assert [finding.path for finding in findings] == [*dict.fromkeys(finding.path for finding in findings)]
    assert {finding.path for finding in findings} == different
    assert all(finding.remedy in (Remedy.REBUILD, Remedy.MOVE_ASIDE) for finding in findings)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_the_first_line_that_differs_is_named(found: bytes, wanted: bytes) -> None:
    """All lines before it are equal, and it is not."""
    assume(found != wanted)
    finding = line_difference("index.jsonl", found, wanted, "the journal says", None)
    assert finding.line is not None
    before = finding.line - 1
    ours, theirs = found.split(b"\n"), wanted.split(b"\n")
    assert ours[:before] == theirs[:before]
    assert ours[before:] != theirs[before:]
    if "is not what" in finding.what:
        assert ours[before : before + 1] != theirs[before : before + 1] or len(ours) != len(theirs)


@given(json_values, json_values)
def test_json_differences_are_differences(found: object, wanted: object) -> None:
    """Values that differ are said to differ, also 1 from 1.0 and null from nothing; equal ones in other bytes, to be equal."""
    one, other = canonical_json(found), pretty_json(wanted)
    equal = one == canonical_json(decode_json(other))
    assert (json_difference(one, other) == "says what is due, in other bytes") == equal
    assert json_difference(canonical_json({"k": None}), b"{}") == "k is None, and absent is due"


# --- The whole ----------------------------------------------------------------------------------------------------------------


@given(st.text(max_size=20), st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=8, max_size=8))
def test_temporary_files_are_told_by_their_names(name: str, chance: str) -> None:
    """A temporary file names the file that it was to become; our own files are never taken for one."""
    assume(name and "\n" not in name)
    assert temporary_of(f".{name}.{chance}.tmp") == name
    assert all(temporary_of(own) is None for own in OWN_FILES)


@given(
    st.lists(st.sampled_from([MANIFEST, "events.jsonl", "rollout_trials/x", "index.jsonl", "source_files.json"]), max_size=4)
)
def test_only_the_authority_blocks(where: list[str]) -> None:
    """Errors without a remedy in manifest, journal or trials stop every repair; nothing else does, and no warning."""
    findings = [Finding(path, "is wrong") for path in where]
    authority = {MANIFEST, "events.jsonl", "rollout_trials/x"}
    assert blocks_rebuild(findings) == bool(authority & set(where))
    assert not blocks_rebuild(msgspec.structs.replace(finding, severity=Severity.WARNING) for finding in findings)
    assert not blocks_rebuild(msgspec.structs.replace(finding, remedy=Remedy.CUT_TAIL) for finding in findings)


@given(
    stories(),
    st.none() | st.sampled_from([MANIFEST, "events.jsonl", "rollout_trials/x/trajectory.json"]),
    st.lists(st.sampled_from(Remedy) | st.none(), max_size=4),
)
def test_counts_of_a_report_add_up(story: Story, damaged: str | None, remedies: list[Remedy | None]) -> None:
    """planned = succeeded + failed + skipped + pending; where something that others follow from is damaged, only a trial's
    file can be put back, and nothing where the journal cannot prove what belongs there. What is left gets advice."""
    history = audited(story.plan, story.records).history
    findings = [Finding("index.jsonl", str(number), remedy=remedy) for number, remedy in enumerate(remedies)]
    findings += [Finding(damaged, "is wrong")] if damaged else []
    report = audit_report(path="x", run_name="n", history=history, records=3, findings=findings)
    assert report.planned == report.succeeded + report.failed + report.skipped + report.pending
    assert report.planned == story.plan.total_items
    assert report.status is (AuditStatus.UNSOUND if findings else AuditStatus.SOUND)
    proven = {Remedy.RESTORE} if damaged and damaged.startswith("rollout_trials") else set()
    if damaged:
        assert {finding.remedy for finding in report.findings} - {None} <= proven
        assert damaged in report.unchecked[0]
        assert report.advice
    assert bool(report.unchecked) == (damaged is not None or Remedy.RESTORE in remedies)


def test_what_a_repair_mended_is_what_no_longer_stands() -> None:
    """A repair is a success only when no error is left."""
    mended, left = Finding("index.jsonl", "is missing", remedy=Remedy.REBUILD), Finding("source_files.json", "is missing")

    def looked(*findings: Finding) -> AuditReport:
        return audit_report(path="x", run_name="n", history=None, records=0, findings=findings)

    before = looked(mended, left)
    half = after_repair([before], looked(left), ["a"])
    assert (half.status, half.repaired, half.findings, half.kept) == (AuditStatus.UNSOUND, (mended,), (left,), ("a",))
    assert after_repair([before], looked(), []).status is AuditStatus.REPAIRED
    assert after_repair([looked()], looked(), []).status is AuditStatus.SOUND


def test_a_journal_that_lost_its_end_is_told_by_its_index() -> None:
    """The index shows a result, the trial is there, the journal knows nothing. Without the trial the index is just wrong."""
    index = FileFact(EntryKind.FILE, content=b'not JSON\n{"rollout_id": "a"}\n{"rollout_id": "b"}\n')
    entries = {"index.jsonl": index, "events.jsonl": FileFact(EntryKind.FILE)}
    (finding,) = audit_journal_file(entries, {"a"}, {"a", "b"})
    assert finding.path == "events.jsonl"
    assert "index.jsonl:3" in finding.what
    assert list(audit_journal_file(entries, {"a"}, {"a"})) == []
    assert list(audit_journal_file(entries, {"a", "b"}, {"a", "b"})) == []
    assert list(audit_journal_file(entries, None, {"a", "b"})) == [], "a journal that was not read to its end proves nothing"


def test_a_missing_journal_is_a_fault_once_anything_ran() -> None:
    """A run that never dispatched has no journal yet."""
    assert list(audit_journal_file({}, set(), frozenset())) == []
    assert len(list(audit_journal_file({}, set(), frozenset({"a"})))) == 1
    assert list(audit_tail(0, 10)) == []


TRIAL_CASES = [
    (TrialFact("a", "s", EntryKind.DIRECTORY), None),
    (TrialFact("a", "s", None), None),
    (TrialFact("a", "s", EntryKind.DIRECTORY, trajectory=True, identity="b"), "belongs to rollout b"),
    (TrialFact("a", "s", EntryKind.DIRECTORY, trajectory=True), "names no rollout"),
    (TrialFact("a", "s", EntryKind.DIRECTORY, trajectory=True, copied_identity="a"), "is damaged"),
    (TrialFact("a", "s", EntryKind.DIRECTORY, copied_identity="a"), "is missing"),
    (TrialFact("a", "s", EntryKind.DIRECTORY, copied_identity="b"), None),
    (TrialFact("a", "with", None), "still holds its files"),
    (TrialFact("a", "s", EntryKind.SYMLINK), "is a symlink"),
]


def test_trials_are_judged_by_what_is_left_of_them() -> None:
    """A rollout may leave nothing; but what it once had and the copies still hold must not be gone."""
    entries = {"rollout_trials": FileFact(EntryKind.DIRECTORY)}
    for fact, what in TRIAL_CASES:
        findings = list(audit_trials([fact], entries, {"with"}))
        assert len(findings) == (what is not None), fact
        assert all(what is not None and what in finding.what for finding in findings)
    assert [finding.path for finding in audit_trials([], {}, ())] == ["rollout_trials"]


@given(st.integers(0, 0o777))
def test_files_are_private(mode: int) -> None:
    """Whatever others may do with a file of ours is a warning; a person's own files are theirs."""
    entries = {path: FileFact(EntryKind.FILE, mode) for path in ("manifest.json", "artifacts/a", "notes.txt")}
    found = [finding.path for finding in audit_files(entries, [])]
    assert found == (["artifacts/a", "manifest.json"] if mode & 0o077 else [])


def test_an_end_without_a_start_is_found() -> None:
    """An empty run in which an invocation ends."""
    record = InvocationEnded("2026-11-30T20:00:00.000000Z", Ending.HALTED)
    assert [finding.line for finding in audited(plan_of(select([RowRange(0, 0)]), 1), (record,)).findings] == [1]
