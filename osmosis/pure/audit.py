"""Whether a run directory tells one story: what `osmosis eval verify` finds (issue 3; rulings 1 to 5; E16, E17, E22).

Manifest, journal and trials are the authority; everything else follows from them. So they are judged first, each by itself
and against the others. Only if they are sound is anything compared with them: a projection that differs from a damaged
journal may be the last good copy of what happened, and a rebuild would destroy it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import msgspec

from osmosis.pure.advice import advice_on
from osmosis.pure.artifacts import EntryKind
from osmosis.pure.canonical import lines
from osmosis.pure.dataset_rows import decode_dataset_rows
from osmosis.pure.digest import FINGERPRINT_FORMAT, decode_source_files, encode_source_files
from osmosis.pure.errors import OsmosisError
from osmosis.pure.evidence_audit import LOG, TRIALS, feeds_projections
from osmosis.pure.finding import AuditReport, AuditStatus, FileFact, Finding, Remedy, Severity
from osmosis.pure.journal import JOURNAL_FORMAT, RunHistory, Status
from osmosis.pure.journal_audit import JOURNAL, RunPlan, is_time
from osmosis.pure.plan import Manifest, RunInputs, decode_manifest, encode_manifest, planned_rows
from osmosis.pure.projection_audit import COPIES, INDEX, METRICS, PROGRESS, PROJECTIONS, SUMMARY, line_difference, temporary_of

MANIFEST, SOURCE_FILES, DATASET_ROWS = "manifest.json", "source_files.json", "dataset_rows.jsonl"
SERVER, TUNNEL = "server.json", "tunnel.json"
OWN_FILES = (MANIFEST, JOURNAL, SOURCE_FILES, DATASET_ROWS, *PROJECTIONS, LOG, SERVER, TUNNEL)
READ_WHOLE = (MANIFEST, SOURCE_FILES, DATASET_ROWS, *PROJECTIONS)
"""Files whose content is looked into; of all others a digest is enough."""
SMALL_FILES = (MANIFEST, PROGRESS, METRICS)
"""Files that do not grow with a run."""

_RUN_ID = re.compile("[0-9a-f]{32}")
_FINGERPRINT = re.compile(f"{FINGERPRINT_FORMAT}:[0-9a-f]{{32}}")
_OTHERS = 0o077


class ProcessFact(msgspec.Struct, frozen=True):
    """What `server.json` or `tunnel.json` says: a process and whether it still runs; `pid` is None when it says nothing."""

    path: str
    pid: int | None
    alive: bool


class DatasetFact(msgspec.Struct, frozen=True):
    """A dataset that was given. `rows` is what `dataset_rows.jsonl` must be by it; None where its digests are not the run's."""

    label: str
    sha256: str
    fingerprint: str
    total_rows: int | None = None
    rows: bytes | None = None


# --- The authority ------------------------------------------------------------------------------------------------------------


def audit_manifest(entries: Mapping[str, FileFact]) -> tuple[RunPlan | None, tuple[Finding, ...]]:
    """The plan that the manifest fixes, None when it does not say, and what is wrong with it."""
    content, findings = _content(entries, MANIFEST)
    if content is None:
        return None, findings
    try:
        manifest = decode_manifest(content, MANIFEST)
        inputs = msgspec.convert(manifest.inputs, RunInputs)
        plan = RunPlan(manifest, inputs, planned_rows(manifest))
    except OsmosisError as error:
        return None, _as_findings(error, MANIFEST)
    except msgspec.ValidationError as error:
        return None, (Finding(MANIFEST, f"inputs: {error}"),)
    wrong = tuple(Finding(MANIFEST, problem) for problem in _manifest_problems(plan, content))
    return (plan if inputs.n > 0 else None), wrong


