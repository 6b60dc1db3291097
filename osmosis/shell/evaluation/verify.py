"""`osmosis eval verify`: reads a run directory for `osmosis.pure.audit`, and mends what that says can be mended (issue 3).

A look changes nothing in the run directory, and works where nothing can be written. What is due is not computed anew here: the
runner's own `Projector` runs over the journal and the trials, with a file layer that takes digests instead of writing. A repair
(`repair.py`) holds the run's lock: it puts back what trials have lost and copies still hold, looks again, and mends the rest.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import (
    DATASET_ROWS,
    MANIFEST,
    SOURCE_FILES,
    DatasetFact,
    ProcessFact,
    after_repair,
    audit_dataset_rows,
    audit_files,
    audit_journal_file,
    audit_manifest,
    audit_report,
    audit_source_files,
    audit_tail,
    awaits_restoring,
    blocks_rebuild,
    dataset_matches,
    mended_by,
)
from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.digest import ContentHasher, encode_source_files, fingerprint
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.evidence import decode_evidence, digest_of
from osmosis.pure.evidence_audit import audit_log, audit_own_files, audit_trials
from osmosis.pure.finding import AuditReport, FileFact, Finding, Remedy
from osmosis.pure.journal import LONGEST_RECORD, JournalDamage, JournalDecoder, RunHistory
from osmosis.pure.journal_audit import JOURNAL, JournalAudit, RunPlan
from osmosis.pure.pending import excused, is_cut_short
from osmosis.pure.plan import Manifest
from osmosis.pure.projection_audit import ARTIFACTS, PROJECTIONS, Rebuilt, audit_projections, stem
from osmosis.pure.protocol import is_path_segment
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.dataset_file import read_dataset
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.journal_file import JournalReading
from osmosis.shell.evaluation.orphans import SERVER_RECORD, TUNNEL_RECORD
from osmosis.shell.evaluation.own_files import kind_of, open_regular, read_regular
from osmosis.shell.evaluation.process_identity import ProcessRecord, is_same
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.repair import Examination, Repair
from osmosis.shell.evaluation.run_directory import RunDirectory, held_still, locked
from osmosis.shell.evaluation.run_files import survey
from osmosis.shell.evaluation.run_location import locate_run
from osmosis.shell.evaluation.source_tree import scan_source_tree
from osmosis.shell.evaluation.trial_look import Trials, log_fact
from osmosis.shell.evaluation.workspace import ROLLOUTS_DIRECTORY, find_workspace

_CHUNK = 1 << 20


class VerifyRequest(msgspec.Struct, frozen=True):
    """One request. Paths are as they were given, relative to `working_directory`.

    `run` with a path separator in it, or `.` and `..`, is a directory; anything else is the name of a run below `output`,
    by default `.osmosis/evals` of the workspace.
    """

    run: str
    working_directory: Path
    output: Path | None = None
    dataset_file: Path | None = None
    repair: bool = False


def verify_run(request: VerifyRequest, files: FileLayer | None = None) -> AuditReport:
    """Audit a run and, if asked to, repair it. Raises OsmosisError when there is no such run or somebody works on it."""
    directory = locate_run(request.run, request.working_directory, request.output, lost_manifest=True)
    with _disk_errors(directory.path):
        if not request.repair:
            with held_still(directory):
                return _examine(directory, request).report
        return _verify_and_repair(directory, request, files or FileLayer())


def _verify_and_repair(directory: RunDirectory, request: VerifyRequest, files: FileLayer) -> AuditReport:
    with locked(directory) as lock:
        before = _examine(directory, request)
        if not _is_repairable(before):
            return before.report
        lock.identify(utc_now())
        return _repair(files, directory, request, before)


def _is_repairable(examination: Examination) -> bool:
    return any(finding.repairable for finding in examination.report.findings)


def _repair(files: FileLayer, directory: RunDirectory, request: VerifyRequest, first: Examination) -> AuditReport:
    """Projections follow from the trials, so those come first, and are looked at again."""
    looks, kept = [first], []
    if awaits_restoring(first.report.findings):
        kept += Repair(files, directory, first).restore()
        looks.append(_examine(directory, request))
    if _is_repairable(looks[-1]):
        kept += Repair(files, directory, looks[-1]).perform()
    return after_repair([look.report for look in looks], _examine(directory, request).report, kept)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OsmosisError(
            f"The run directory {path} cannot be read or written.",
            problems=[Problem(str(error.filename or path), error.strerror or str(error))],
            hint="Check the permissions and the space on the disk. A copy of the directory can be verified anywhere.",
        ) from None


# --- Looking ------------------------------------------------------------------------------------------------------------------


def _examine(directory: RunDirectory, request: VerifyRequest) -> Examination:
    entries = survey(directory.path)
    plan, manifest_findings = audit_manifest(entries)
    findings = [*manifest_findings]
    if plan is None:
        findings += audit_files(entries, _processes(directory))
        return Examination(_report(directory, findings))
    journal = _read_journal(directory, entries, plan)
    audit, history = journal.audit, journal.reading.history
    findings += audit_own_files(entries, audit.own_files, [MANIFEST])
    findings += journal.findings
    findings += audit_journal_file(entries, audit.with_result if journal.complete else None, _trial_names(directory))
    rebuilt = {} if blocks_rebuild(findings) else _rebuild(directory, plan.manifest, history)
    trials = Trials(directory, audit.trial_files)
    copied = {parts[1] for path in entries if (parts := path.split("/"))[0] == ARTIFACTS and len(parts) > 2}
    findings += audit_trials(trials.facts(history, rebuilt), entries, copied)
    if not blocks_rebuild(findings) and not awaits_restoring(findings):
        findings += _audit_projections(entries, rebuilt, audit)
    findings += audit_source_files(entries, plan)
    dataset = _dataset(request, plan)
    findings += audit_dataset_rows(entries, plan, dataset)
    found = {finding.path for finding in findings}
    findings += audit_own_files(entries, audit.own_files, [path for path in (SOURCE_FILES, DATASET_ROWS) if path not in found])
    findings += audit_log(audit.log_marks, log_fact(directory, audit.log_marks))
    findings += audit_files(entries, _processes(directory))
    sources = _sources(directory, plan, audit.own_files) if any(finding.path == SOURCE_FILES for finding in findings) else None
    report = _report(
        directory,
        findings if sources is None else [mended_by(finding, SOURCE_FILES, Remedy.WRITE_SOURCES) for finding in findings],
        history=history if journal.complete else None,
        records=audit.records,
        unrecorded=sum(item not in audit.trial_files for item in history.results),
        dataset=dataset.label if dataset else None,
    )
    return Examination(report, plan.manifest, journal.reading, dataset.rows if dataset else None, sources, trials.copies)


def _report(directory: RunDirectory, findings: list[Finding], **facts: Any) -> AuditReport:
    given = {"history": None, "records": 0} | facts
    return audit_report(path=str(directory.path), run_name=directory.name, findings=findings, **given)


def _audit_projections(entries: dict[str, FileFact], rebuilt: dict[str, Rebuilt], audit: JournalAudit) -> Iterator[Finding]:
    findings = audit_projections(rebuilt, entries)
    if not is_cut_short(entries, audit.records):
        return findings
    retried = {stem(item) for item, attempts in audit.history.attempts.items() if attempts > 1}
    return (
        excused(finding, entries.get(finding.path), rebuilt.get(finding.path), audit.with_result, retried)
        for finding in findings
    )


class _Journal(msgspec.Struct, frozen=True):
    """The journal, read and judged. `complete` when it could be read to its end, torn tail or not."""

    audit: JournalAudit
    reading: JournalReading
    findings: tuple[Finding, ...] = ()
    complete: bool = False


def _read_journal(directory: RunDirectory, entries: dict[str, FileFact], plan: RunPlan) -> _Journal:
    """Read and judge the journal: memory depends on the number of items, not on the length of the file."""
    audit = JournalAudit(plan)
    decoder = JournalDecoder(JOURNAL)
    if JOURNAL not in entries or entries[JOURNAL].kind is not EntryKind.FILE:
        return _Journal(audit, JournalReading(audit.history))
    fault = None
    try:
        with open(open_regular(directory.journal), "rb") as file:
            while line := file.readline(LONGEST_RECORD + 1):  # a line at a time: all before a damaged one is judged
                for record in decoder.feed(line):
                    audit.add(record, decode_evidence(line))
    except JournalDamage as damage:
        fault = Finding(JOURNAL, damage.problems[0].message, damage.line)
    except OSError as error:
        fault = Finding(JOURNAL, f"cannot be read: {error.strerror or error}")
    ending = [fault] if fault else audit_tail(decoder.torn, decoder.offset, cut_short=audit.cut_short)
    reading = JournalReading(audit.history, decoder.count, decoder.offset, decoder.torn)
    return _Journal(audit, reading, (*audit.findings, *ending), fault is None)


def _trial_names(directory: RunDirectory) -> frozenset[str]:
    if kind_of(directory.trials) is not EntryKind.DIRECTORY:
        return frozenset()
    with os.scandir(directory.trials) as found:
        return frozenset(entry.name for entry in found if entry.is_dir(follow_symlinks=False))


def _processes(directory: RunDirectory) -> Iterator[ProcessFact]:
    for name in (SERVER_RECORD, TUNNEL_RECORD):
        path = directory.path / name
        if kind_of(path) is None:
            continue
        try:
            record = msgspec.json.decode(read_regular(path) or b"", type=ProcessRecord)
        except (msgspec.MsgspecError, RecursionError):
            yield ProcessFact(name, None, alive=False)
        else:
            yield ProcessFact(name, record.pid, is_same(record))


def _dataset(request: VerifyRequest, plan: RunPlan) -> DatasetFact | None:
    """The dataset that was given: its digests, and what follows from it if they are the run's."""
    if request.dataset_file is None:
        return None
    label = str(request.dataset_file)
    path = request.working_directory / request.dataset_file.expanduser()
    if path.exists() and not path.is_file():
        raise OsmosisError(f"{label} is not a file.", hint="Give the path of the dataset file that the run was made from.")
    hasher = ContentHasher()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                hasher.update(chunk)
    except OSError as error:
        raise OsmosisError(f"{label} cannot be read: {error.strerror or error}.", hint="Check the path.") from None
    fact = DatasetFact(label, hasher.sha256, hasher.fingerprint)
    if not dataset_matches(plan, fact):
        return fact
    loaded = read_dataset(path, rows=plan.rows, limit=None)
    rows = b"".join(encode_dataset_rows(loaded.rows))
    return msgspec.structs.replace(fact, total_rows=loaded.total_rows, rows=rows)


