"""Whether files are what the journal recorded of them (decision 0014): the run's own, the log, and those of the trials.

Where the journal recorded nothing, a trial is judged by what its copies still hold. A trial's file that is damaged and has a
copy with the recorded digest can be put back; that is the only case in which a repair writes below `rollout_trials/`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import msgspec

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.evidence import REST, Contradiction, LogMark, digest_of
from osmosis.pure.finding import FileFact, Finding, Remedy, Severity
from osmosis.pure.index import TRAJECTORY_FILENAME
from osmosis.pure.projection_audit import ARTIFACTS, TRAJECTORIES

LOG, TRIALS = "logs.txt", "rollout_trials"


class TrialFact(msgspec.Struct, frozen=True):
    """What was found of the trial behind a current result, where that is not simply in order.

    `contradictions` is how it differs from what the journal recorded, None where that recorded nothing; `proven` are the paths
    among them whose copies have the recorded digest. `identity` is the rollout that the trial's own trajectory file names,
    `copied_identity` the one that the copy below `trajectories/` names; None when there is no such file or it names none.
    """

    rollout_id: str
    stem: str
    directory: EntryKind | None
    trajectory: bool = False
    identity: str | None = None
    copied_identity: str | None = None
    contradictions: tuple[Contradiction, ...] | None = None
    proven: frozenset[str] = frozenset()


class LogFact(msgspec.Struct, frozen=True):
    """The log as it is: its size, None if there is no regular file, and the digest of its beginning up to each mark that it
    reaches, in the order of the marks."""

    size: int | None
    digests: tuple[str, ...] = ()


def copy_of(stem: str, path: str) -> str | None:
    """Where the copy of a trial's file lies, relative to the run directory; None for files that are not copied."""
    if path == TRAJECTORY_FILENAME:
        return f"{TRAJECTORIES}/{stem}.json"
    top, _, rest = path.partition("/")
    return f"{ARTIFACTS}/{stem}/{rest}" if top == ARTIFACTS and rest else None


def feeds_projections(path: str) -> bool:
    """Whether anything is projected from a trial's file; `path` is relative to the trial, REST or empty for all of it."""
    return path in ("", REST, TRAJECTORY_FILENAME) or path.partition("/")[0] == ARTIFACTS


def audit_own_files(entries: Mapping[str, FileFact], recorded: Mapping[str, str], paths: Iterable[str]) -> Iterator[Finding]:
    """Whether those of the `paths` that are written once, before the first dispatch, are as the journal's first record has
    them. What is missing or unreadable is for others to say."""
    for path in paths:
        entry, digest = entries.get(path), recorded.get(path)
        if digest is not None and entry is not None and entry.content is not None and digest_of([entry.content]) != digest:
            yield Finding(path, "is not the file that the run began with: the journal recorded another digest")


def audit_log(marks: Sequence[LogMark], fact: LogFact) -> Iterator[Finding]:
    """Whether the log still begins with everything that it held when invocations ended. What came later is in no record."""
    if not marks:
        return
    if fact.size is None:
        yield Finding(LOG, f"is missing; {marks[-1].size} bytes of it were recorded")
        return
    sound = 0
    for mark, digest in zip(marks, fact.digests, strict=False):
        if mark.digest != digest:
            yield Finding(LOG, f"is not what was written: damaged between bytes {sound} and {mark.size}")
            return
        sound = mark.size
    if fact.size < marks[-1].size:
        yield Finding(LOG, f"ends at byte {fact.size}; {marks[-1].size} were recorded")


def audit_trials(
    facts: Iterable[TrialFact], entries: Mapping[str, FileFact], copied_artifacts: Container[str]
) -> Iterator[Finding]:
    """Whether each current result's trial still has what it had. `copied_artifacts` are the stems below `artifacts/`."""
    if TRIALS not in entries or entries[TRIALS].kind is not EntryKind.DIRECTORY:
        yield Finding(TRIALS, "is not a directory" if TRIALS in entries else "is missing")
    for fact in facts:
        if fact.directory not in (None, EntryKind.DIRECTORY):
            yield Finding(_place(fact), f"is a {fact.directory}, and a directory is due")
        elif fact.contradictions is not None:
            yield from _contradicted(fact, fact.contradictions)
        else:
            yield from _unrecorded(fact, copied_artifacts)
        if fact.trajectory and fact.identity is None and not (fact.contradictions or fact.copied_identity):
            what = "names no rollout, so it is left out of the index"
            yield Finding(_place(fact, TRAJECTORY_FILENAME), what, severity=Severity.WARNING)


def _place(fact: TrialFact, path: str = REST) -> str:
    directory = f"{TRIALS}/{fact.rollout_id}"
    return directory if path == REST else f"{directory}/{path}"


def _contradicted(fact: TrialFact, found: Iterable[Contradiction]) -> Iterator[Finding]:
    for one in found:
        if one.path in fact.proven:
            what = f"{one.what}; {copy_of(fact.stem, one.path)} holds what the journal recorded"
            yield Finding(_place(fact, one.path), what, remedy=Remedy.RESTORE)
        else:
            yield Finding(_place(fact, one.path), one.what)


def _unrecorded(fact: TrialFact, copied_artifacts: Container[str]) -> Iterator[Finding]:
    if fact.identity is not None and fact.identity != fact.rollout_id:
        yield Finding(_place(fact, TRAJECTORY_FILENAME), f"belongs to rollout {fact.identity}")
    elif fact.copied_identity == fact.rollout_id and fact.identity is None:
        state = "is damaged" if fact.trajectory else "is missing"
        what = f"{state}; {copy_of(fact.stem, TRAJECTORY_FILENAME)} still holds the document"
        yield Finding(_place(fact, TRAJECTORY_FILENAME), what)
    elif fact.directory is None and fact.stem in copied_artifacts:
        yield Finding(_place(fact), f"is missing; {ARTIFACTS}/{fact.stem}/ still holds its files")
