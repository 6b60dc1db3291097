"""`osmosis eval verify` on a run that was written by hand, and on the same run damaged in every way that we could think of."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.finding import AuditReport, AuditStatus, Severity
from osmosis.shell.cli.main import main
from osmosis.shell.evaluation.process_identity import start_token
from osmosis.shell.evaluation.run_directory import RunDirectory, locked
from osmosis.shell.evaluation.verify import VerifyRequest, verify_run
from tests.integration.golden_run import (
    DATASET,
    NAME,
    append,
    change_lines,
    contents,
    copy_run,
    edit,
    edit_record,
    link,
    pipe,
    remove,
    rewrite_journal,
    snapshot,
    write,
)

KEPT = ("events.jsonl.torn-", "replaced-")
SUCCEEDED, OTHER = "rollout_trials/" + "a0".rjust(32, "0"), "a1".rjust(32, "0")


class Corruption(NamedTuple):
    """One way to damage a run: what `verify` must name, and whether `--repair` brings back the run as it was."""

    damage: Callable[[Path], None]
    where: str
    what: str
    repairable: bool = False
    warning: bool = False
    dataset: bool = False


def server_record(pid: int, token: str) -> bytes:
    """A `server.json`."""
    record = {"pid": pid, "pgid": os.getpgid(0), "start_token": token, "instance_id": "x", "port": 1, "created_at": "x"}
    return json.dumps(record).encode()


def public(name: str) -> Callable[[Path], None]:
    """Let everybody read a file."""
    return lambda root: (root / name).chmod(0o644)


def both(*damages: Callable[[Path], None]) -> Callable[[Path], None]:
    """One damage after the other."""

    def damage(root: Path) -> None:
        for one in damages:
            one(root)

    return damage


def in_the_way(name: str) -> Callable[[Path], None]:
    """A directory where a file belongs."""

    def damage(root: Path) -> None:
        (root / name).unlink()
        (root / name / "inner").mkdir(parents=True)
        (root / name / "inner" / "file").write_bytes(b"x")

    return damage


def reformatted(root: Path) -> None:
    """The manifest with the same values in other bytes."""
    path = root / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text())))


def run_alone_again(records: list[bytes]) -> list[bytes]:
    """An invocation that does not retry runs an item again that has failed."""
    records[21] = records[21].replace(b',"retry_failed":true', b"")
    return records


MANIFEST = {
    "manifest missing": Corruption(remove("manifest.json"), "manifest.json", "is missing"),
    "manifest empty": Corruption(write("manifest.json", b""), "manifest.json", "Expecting value"),
    "manifest cut": Corruption(lambda root: os.truncate(root / "manifest.json", 400), "manifest.json", ""),
    "manifest reformatted": Corruption(reformatted, "manifest.json", "somebody has changed the file"),
    "manifest key twice": Corruption(
        edit("manifest.json", b'  "run_name"', b'  "schema_version": 1,\n  "run_name"'), "manifest.json", "duplicate key"
    ),
    "manifest of a later version": Corruption(
        edit("manifest.json", b'"schema_version": 1', b'"schema_version": 7'), "manifest.json", "schema version 7"
    ),
    "manifest without runs": Corruption(edit("manifest.json", b'"n": 2', b'"n": 0'), "manifest.json", "inputs.n is 0"),
    "manifest with wrong types": Corruption(edit("manifest.json", b'"n": 2', b'"n": "2"'), "manifest.json", "inputs"),
    "manifest with more runs": Corruption(
        edit("manifest.json", b'"n": 2', b'"n": 3'), "events.jsonl:21", "4 items are pending"
    ),
    "manifest with fewer runs": Corruption(edit("manifest.json", b'"n": 2', b'"n": 1'), "events.jsonl:3", "not in the plan"),
    "manifest with other rows": Corruption(
        edit("manifest.json", b'"0,2-4"', b'"0-3"'), "events.jsonl:8", "row 1 of the selection is 1"
    ),
    "manifest with rows beyond the dataset": Corruption(
        edit("manifest.json", b'"total_dataset_rows": 5', b'"total_dataset_rows": 4'),
        "manifest.json",
        "total_dataset_rows is 4",
    ),
    "manifest with a bad id": Corruption(edit("manifest.json", b'"0123', b'"x123'), "manifest.json", "local_run_id"),
    "manifest is a pipe": Corruption(pipe("manifest.json"), "manifest.json", "is a special file"),
    "manifest is a link": Corruption(link("manifest.json"), "manifest.json", "is a symlink"),
}

JOURNAL = {
    "journal bit flipped": Corruption(edit("events.jsonl", b'"reward":0.5', b'"reward":0.4'), "events.jsonl:6", "checksum"),
    "journal line lost": Corruption(
        change_lines("events.jsonl", lambda lines: lines[:4] + lines[5:]), "events.jsonl:5", "record 5 was expected"
    ),
    "journal line doubled": Corruption(
        change_lines("events.jsonl", lambda lines: [*lines[:5], lines[4], *lines[5:]]),
        "events.jsonl:6",
        "record 6 was expected",
    ),
    "journal lines swapped": Corruption(
        change_lines("events.jsonl", lambda lines: [*lines[:6], lines[7], lines[6], *lines[8:]]), "events.jsonl:7", "record 7"
    ),
    "journal blank line": Corruption(
        change_lines("events.jsonl", lambda lines: [*lines[:2], b"", *lines[2:]]), "events.jsonl:3", "checksum"
    ),
    "journal cut after a line": Corruption(
        change_lines("events.jsonl", lambda lines: lines[:29]), "events.jsonl", "ends too early: index.jsonl:8"
    ),
    "journal missing": Corruption(remove("events.jsonl"), "events.jsonl", "is missing, although 13 rollouts have run"),
    "journal empty": Corruption(write("events.jsonl", b""), "events.jsonl", "ends too early: index.jsonl:1"),
    "journal is a pipe": Corruption(pipe("events.jsonl"), "events.jsonl", "is a special file"),
    "journal is a link": Corruption(link("events.jsonl"), "events.jsonl", "is a symlink"),
    "journal with a torn tail": Corruption(
        append("events.jsonl", b'{"seq":32,"kind":"invo'), "events.jsonl", "last 22 bytes are an incomplete", repairable=True
    ),
    "journal with a torn tail that is no text": Corruption(
        append("events.jsonl", b"\xff\x00"), "events.jsonl", "last 2 bytes are an incomplete record", repairable=True
    ),
}

STORY = {
    "item outside the plan": Corruption(
        edit_record(12, b"[2,0]", b"[4,0]"), "events.jsonl:12", "row 4 run 0 is not in the plan"
    ),
    "run outside the plan": Corruption(edit_record(5, b"[1,1]", b"[1,2]"), "events.jsonl:5", "row 1 run 2 is not in the plan"),
    "result without an attempt": Corruption(
        edit_record(6, b'a1"', b'ff"'), "events.jsonl:6", "which no attempt before it names"
    ),
    "result before its attempt": Corruption(
        rewrite_journal(lambda records: [records[0], records[5], *records[1:5], *records[6:]]),
        "events.jsonl:2",
        "which no attempt before it names",
    ),
    "result of another item": Corruption(edit_record(6, b"[0,1]", b"[0,0]"), "events.jsonl:6", "which ran row 0 run 1"),
    "result in a later invocation": Corruption(
        rewrite_journal(lambda records: [*records[:6], *records[7:10], records[6], *records[10:]]),
        "events.jsonl:10",
        "which an earlier invocation ran",
    ),
    "second result": Corruption(
        rewrite_journal(lambda records: [*records[:6], records[5], *records[6:]]), "events.jsonl:7", "has a second result"
    ),
    "rollout id used twice": Corruption(edit_record(3, b'a1"', b'a0"'), "events.jsonl:3", "is used a second time"),
    "attempts with a gap": Corruption(edit_record(11, b'"number":2', b'"number":3'), "events.jsonl:11", "and 2 is due"),
    "success run again": Corruption(edit_record(23, b"[1,0]", b"[0,0]"), "events.jsonl:23", "although it has succeeded"),
    "failure run again without a retry": Corruption(rewrite_journal(run_alone_again), "events.jsonl:23", "does not retry"),
    "wrong source row": Corruption(
        edit_record(20, b'"source_row_index":2', b'"source_row_index":3'), "events.jsonl:20", "source_row_index is 3"
    ),
    "reward on a failure": Corruption(
        edit_record(30, b',"error_type"', b',"reward":1.0,"error_type"'),
        "events.jsonl:30",
        "a reward on a result that is failed",
    ),
    "negative duration": Corruption(
        edit_record(30, b'"duration_ms":5000.0', b'"duration_ms":-5.0'), "events.jsonl:30", "duration_ms is -5.0"
    ),
    "negative tokens": Corruption(edit_record(16, b"[7,3,10]", b"[7,-3,10]"), "events.jsonl:16", "negative number of tokens"),
    "time that is none": Corruption(
        edit_record(16, b"2026-11-30T13:00:05.000000Z", b"yesterday"), "events.jsonl:16", "is not an ISO 8601 time"
    ),
    "time without a zone": Corruption(
        edit_record(16, b"2026-11-30T13:00:05.000000Z", b"2026-11-30T13:00:05"), "events.jsonl:16", "is not an ISO 8601 time"
    ),
    "record outside an invocation": Corruption(
        rewrite_journal(lambda records: [*records[:9], *records[10:]]), "events.jsonl:10", "a record outside an invocation"
    ),
    "invocation twice": Corruption(edit_record(22, b"0000003", b"0000002"), "events.jsonl:22", "begins a second time"),
    "end twice": Corruption(
        rewrite_journal(lambda records: [*records, records[-1]]), "events.jsonl:32", "ends that is not going on"
    ),
    "finished with pending items": Corruption(
        rewrite_journal(lambda records: [*records[:19], *records[20:]]), "events.jsonl:20", "1 items are pending"
    ),
    "suspect that never ran": Corruption(
        edit_record(9, b"[[1,1]]", b"[[1,1],[3,0]]"), "events.jsonl:9", "row 3 run 0 was in flight without an attempt"
    ),
}

PROJECTIONS = {
    "index missing": Corruption(remove("index.jsonl"), "index.jsonl", "is missing", repairable=True),
    "index value changed": Corruption(edit("index.jsonl", b'"reward": 0.5', b'"reward": 0.4'), "index.jsonl:2", "is not", True),
    "index line lost": Corruption(change_lines("index.jsonl", lambda lines: lines[:7]), "index.jsonl:8", "7 of 8 lines", True),
    "index line doubled": Corruption(
        change_lines("index.jsonl", lambda lines: [*lines, lines[7]]), "index.jsonl:9", "goes on after the 8 lines", True
    ),
    "index in another order": Corruption(
        change_lines("index.jsonl", lambda lines: [lines[1], lines[0], *lines[2:]]), "index.jsonl:1", "another order", True
    ),
    "index torn": Corruption(lambda root: os.truncate(root / "index.jsonl", 500), "index.jsonl:3", "is not what", True),
    "index empty": Corruption(write("index.jsonl", b""), "index.jsonl:1", "ends after 0 of 8 lines", True),
    "index full of zeros": Corruption(write("index.jsonl", bytes(900)), "index.jsonl:1", "is not what", True),
    "index resumed mark lost": Corruption(edit("index.jsonl", b', "resumed": true', b""), "index.jsonl:1", "is not what", True),
    "index is a pipe": Corruption(pipe("index.jsonl"), "index.jsonl", "is a special file, and a file is due", True),
    "index is a directory": Corruption(in_the_way("index.jsonl"), "index.jsonl", "is a directory, and a file is due", True),
    "summary missing": Corruption(remove("summary.jsonl"), "summary.jsonl", "is missing", True),
    "summary of another run": Corruption(edit("summary.jsonl", b'a0"', b'bb"'), "summary.jsonl:1", "is not what", True),
    "progress missing": Corruption(remove("progress.json"), "progress.json", "is missing", True),
    "progress changed": Corruption(edit("progress.json", b"8", b"9"), "progress.json", "total_runs is 9, and 8 is due", True),
    "metrics missing": Corruption(remove("metrics.json"), "metrics.json", "is missing", True),
    "metrics still running": Corruption(
        edit("metrics.json", b'"finished"', b'"running"'), "metrics.json", "eval_run.status is 'running', and 'finished'", True
    ),
    "metrics changed": Corruption(
        edit("metrics.json", b'"passed": 3', b'"passed": 4'), "metrics.json", "summary.passed is 4, and 3 is due", True
    ),
    "metrics of another type": Corruption(
        edit("metrics.json", b'"passed": 3', b'"passed": 3.0'), "metrics.json", "summary.passed is 3.0, and 3 is due", True
    ),
    "metrics in other bytes": Corruption(append("metrics.json", b"\n"), "metrics.json", "in other bytes", True),
    "metrics not JSON": Corruption(edit("metrics.json", b"0.625", b"NaN"), "metrics.json", "is not JSON", True),
    "metrics is a link": Corruption(link("metrics.json"), "metrics.json", "is a symlink, and a file is due", True),
}

COPIES = {
    "trajectory missing": Corruption(
        remove("trajectories/row_0_run_0.json"), "trajectories/row_0_run_0.json", "is missing", True
    ),
    "trajectories missing": Corruption(remove("trajectories"), "trajectories/row_0_run_1.json", "is missing", True),
    "trajectory changed": Corruption(
        append("trajectories/row_0_run_0.json", b" "), "trajectories/row_0_run_0.json", "differs from the trial's", True
    ),
    "trajectory of nobody": Corruption(
        write("trajectories/row_9_run_0.json", b"{}"), "trajectories/row_9_run_0.json", "is not a copy of any file", True
    ),
    "trajectory of an item that has none": Corruption(
        write("trajectories/row_1_run_0.json", b'{"session_id": "x"}'), "trajectories/row_1_run_0.json", "is not a copy", True
    ),
    "trajectory is a directory": Corruption(
        in_the_way("trajectories/row_0_run_0.json"), "trajectories/row_0_run_0.json", "is a directory, and a file is due", True
    ),
    "trajectory is a link": Corruption(
        link("trajectories/row_0_run_0.json"), "trajectories/row_0_run_0.json", "is a symlink", True
    ),
    "trajectories lead elsewhere": Corruption(
        link("trajectories"), "trajectories", "is a symlink, and a directory is due", True
    ),
    "artifact missing": Corruption(
        remove("artifacts/row_0_run_0/notes.txt"), "artifacts/row_0_run_0/notes.txt", "is missing", True
    ),
    "artifact changed": Corruption(
        write("artifacts/row_0_run_0/plots/größe.bin", b"\x00\xff\x01"),
        "artifacts/row_0_run_0/plots/größe.bin",
        "differs",
        True,
    ),
    "artifact of a superseded attempt": Corruption(
        write("artifacts/row_1_run_0/old.txt", b"x"), "artifacts/row_1_run_0/old.txt", "is not a copy of any file", True
    ),
    "artifact is a pipe": Corruption(
        pipe("artifacts/row_0_run_0/notes.txt"), "artifacts/row_0_run_0/notes.txt", "is a special file", True
    ),
    "artifact with a reserved name": Corruption(
        write("artifacts/row_0_run_0/manifest.json", b"{}"), "artifacts/row_0_run_0/manifest.json", "is not a copy", True
    ),
    "artifacts lead elsewhere": Corruption(
        link("artifacts/row_0_run_0"), "artifacts/row_0_run_0", "is not a copy of any file", True
    ),
    "artifacts are a file": Corruption(
        both(remove("artifacts"), write("artifacts", b"x")),
        "artifacts",
        "is a file, and a directory is due",
        True,
    ),
}

TRIALS = {
    "trials missing": Corruption(remove("rollout_trials"), "rollout_trials", "is missing"),
    "trial missing": Corruption(remove(SUCCEEDED), f"{SUCCEEDED}/trajectory.json", "row_0_run_0.json still holds the document"),
    "trial with artifacts missing": Corruption(
        both(remove(SUCCEEDED), remove("trajectories/row_0_run_0.json")),
        SUCCEEDED,
        "artifacts/row_0_run_0/ still holds its files",
    ),
    "trial is a link": Corruption(link(SUCCEEDED), SUCCEEDED, "is a symlink, and a directory is due"),
    "trial's trajectory missing": Corruption(
        remove(f"{SUCCEEDED}/trajectory.json"), f"{SUCCEEDED}/trajectory.json", "is missing; trajectories/row_0_run_0.json"
    ),
    "trial's trajectory is a pipe": Corruption(
        pipe(f"{SUCCEEDED}/trajectory.json"), f"{SUCCEEDED}/trajectory.json", "is damaged; trajectories/row_0_run_0.json"
    ),
    "trial's trajectory cut": Corruption(
        lambda root: os.truncate(root / SUCCEEDED / "trajectory.json", 50), f"{SUCCEEDED}/trajectory.json", "is damaged"
    ),
    "trial's trajectory of another rollout": Corruption(
        edit(f"{SUCCEEDED}/trajectory.json", SUCCEEDED[-32:].encode(), OTHER.encode()),
        f"{SUCCEEDED}/trajectory.json",
        f"belongs to rollout {OTHER}",
    ),
    "trial's trajectory that names nobody": Corruption(
        write("rollout_trials/" + "a9".rjust(32, "0") + "/trajectory.json", b"[]"),
        "rollout_trials/" + "a9".rjust(32, "0") + "/trajectory.json",
        "names no rollout",
        warning=True,
    ),
}

BESIDE = {
    "rows missing": Corruption(remove("dataset_rows.jsonl"), "dataset_rows.jsonl", "is missing"),
    "rows missing, dataset given": Corruption(
        remove("dataset_rows.jsonl"), "dataset_rows.jsonl", "is missing", True, dataset=True
    ),
    "rows with a lost line": Corruption(
        change_lines("dataset_rows.jsonl", lambda lines: lines[:3]), "dataset_rows.jsonl:4", "3 rows, and 4 are selected"
    ),
    "rows out of order": Corruption(
        change_lines("dataset_rows.jsonl", lambda lines: [lines[1], lines[0], *lines[2:]]), "dataset_rows.jsonl:1", "0 is due"
    ),
    "rows not JSON": Corruption(edit("dataset_rows.jsonl", b'"L"', b"L"), "dataset_rows.jsonl:3", ""),
    "rows without the last newline": Corruption(
        lambda root: os.truncate(root / "dataset_rows.jsonl", (root / "dataset_rows.jsonl").stat().st_size - 1),
        "dataset_rows.jsonl:4",
        "no newline",
    ),
    "rows with another text, dataset given": Corruption(
        edit("dataset_rows.jsonl", b'"L"', b'"M"'), "dataset_rows.jsonl:3", "is not what the dataset says", True, dataset=True
    ),
    "rows are a directory, dataset given": Corruption(
        in_the_way("dataset_rows.jsonl"), "dataset_rows.jsonl", "is a directory", True, dataset=True
    ),
    "sources missing": Corruption(remove("source_files.json"), "source_files.json", "is missing"),
    "sources not JSON": Corruption(write("source_files.json", b"{"), "source_files.json", ""),
    "sources of another digest": Corruption(
        edit("source_files.json", b'digest": "xxh3-128:v1:', b'digest": "xxh3-128:v2:'), "source_files.json", "manifest locks"
    ),
    "sources with a size that cannot be": Corruption(
        edit("source_files.json", b'"size": 12', b'"size": -1'), "source_files.json", "'main.py' has no digest and size"
    ),
    "sources in other bytes": Corruption(append("source_files.json", b" "), "source_files.json", "somebody has changed"),
    "journal that others read": Corruption(public("events.jsonl"), "events.jsonl", "mode is 0644", True, warning=True),
    "copy that others read": Corruption(
        public("artifacts/row_0_run_0/notes.txt"), "artifacts/row_0_run_0/notes.txt", "mode is 0644", True, warning=True
    ),
    "temporary file": Corruption(
        write(".metrics.json.ab_cd012.tmp", b"{"), ".metrics.json.ab_cd012.tmp", "a crash left behind", True, warning=True
    ),
    "temporary copy": Corruption(
        write("trajectories/.row_0_run_0.json.abcdefgh.tmp", b"{"),
        "trajectories/.row_0_run_0.json.abcdefgh.tmp",
        "a crash left behind",
        True,
        warning=True,
    ),
    "server that is gone": Corruption(
        write("server.json", server_record(os.getpid(), "long ago")), "server.json", "is gone", warning=True
    ),
    "server that still runs": Corruption(
        write("server.json", server_record(os.getpid(), start_token(os.getpid()) or "")),
        "server.json",
        "still runs",
        warning=True,
    ),
    "server that is nobody": Corruption(write("server.json", b"{"), "server.json", "does not name a process", warning=True),
}

CORRUPTIONS = {**MANIFEST, **JOURNAL, **STORY, **PROJECTIONS, **COPIES, **TRIALS, **BESIDE}
IDS = sorted(CORRUPTIONS)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sound run."""
    return copy_run(tmp_path)


