"""`osmosis eval verify`: reads a run directory for `osmosis.pure.audit`, and mends what that says can be mended (issue 3).

A look changes nothing in the run directory. What is due is not computed anew here: the runner's own `Projector` runs over the
journal and the trials, with a file layer that takes digests instead of writing. A repair holds the run's lock, lets the same
projector write, and moves aside what is in the way; it never touches manifest, journal or trials, but for the torn tail.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.audit import (
    DATASET_ROWS,
    DatasetFact,
    ServerFact,
    TrialFact,
    after_repair,
    audit_dataset_rows,
    audit_files,
    audit_journal_file,
    audit_manifest,
    audit_report,
    audit_source_files,
    audit_tail,
    audit_trials,
    blocks_rebuild,
    dataset_matches,
    stem,
)
from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.digest import ContentHasher, fingerprint
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.finding import AuditReport, FileFact, Finding, Remedy
from osmosis.pure.index import TRAJECTORY_FILENAME
from osmosis.pure.journal import JournalDamage, JournalDecoder, RunHistory
from osmosis.pure.journal_audit import JOURNAL, JournalAudit, RunPlan
from osmosis.pure.plan import Manifest
from osmosis.pure.projection_audit import PROJECTIONS, Rebuilt, audit_projections
from osmosis.pure.trajectory import trajectory_facts
from osmosis.shell.evaluation.clock import utc_now
from osmosis.shell.evaluation.dataset_file import read_dataset
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.journal_file import JournalReading, settle_journal
from osmosis.shell.evaluation.orphans import SERVER_RECORD
from osmosis.shell.evaluation.process_identity import ProcessRecord, is_same
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.run_directory import RunDirectory, locked, refuse_symlink
from osmosis.shell.evaluation.run_files import kind_of, open_regular, read_regular, survey
from osmosis.shell.evaluation.workspace import DEFAULT_OUTPUT, find_workspace

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
    directory = _locate(request)
    with _disk_errors(directory.path), locked(directory) as lock:
        before = _examine(directory, request)
        if not request.repair or not any(finding.repairable for finding in before.report.findings):
            return before.report
        lock.identify(utc_now())
        kept = _Repair(files or FileLayer(), directory, before).perform()
        return after_repair(before.report, _examine(directory, request).report, kept)


def _locate(request: VerifyRequest) -> RunDirectory:
    if os.sep in request.run or request.run in ("", ".", ".."):
        path = (request.working_directory / Path(request.run).expanduser()).resolve()
        directory = RunDirectory(path.parent, path.name)
    else:
        root = request.output.expanduser() if request.output else find_workspace(request.working_directory) / DEFAULT_OUTPUT
        directory = RunDirectory((request.working_directory / root).resolve(), request.run)
        refuse_symlink(directory)
    if not (directory.manifest.exists() or directory.journal.exists()):
        raise OsmosisError(
            f"There is no run at {directory.path}.",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(directory.path), "holds neither manifest.json nor events.jsonl")],
            hint="Give the name of a run below .osmosis/evals (or below --output), or the path of a run directory: ./NAME",
        )
    return directory


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


class _Examination(msgspec.Struct, frozen=True):
    """One look: the report, and what a repair needs."""

    report: AuditReport
    manifest: Manifest | None = None
    reading: JournalReading = JournalReading(RunHistory(0))
    dataset_rows: bytes | None = None


def _examine(directory: RunDirectory, request: VerifyRequest) -> _Examination:
    entries = survey(directory.path)
    plan, manifest_findings = audit_manifest(entries)
    findings = [*manifest_findings]
    if plan is None:
        findings += audit_files(entries, _server(directory))
        report = audit_report(
            path=str(directory.path), run_name=directory.name, history=None, records=0, findings=findings, blocked=True
        )
        return _Examination(report)
    journal = _read_journal(directory, entries, plan)
    history = journal.reading.history
    findings += journal.findings
    findings += audit_journal_file(entries, journal.audit.with_result if journal.complete else None, _trial_names(directory))
    rebuilt = {} if blocks_rebuild(findings) else _rebuild(directory, plan.manifest, history)
    copied = {parts[1] for path in entries if (parts := path.split("/"))[0] == "artifacts" and len(parts) > 2}
    findings += audit_trials(_trial_facts(directory, history, rebuilt), entries, copied)
    blocked = blocks_rebuild(findings)
    findings += () if blocked else audit_projections(rebuilt, entries)
    findings += audit_source_files(entries, plan)
    dataset = _dataset(request, plan)
    findings += audit_dataset_rows(entries, plan, dataset)
    findings += audit_files(entries, _server(directory))
    report = audit_report(
        path=str(directory.path),
        run_name=plan.manifest.run_name,
        history=history if journal.complete else None,
        records=journal.audit.records,
        findings=findings,
        blocked=blocked,
    )
    return _Examination(report, plan.manifest, journal.reading, dataset.rows if dataset else None)


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
            for line in file:  # a line at a time, so that everything before a damaged line is judged
                for record in decoder.feed(line):
                    audit.add(record)
    except JournalDamage as damage:
        fault = Finding(JOURNAL, damage.problems[0].message, damage.line)
    except OSError as error:
        fault = Finding(JOURNAL, f"cannot be read: {error.strerror or error}")
    ending = [fault] if fault else audit_tail(decoder.torn, decoder.offset)
    reading = JournalReading(audit.history, decoder.count, decoder.offset, decoder.torn)
    return _Journal(audit, reading, (*audit.findings, *ending), fault is None)


def _trial_names(directory: RunDirectory) -> frozenset[str]:
    if kind_of(directory.trials) is not EntryKind.DIRECTORY:
        return frozenset()
    with os.scandir(directory.trials) as found:
        return frozenset(entry.name for entry in found if entry.is_dir(follow_symlinks=False))


def _trial_facts(directory: RunDirectory, history: RunHistory, rebuilt: dict[str, Rebuilt]) -> Iterator[TrialFact]:
    """The trials of current results that offer no trajectory, or have no directory."""
    for item, result in sorted(history.results.items()):
        name = stem(item)
        trial = directory.trial(result.rollout_id)
        kind = kind_of(trial)
        copy = f"trajectories/{name}.json"
        if kind is EntryKind.DIRECTORY and copy in rebuilt:
            continue
        yield TrialFact(
            rollout_id=result.rollout_id,
            stem=name,
            directory=kind,
            trajectory=kind is EntryKind.DIRECTORY and kind_of(trial / TRAJECTORY_FILENAME) is not None,
            identity=_identity(trial / TRAJECTORY_FILENAME) if kind is EntryKind.DIRECTORY else None,
            copied_identity=_identity(directory.path / copy),
        )


def _identity(path: Path) -> str | None:
    data = read_regular(path)
    facts = trajectory_facts(data) if data is not None else None
    return facts.rollout_id if facts else None


def _server(directory: RunDirectory) -> ServerFact | None:
    path = directory.path / SERVER_RECORD
    if kind_of(path) is None:
        return None
    try:
        record = msgspec.json.decode(read_regular(path) or b"", type=ProcessRecord)
    except (msgspec.MsgspecError, RecursionError):
        return ServerFact(None, alive=False)
    return ServerFact(record.pid, is_same(record))


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

    def replace(self, path: Path, data: bytes, *, step: str, durable: bool = True) -> None:
        relative = path.relative_to(self._root).as_posix()
        self.rebuilt[relative] = Rebuilt(fingerprint(data), data if relative in PROJECTIONS else None)

    def sync_tree(self, path: Path | str, *, step: str) -> None:
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


# --- Mending ------------------------------------------------------------------------------------------------------------------


class _Repair:
    """Performs the remedies of one examination."""

    def __init__(self, files: FileLayer, directory: RunDirectory, before: _Examination) -> None:
        self._files = files
        self._directory = directory
        self._before = before
        self._stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"

    def perform(self) -> list[str]:
        """Mend everything that can be, and return the paths of what was kept, relative to the run directory."""
        kept = [self._cut_tail()] if self._paths(Remedy.CUT_TAIL) else []
        kept += self._move_aside(self._paths(Remedy.MOVE_ASIDE))
        for path in self._paths(Remedy.MAKE_PRIVATE):
            self._make_private(self._directory.path / path)
        if self._paths(Remedy.WRITE_ROWS):
            kept += self._write_rows()
        if self._paths(Remedy.REBUILD, Remedy.MOVE_ASIDE):
            assert self._before.manifest is not None
            Projector(self._files, self._directory, lambda _: None).finalize(
                self._before.manifest, self._before.reading.history
            )
        return kept

    def _paths(self, *remedies: Remedy) -> list[str]:
        return sorted({finding.path for finding in self._before.report.findings if finding.remedy in remedies})

    def _cut_tail(self) -> str:
        """The tail is durable in a file of its own before the journal is cut."""
        journal, size = self._directory.journal, self._before.reading.size
        with open(open_regular(journal), "rb") as file:
            file.seek(size)
            tail = file.read()
        target = self._unused(f"{JOURNAL}.torn-{self._stamp}")
        self._files.replace(target, tail, step="torn_tail")
        settle_journal(self._files, journal, self._before.reading)
        return target.name

    def _move_aside(self, paths: Iterable[str]) -> Iterator[str]:
        """Into a directory of this repair, each under its own path. A parent goes with all that it holds."""
        aside: Path | None = None
        for relative in paths:
            source = self._directory.path / relative
            if kind_of(source) is None:
                continue
            aside = aside or self._unused(f"replaced-{self._stamp}")
            target = aside / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            self._files.rename(source, target, step="move_aside")
            yield target.relative_to(self._directory.path).as_posix()

    def _make_private(self, path: Path) -> None:
        if kind_of(path) is not EntryKind.FILE:
            return
        descriptor = open_regular(path)
        try:
            os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)

    def _write_rows(self) -> list[str]:
        assert self._before.dataset_rows is not None
        regular = kind_of(self._directory.dataset_rows) in (None, EntryKind.FILE)
        kept = [] if regular else list(self._move_aside([DATASET_ROWS]))
        self._files.replace(self._directory.dataset_rows, self._before.dataset_rows, step="dataset_rows")
        return kept

    def _unused(self, name: str) -> Path:
        """A path in the run directory that nothing has yet."""
        names = (name if number == 0 else f"{name}-{number}" for number in range(10_000))
        return next(path for name in names if kind_of(path := self._directory.path / name) is None)