def _sources(directory: RunDirectory, plan: RunPlan, recorded: dict[str, str]) -> bytes | None:
    """What `source_files.json` must be, if the rollout's source still lies in the workspace as the manifest locks it."""
    name = plan.inputs.rollout.name
    if not is_path_segment(name):
        return None
    try:
        tree = scan_source_tree(find_workspace(directory.path) / ROLLOUTS_DIRECTORY / name, directory.output_root)
    except (OsmosisError, OSError):
        return None
    data = encode_source_files(tree)
    proven = recorded.get(SOURCE_FILES) in (None, digest_of([data]))
    return data if tree.digest == plan.inputs.rollout.source_digest and proven else None


# --- What is due --------------------------------------------------------------------------------------------------------------


class _Elsewhere(RunDirectory, frozen=True):
    """A run directory that does not exist, with the trials of one that does: what is written for it has nothing to compare."""

    real: RunDirectory

    @property
    def trials(self) -> Path:
        return self.real.trials


class _Digests(FileLayer):
    """Takes digests of what would be written below `root`; touches no disk."""

    def __init__(self, root: Path) -> None:
        self.rebuilt: dict[str, Rebuilt] = {}
        self._root = root

    def replace_streamed(self, path: Path, chunks: Iterable[bytes], *, step: str, durable: bool = True) -> None:
        data = b"".join(chunks)
        relative = path.relative_to(self._root).as_posix()
        self.rebuilt[relative] = Rebuilt(fingerprint(data), data if relative in PROJECTIONS else None)

    def sync_tree(self, path: Path | str, *, step: str) -> None:
        pass

    def remove(self, path: Path, *, step: str) -> None:
        pass

    def sync_trees(self, paths: Iterable[Path | str], *, step: str, without: Container[str] = ()) -> None:
        pass

    def sync_file(self, path: Path | str, *, step: str) -> None:
        pass

    def sync_directory(self, path: Path | str, *, step: str) -> None:
        pass


def _rebuild(directory: RunDirectory, manifest: Manifest, history: RunHistory) -> dict[str, Rebuilt]:
    nowhere = _Elsewhere(directory.path, f".absent-{uuid.uuid4().hex}", directory)
    digests = _Digests(nowhere.path)
    Projector(digests, nowhere, lambda _: None).finalize(manifest, history)
    return digests.rebuilt