def verify(root: Path, *, repair: bool = False, dataset: Path | None = None) -> AuditReport:
    """Verify a run by its path."""
    return verify_run(VerifyRequest(str(root), Path.cwd(), None, dataset, repair))


def test_at_least_twenty_corruptions_of_each_kind_are_seeded() -> None:
    """The list cannot shrink unnoticed (ruling 30)."""
    assert len(CORRUPTIONS) >= 100
    assert sum(corruption.repairable for corruption in CORRUPTIONS.values()) >= 35


@pytest.mark.parametrize("dataset", [None, DATASET])
@pytest.mark.parametrize("repair", [False, True])
def test_a_run_written_by_hand_is_sound_and_untouched(root: Path, repair: bool, dataset: Path | None) -> None:
    """What another writer wrote by the book is accepted, and no byte, mode or time of it changes."""
    before = snapshot(root)
    report = verify(root, repair=repair, dataset=dataset)
    assert report.findings == ()
    assert report.status is AuditStatus.SOUND
    assert (report.planned, report.succeeded, report.failed, report.skipped, report.pending) == (8, 5, 1, 2, 0)
    assert (report.run_name, report.records) == (NAME, 31)
    assert snapshot(root) == before


@pytest.mark.parametrize("name", IDS)
def test_each_corruption_is_named_and_nothing_is_touched(root: Path, name: str) -> None:
    """A look names the file (and the line), says what is wrong, and changes nothing."""
    corruption = CORRUPTIONS[name]
    corruption.damage(root)
    before = snapshot(root)
    report = verify(root, dataset=DATASET if corruption.dataset else None)
    assert snapshot(root) == before
    named = [finding for finding in report.findings if finding.where == corruption.where and corruption.what in finding.what]
    assert named, [str(finding) for finding in report.findings]
    assert named[0].repairable == corruption.repairable
    assert named[0].severity is (Severity.WARNING if corruption.warning else Severity.ERROR)
    assert report.status is (AuditStatus.SOUND if corruption.warning else AuditStatus.UNSOUND)