def _manifest_problems(plan: RunPlan, content: bytes) -> Iterator[str]:
    manifest: Manifest = plan.manifest
    if encode_manifest(manifest) != content:
        yield "its bytes are not those that Osmosis writes, and they are the run's identity: somebody has changed the file"
    if not _RUN_ID.fullmatch(manifest.local_run_id):
        yield f"local_run_id is {manifest.local_run_id!r}, and 32 hex digits are due"
    if not is_time(manifest.created_at):
        yield f"created_at is {manifest.created_at!r}, and an ISO 8601 time in UTC is due"
    if plan.inputs.n < 1:
        yield f"inputs.n is {plan.inputs.n}"
    if plan.inputs.versions.state_schema != JOURNAL_FORMAT:
        yield f"inputs.versions.state_schema is {plan.inputs.versions.state_schema}, and {JOURNAL_FORMAT} can be read"
    total = manifest.provenance.get("total_dataset_rows", plan.rows.ranges[-1].last + 1)
    if not isinstance(total, int) or total <= plan.rows.ranges[-1].last:
        yield f"provenance.total_dataset_rows is {total!r}, and rows {plan.rows} are selected"


def audit_tail(torn: int, size: int, *, cut_short: bool = False) -> Iterator[Finding]:
    """The journal's incomplete last line, if there is one: `torn` bytes behind `size` sound ones.

    Nothing that was reported is lost with it. After an invocation that did not live to its end it is what a crash leaves.
    """
    if torn:
        what = f"its last {torn} bytes are an incomplete record, which a crash cut short (from byte {size})"
        severity = Severity.WARNING if cut_short else Severity.ERROR
        yield Finding(JOURNAL, what, severity=severity, remedy=Remedy.CUT_TAIL)


def audit_journal_file(
    entries: Mapping[str, FileFact], with_result: Container[str] | None, trials: Collection[str]
) -> Iterator[Finding]:
    """Whether the journal is a file, and whether it lost its end, which no checksum can tell.

    It is created before the first rollout runs, and the index is written from its durable results only. So any of the `trials`
    is a witness against a missing journal, and against a short one a line of the index whose rollout is among the trials and
    has no result in the journal. `with_result` is None when the journal could not be read to its end.
    """
    entry = entries.get(JOURNAL)
    if entry is None and trials:
        yield Finding(JOURNAL, f"is missing, although {len(trials)} rollouts have run")
    elif entry is not None:
        _, findings = _content(entries, JOURNAL)
        yield from findings
    if entry is None or with_result is None:
        return
    for path in (INDEX, SUMMARY):
        index = entries.get(path)
        for number, rollout_id in _indexed(index.content or b"" if index else b""):
            if rollout_id not in with_result and rollout_id in trials:
                what = f"it ends too early: {path}:{number} shows a result of rollout {rollout_id}, of which it knows nothing"
                yield Finding(JOURNAL, what)
                return


class _IndexedRollout(msgspec.Struct, frozen=True):
    rollout_id: str


_indexed_decoder = msgspec.json.Decoder(_IndexedRollout)


def _indexed(content: bytes) -> Iterator[tuple[int, str]]:
    for number, _, line in lines(content):
        try:
            yield number, _indexed_decoder.decode(line).rollout_id
        except (msgspec.MsgspecError, RecursionError):
            continue


# --- What stands beside it ----------------------------------------------------------------------------------------------------


def audit_source_files(entries: Mapping[str, FileFact], plan: RunPlan) -> Iterator[Finding]:
    """Whether `source_files.json` can be read and belongs to the source that the manifest locks (ruling 5)."""
    content, findings = _content(entries, SOURCE_FILES)
    yield from findings
    if content is None:
        return
    try:
        tree = decode_source_files(content, SOURCE_FILES)
    except OsmosisError as error:
        yield from _as_findings(error, SOURCE_FILES)
        return
    if tree.digest != plan.inputs.rollout.source_digest:
        locked = plan.inputs.rollout.source_digest
        yield Finding(SOURCE_FILES, f"source_digest is {tree.digest}, and the manifest locks {locked}")
    for file in tree.files:
        if not _FINGERPRINT.fullmatch(file.digest) or file.size < 0:
            yield Finding(SOURCE_FILES, f"{file.path!a} has no digest and size that can be")
    if encode_source_files(tree) != content:
        yield Finding(SOURCE_FILES, "its bytes are not those that Osmosis writes: somebody has changed the file")


def mended_by(finding: Finding, path: str, remedy: Remedy) -> Finding:
    """`finding` with a remedy, if it is an error of the file at `path` that has none."""
    return msgspec.structs.replace(finding, remedy=remedy) if finding.path == path and _is_irreparable(finding) else finding