@pytest.mark.parametrize("name", IDS)
def test_repair_mends_what_can_be_mended_and_nothing_else(root: Path, name: str) -> None:
    """What follows from the journal is as it was before the damage; anything else stays exactly as the damage left it."""
    corruption = CORRUPTIONS[name]
    sound = contents(root)
    corruption.damage(root)
    damaged = snapshot(root)
    outside = contents(root.parent, without=(NAME, ".locks"))
    report = verify(root, repair=True, dataset=DATASET if corruption.dataset else None)
    assert contents(root.parent, without=(NAME, ".locks")) == outside
    if corruption.repairable:
        assert report.status is AuditStatus.REPAIRED
        assert report.findings == ()
        assert contents(root, without=KEPT) == sound
        assert verify(root).status is AuditStatus.SOUND
    else:
        assert report.status is (AuditStatus.SOUND if corruption.warning else AuditStatus.UNSOUND)
        assert report.repaired == ()
        assert snapshot(root) == damaged


def test_repair_keeps_what_it_replaces(root: Path) -> None:
    """The torn tail and every copy that was wrong lie beside, byte for byte; the report says where."""
    append("events.jsonl", b'{"seq":32')(root)
    write("artifacts/row_0_run_0/notes.txt", b"edited by hand\n")(root)
    report = verify(root, repair=True)
    tail, copy = report.kept
    assert (root / tail).read_bytes() == b'{"seq":32'
    assert (root / tail).stat().st_mode & 0o777 == 0o600
    assert (root / copy).read_bytes() == b"edited by hand\n"
    assert [finding.path for finding in report.repaired] == ["events.jsonl", "artifacts/row_0_run_0/notes.txt"]


def test_a_second_repair_never_overwrites_what_the_first_kept(root: Path) -> None:
    """Two repairs within one second keep two tails."""
    kept: list[str] = []
    for tail in (b"{", b"{{"):
        append("events.jsonl", tail)(root)
        kept += verify(root, repair=True).kept
    assert [(root / name).read_bytes() for name in kept] == [b"{", b"{{"]


def test_a_damaged_journal_vouches_for_nothing(root: Path) -> None:
    """Nothing is rebuilt from a journal whose middle is damaged, however wrong the projections look."""
    edit("events.jsonl", b'"reward":0.5', b'"reward":0.4')(root)
    append("events.jsonl", b"{")(root)
    remove("index.jsonl")(root)
    before = snapshot(root)
    report = verify(root, repair=True)
    assert snapshot(root) == before
    assert report.unchecked
    assert (report.planned, report.pending, report.records) == (0, 0, 5), "what cannot be counted is not guessed"
    assert [finding.where for finding in report.findings if finding.severity is Severity.ERROR] == ["events.jsonl:6"]


def test_a_manifest_with_another_source_is_told_by_its_sidecar(root: Path) -> None:
    """The lock's source digest stands in two files, so that neither can be changed alone."""
    edit("manifest.json", b'"source_digest": "xxh3-128:v1:', b'"source_digest": "xxh3-128:v1:0')(root)
    assert "source_files.json" in {finding.path for finding in verify(root).findings}