def dataset_matches(plan: RunPlan, dataset: DatasetFact) -> bool:
    """Whether a dataset's bytes are those that the run was made from. Both digests count where the manifest has both."""
    locked = plan.inputs.dataset
    return dataset.sha256 == locked.sha256 and locked.fingerprint in (None, dataset.fingerprint)


def audit_dataset_rows(entries: Mapping[str, FileFact], plan: RunPlan, dataset: DatasetFact | None) -> Iterator[Finding]:
    """Whether `dataset_rows.jsonl` has one sound line a selected row, and says what the dataset says if that is given (E17)."""
    due = dataset.rows if dataset else None
    if dataset and due is None:
        yield Finding(dataset.label, "its bytes are not those of the dataset that the run was made from")
    if dataset and dataset.total_rows not in (None, total := plan.manifest.provenance.get("total_dataset_rows")) and total:
        yield Finding(MANIFEST, f"provenance.total_dataset_rows is {total}, and {dataset.label} has {dataset.total_rows} rows")
    remedy = Remedy.WRITE_ROWS if due is not None else None
    content, findings = _content(entries, DATASET_ROWS)
    if content is None:
        yield from (msgspec.structs.replace(finding, remedy=remedy) for finding in findings)
    elif due is not None:
        if content != due:
            yield line_difference(DATASET_ROWS, content, due, "the dataset says", remedy)
    else:
        yield from _dataset_rows_problems(content, plan.rows.count)


def _dataset_rows_problems(content: bytes, selected: int) -> Iterator[Finding]:
    try:
        rows = decode_dataset_rows(content, DATASET_ROWS)
    except OsmosisError as error:
        yield from _as_findings(error, DATASET_ROWS)
    else:
        if len(rows) != selected:
            yield Finding(DATASET_ROWS, f"holds {len(rows)} rows, and {selected} are selected", min(len(rows), selected) + 1)


def audit_files(entries: Mapping[str, FileFact], processes: Iterable[ProcessFact]) -> Iterator[Finding]:
    """Files that others may read, and files that a crash left behind."""
    for path, entry in sorted(entries.items()):
        name = temporary_of(path)
        if entry.kind is EntryKind.FILE and name in OWN_FILES:
            what = "is a temporary file that a crash left behind"
            yield Finding(path, what, severity=Severity.WARNING, remedy=Remedy.MOVE_ASIDE)
        elif entry.kind is EntryKind.FILE and entry.mode & _OTHERS and (path in OWN_FILES or path.split("/")[0] in COPIES):
            what = f"its mode is {entry.mode:04o}, and 0600 is due: others than its owner may use it"
            yield Finding(path, what, severity=Severity.WARNING, remedy=Remedy.MAKE_PRIVATE)
    for process in processes:
        yield Finding(process.path, _process_text(process), severity=Severity.WARNING)


_PROCESS_KINDS = {SERVER: "a rollout server", TUNNEL: "a tunnel"}


def _process_text(process: ProcessFact) -> str:
    if process.pid is None:
        return "does not name a process; the next `osmosis eval run` removes it"
    if process.alive:
        return f"process {process.pid}, {_PROCESS_KINDS[process.path]}, still runs; the next `osmosis eval run` stops it"
    return f"process {process.pid} is gone; the next `osmosis eval run` removes the file"


# --- The report ---------------------------------------------------------------------------------------------------------------


def blocks_rebuild(findings: Iterable[Finding]) -> bool:
    """Whether the authority is damaged, so that nothing may be compared with it or rebuilt from it."""
    return any(
        _is_irreparable(finding) and (finding.path in _RECORDS or _is_projected_from(finding.path)) for finding in findings
    )


_RECORDS = (MANIFEST, JOURNAL)