def test_files_of_superseded_attempts_do_not_matter(root: Path) -> None:
    """Only the trial of a current result is looked at: earlier ones may be half written or gone."""
    remove("rollout_trials/" + "a2".rjust(32, "0"))(root)
    write("rollout_trials/" + "f" * 32 + "/trajectory.json", b"{")(root)
    assert verify(root).findings == ()


def test_notes_beside_a_run_do_not_matter(root: Path) -> None:
    """A person may leave files in a run directory."""
    write("notes.md", b"good run")(root)
    write("plots/a.png", b"x")(root)
    assert verify(root, repair=True).findings == ()
    assert (root / "notes.md").exists()


def running(data: bytes) -> bytes:
    """`metrics.json` as it is while a run goes on: counts alone."""
    metrics = json.loads(data)
    run, summary = metrics["eval_run"], metrics["summary"]
    counts = ("total_samples", "completed_samples", "graded", "passed", "failed", "skipped", "pass_rate", "pass_threshold")
    run |= {"status": "running", "duration_ms": 0.0}
    del run["completed_at"]
    kept = {key: summary[key] for key in (*counts, "tokens_used")}
    return (json.dumps({"eval_run": run, "summary": kept}, indent=2) + "\n").encode()


def killed(root: Path) -> None:
    """The run as `kill -9` left it in its first invocation: two results, the index as it grew, metrics that say running."""
    change_lines("events.jsonl", lambda lines: lines[:7])(root)
    append("events.jsonl", b'{"seq":8,"kind":"res')(root)
    change_lines("index.jsonl", lambda lines: [line.replace(b', "resumed": true', b"") for line in (lines[1], lines[0])])(root)
    remove("summary.jsonl")(root)
    remove("trajectories/row_0_run_1.json")(root)
    write("metrics.json", running((root / "metrics.json").read_bytes()))(root)


UNWRITTEN = {"events.jsonl", "index.jsonl", "summary.jsonl", "metrics.json", "trajectories/row_0_run_1.json"}


def test_a_killed_run_is_put_in_order(root: Path) -> None:
    """What a crash left unwritten is no error and says when it is written; repair leaves a sound, unfinished run; counts add up
    and what is left is pending."""
    killed(root)
    report = verify(root)
    assert report.status is AuditStatus.SOUND
    assert {finding.path for finding in report.findings} == UNWRITTEN
    assert all(finding.repairable and finding.severity is Severity.WARNING for finding in report.findings)
    assert {finding.path for finding in report.findings if "next start or --repair writes it" in finding.what} == (
        UNWRITTEN - {"events.jsonl"}
    )
    report = verify(root, repair=True)
    assert report.status is AuditStatus.REPAIRED
    assert (report.planned, report.succeeded, report.pending) == (8, 2, 6)
    metrics = json.loads((root / "metrics.json").read_bytes())
    assert (metrics["eval_run"]["status"], metrics["summary"]["total_samples"]) == ("incomplete", 2)
    assert (root / "index.jsonl").read_bytes() == (root / "summary.jsonl").read_bytes()


DAMAGED_WHEN_KILLED = {
    "index value changed": (edit("index.jsonl", b'"reward": 0.5', b'"reward": 0.4'), "index.jsonl"),
    "index line not JSON": (edit("index.jsonl", b'{"row', b'["row'), "index.jsonl"),
    "index of unknown rollouts": (append("index.jsonl", b'{"rollout_id": "' + b"e" * 32 + b'"}\n'), "index.jsonl"),
    "progress changed": (edit("progress.json", b"8", b"9"), "progress.json"),
    "metrics of another run": (edit("metrics.json", b'"id": "0', b'"id": "1'), "metrics.json"),
    "copy changed": (append("trajectories/row_0_run_0.json", b" "), "trajectories/row_0_run_0.json"),
    "copy of nothing": (write("artifacts/row_3_run_0/x", b"x"), "artifacts/row_3_run_0/x"),
}