def _is_irreparable(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR and finding.remedy is None


def _is_projected_from(path: str) -> bool:
    top, _, inside = path.partition("/")
    return top == TRIALS and feeds_projections(inside.partition("/")[2])


def awaits_restoring(findings: Iterable[Finding]) -> bool:
    """Whether files of trials have to be put back before projections can be compared with them."""
    return any(finding.remedy is Remedy.RESTORE for finding in findings)


_BLOCKED = "projections were not compared, because what they follow from is damaged: {names}"
_AWAITING = "projections were not compared, because files of trials have to be put back first"
_UNRECORDED = "{count}: the journal holds no digests of their trials' files, which were compared with their copies alone"


def audit_report(
    *,
    path: str,
    run_name: str,
    history: RunHistory | None,
    records: int,
    findings: Iterable[Finding],
    unrecorded: int = 0,
    dataset: str | None = None,
) -> AuditReport:
    """The report of one look. Where the authority is damaged, only what the journal proves can be put back, and nothing if
    the damage is in manifest or journal. `unrecorded` results have no digests in the journal; `dataset` is the one given."""
    found = tuple(findings)
    blocked, restoring = blocks_rebuild(found), awaits_restoring(found)
    if blocked:
        trusted = not any(_is_irreparable(finding) and finding.path in _RECORDS for finding in found)
        found = tuple(
            finding if trusted and finding.remedy is Remedy.RESTORE else msgspec.structs.replace(finding, remedy=None)
            for finding in found
        )
    sound = not any(finding.severity is Severity.ERROR for finding in found)
    counts = Counter(result.status for result in history.results.values()) if history else Counter[Status]()
    planned = history.total_items if history else 0
    return AuditReport(
        status=AuditStatus.SOUND if sound else AuditStatus.UNSOUND,
        run_name=run_name,
        path=path,
        planned=planned,
        succeeded=counts[Status.SUCCESS],
        failed=counts[Status.FAILED],
        skipped=counts[Status.SKIPPED],
        pending=planned - counts.total(),
        records=records,
        findings=found,
        unchecked=tuple(_unchecked(found, blocked=blocked, restoring=restoring, unrecorded=unrecorded)),
        advice=advice_on(found, dataset),
    )


def _unchecked(findings: Iterable[Finding], *, blocked: bool, restoring: bool, unrecorded: int) -> Iterator[str]:
    if blocked:
        wrong = (finding.path for finding in findings if finding.severity is Severity.ERROR)
        names = sorted({path for path in wrong if path in _RECORDS or _is_projected_from(path)})
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        yield _BLOCKED.format(names=", ".join(names[:_SHOWN_NAMES]) + more)
    elif restoring:
        yield _AWAITING
    if unrecorded:
        yield _UNRECORDED.format(count=f"{unrecorded} result{'' if unrecorded == 1 else 's'}")


_SHOWN_NAMES = 3


def after_repair(before: Sequence[AuditReport], after: AuditReport, kept: Iterable[str]) -> AuditReport:
    """The report of a repair: what stands after it, and what no longer does of all that was found `before`, in one look or
    more. `kept` are the paths of what was moved aside."""
    standing = frozenset(after.findings)
    found = dict.fromkeys(finding for report in before for finding in report.findings)
    repaired = tuple(finding for finding in found if finding not in standing)
    status = AuditStatus.REPAIRED if after.status is AuditStatus.SOUND and repaired else after.status
    return msgspec.structs.replace(after, status=status, repaired=repaired, kept=tuple(kept))


def _content(entries: Mapping[str, FileFact], path: str) -> tuple[bytes | None, tuple[Finding, ...]]:
    """The content of a file that must be there, or why there is none."""
    entry = entries.get(path)
    if entry is None:
        return None, (Finding(path, "is missing"),)
    if entry.kind is not EntryKind.FILE:
        return None, (Finding(path, f"is a {entry.kind}, and a file is due"),)
    if entry.trouble is not None:
        return None, (Finding(path, f"cannot be read: {entry.trouble}"),)
    return entry.content, ()


def _as_findings(error: OsmosisError, path: str) -> tuple[Finding, ...]:
    """The problems of a reader's error, each with its line."""
    if not error.problems:
        return (Finding(path, error.message),)
    numbers = (problem.where.removeprefix(f"{path}:") for problem in error.problems)
    return tuple(
        Finding(path, problem.message, int(number) if number.isdigit() else None)
        for problem, number in zip(error.problems, numbers, strict=True)
    )