@pytest.mark.parametrize("name", DAMAGED_WHEN_KILLED)
def test_damage_to_a_killed_run_is_an_error_all_the_same(root: Path, name: str) -> None:
    """Being cut short excuses what is not written yet, and nothing else."""
    killed(root)
    damage, path = DAMAGED_WHEN_KILLED[name]
    damage(root)
    errors = {finding.path for finding in verify(root).findings if finding.severity is Severity.ERROR}
    assert errors == {path}
    assert verify(root, repair=True).status is AuditStatus.REPAIRED


def test_copies_of_the_attempt_before_are_no_damage_in_a_killed_retry(root: Path) -> None:
    """A retry that was killed between a durable result and its copies leaves the earlier attempt's files; they go at last."""
    change_lines("events.jsonl", lambda lines: lines[:29])(root)
    for name in ("index.jsonl", "summary.jsonl"):
        change_lines(name, lambda lines: lines[:7])(root)
    write("metrics.json", running((root / "metrics.json").read_bytes()))(root)
    write("artifacts/row_1_run_0/old.txt", b"x")(root)
    report = verify(root)
    assert report.status is AuditStatus.SOUND, report
    assert "artifacts/row_1_run_0/old.txt" in {finding.path for finding in report.findings}
    assert verify(root, repair=True).status is AuditStatus.REPAIRED
    assert not (root / "artifacts/row_1_run_0/old.txt").exists()


@pytest.mark.parametrize("last", range(32))
def test_every_prefix_of_a_journal_can_be_repaired(root: Path, last: int) -> None:
    """Whenever a run stops, what it left is a sound run after a repair, with nothing lost that was durable."""
    remove("index.jsonl")(root)
    remove("summary.jsonl")(root)
    change_lines("events.jsonl", lambda lines: lines[:last])(root)
    known = b"".join(line for line in (root / "events.jsonl").read_bytes().split(b"\n"))
    for path in [*root.glob("trajectories/*"), *root.glob("artifacts/*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for trial in root.glob("rollout_trials/*"):
        if trial.name.encode() not in known:
            shutil.rmtree(trial)
    assert verify(root, repair=True).status is AuditStatus.REPAIRED
    indexed = (root / "index.jsonl").read_bytes().count(b"\n")
    assert indexed == len({(line.split(b'"item":')[1][:5]) for line in known.split(b'{"seq"') if b'"kind":"result"' in line})


def test_another_dataset_is_told_from_the_run_s_own(root: Path, tmp_path: Path) -> None:
    """A dataset with other bytes is named, and nothing is written from it."""
    other = tmp_path / "other.jsonl"
    other.write_bytes(DATASET.read_bytes() + b"\n")
    remove("dataset_rows.jsonl")(root)
    report = verify(root, repair=True, dataset=other)
    assert [(finding.where, finding.repairable) for finding in report.findings] == [
        (str(other), False),
        ("dataset_rows.jsonl", False),
    ]
    assert not (root / "dataset_rows.jsonl").exists()


def test_a_run_that_somebody_works_on_is_left_alone(root: Path) -> None:
    """The run's lock is taken first; who holds it is named."""
    with locked(RunDirectory(root.parent, root.name)) as lock:
        lock.identify("2026-11-30T12:00:00.000000Z")
        with pytest.raises(OsmosisError, match=f"is being worked on by process {os.getpid()}") as caught:
            verify(root)
    assert caught.value.code is ErrorCode.CONFLICT
    assert verify(root).status is AuditStatus.SOUND


# --- The command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with one sound run, and the process in it."""
    (tmp_path / "configs" / "eval").mkdir(parents=True)
    (tmp_path / "rollouts").mkdir()
    copy_run(tmp_path / ".osmosis" / "evals")
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN = Path(".osmosis/evals") / NAME


@pytest.mark.parametrize(
    "arguments",
    [[NAME], [str(RUN)], [f"./{RUN}"], [f"{RUN}/"], [NAME, "-o", ".osmosis/evals"], [NAME, "--output=.osmosis/evals"]],
)
def test_a_run_is_found_by_name_and_by_path(workspace: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A bare name lies below `.osmosis/evals` or `--output`; anything with a slash is a directory (E11)."""
    assert main(["eval", "verify", *arguments, "--plain"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Run {NAME} is sound.\n")
    assert err == ""


@pytest.mark.parametrize(("place", "run"), [(RUN, "."), (RUN.parent, f"./{NAME}"), (RUN / "artifacts", ".."), (RUN, "./")])
def test_a_path_needs_no_workspace_around_it(
    workspace: Path, tmp_path: Path, place: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.`, `..` and `./NAME` are directories, not names, wherever they lie."""
    (workspace / "configs" / "eval").rmdir()
    monkeypatch.chdir(workspace / place)
    assert main(["eval", "verify", run, "--plain"]) == 0


@pytest.mark.parametrize("arguments", [["no-such-run"], ["./rollouts"], ["rollouts"], ["x/y/z"]])
def test_what_is_no_run_is_said_so(workspace: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One message, a hint, exit code 1, and nothing created, not even a lock."""
    before = snapshot(workspace)
    assert main(["eval", "verify", *arguments, "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == "NOT_FOUND"
    assert snapshot(workspace) == before


@pytest.mark.parametrize(
    ("path", "what"), [("nowhere.jsonl", "cannot be read: No such file"), ("rollouts", "is not a file"), ("p", "is not a file")]
)
def test_a_dataset_that_cannot_be_read(workspace: Path, path: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong path is an error of the command, not a finding about the run; a pipe holds nobody up."""
    os.mkfifo(workspace / "p")
    assert main(["eval", "verify", NAME, "--dataset-file", path]) == 1
    assert f"{path} {what}" in capsys.readouterr().err


def test_findings_in_json(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One envelope with every finding; the next step is the command that repairs, and it works as it stands."""
    edit("index.jsonl", b'"reward": 0.5', b'"reward": 0.4')(workspace / RUN)
    assert main(["eval", "verify", NAME, "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    envelope = json.loads(out)
    assert (envelope["operation"], envelope["status"]) == ("eval.verify", "unsound")
    what = "is not what the journal and the trials say"
    finding = {"where": "index.jsonl:2", "what": what, "severity": "error", "repairable": True}
    assert envelope["resource"]["findings"] == [finding]
    (step,) = envelope["next_steps_structured"]
    assert main([*step["argv"][1:], "--json"]) == 0
    envelope = json.loads(capsys.readouterr().out)
    assert (envelope["status"], envelope["next_steps_structured"]) == ("repaired", [])
    assert envelope["resource"]["repaired"] == [finding]
    assert main(["eval", "verify", NAME]) == 0


@pytest.mark.parametrize("mode", [[], ["--plain"]])
def test_findings_for_people(workspace: Path, mode: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict, each finding with its place, the counts, and the command that repairs."""
    remove("summary.jsonl")(workspace / RUN)
    public("logs.txt")(workspace / RUN)
    assert main(["eval", "verify", NAME, *mode]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    for part in (
        f"Run {NAME} is not sound: 1 error, 1 warning.",
        "summary.jsonl: is missing [repairable]",
        "logs.txt: its mode is 0644",
        "8 · 5 ok · 1 failed · 2 skipped · 0 pending",
        f"osmosis eval verify {NAME} --repair",
    ):
        assert part in out


def test_hostile_names_are_shown_harmlessly(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file name cannot steer the terminal, nor break the JSON."""
    name = os.fsdecode(b"row_0_run_0/\x1b[2J\xff.txt")
    (workspace / RUN / "artifacts" / name).write_bytes(b"x")
    for mode in ([], ["--plain"], ["--json"]):
        assert main(["eval", "verify", NAME, *mode]) == 1
        out, _ = capsys.readouterr()
        assert "\x1b[2J" not in out
        assert "is not a copy of any file" in out
