"""Looks at the trials behind a run's current results, and at its log, for `osmosis.pure.evidence_audit` (`eval verify`)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

from osmosis.pure.artifacts import EntryKind
from osmosis.pure.evidence import Contradiction, LogMark, contradictions, digest_of
from osmosis.pure.evidence_audit import TRIALS, LogFact, TrialFact, copy_of
from osmosis.pure.index import TRAJECTORY_FILENAME
from osmosis.pure.journal import RunHistory, WorkItem
from osmosis.pure.projection_audit import stem
from osmosis.pure.trajectory import trajectory_facts
from osmosis.shell.evaluation.hostile_files import Unreadable, read_file
from osmosis.shell.evaluation.own_files import kind_of
from osmosis.shell.evaluation.projection import MAX_FILE_BYTES
from osmosis.shell.evaluation.repair import ProvenCopy
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_evidence import log_digests, trial_entries


class Trials:
    """The trials of one run. `recorded` is what the journal recorded of their files; `copies` gathers, while facts are given,
    from which copies files can be put back."""

    def __init__(self, directory: RunDirectory, recorded: Mapping[WorkItem, Mapping[str, str]]) -> None:
        self.copies: dict[str, ProvenCopy] = {}
        self._directory = directory
        self._recorded = recorded

    def facts(self, history: RunHistory, rebuilt: Container[str]) -> Iterator[TrialFact]:
        """Every trial that is not simply in order, or offers no trajectory. `rebuilt` are the paths of a rebuild."""
        for item, result in sorted(history.results.items()):
            name, trial = stem(item), self._directory.trial(result.rollout_id)
            kind = kind_of(trial)
            copy = f"trajectories/{name}.json"
            contradicted = self._contradictions(item, trial)
            if kind is EntryKind.DIRECTORY and copy in rebuilt and not contradicted:
                continue
            inside = kind is EntryKind.DIRECTORY
            yield TrialFact(
                rollout_id=result.rollout_id,
                stem=name,
                directory=kind,
                trajectory=inside and kind_of(trial / TRAJECTORY_FILENAME) is not None,
                identity=self._identity(f"{TRIALS}/{trial.name}/{TRAJECTORY_FILENAME}") if inside else None,
                copied_identity=self._identity(copy),
                contradictions=contradicted,
                proven=self._proven(name, trial.name, self._recorded.get(item, {}), contradicted or ()),
            )

    def _contradictions(self, item: WorkItem, trial: Path) -> tuple[Contradiction, ...] | None:
        recorded = self._recorded.get(item)
        return None if recorded is None else tuple(contradictions(recorded, trial_entries(trial)))

    def _proven(
        self, name: str, rollout_id: str, recorded: Mapping[str, str], contradicted: Sequence[Contradiction]
    ) -> frozenset[str]:
        found = {one.path: copy for one in contradicted if (copy := copy_of(name, one.path)) and one.path in recorded}
        proven = {path: copy for path, copy in found.items() if self._digest(copy) == recorded[path]}
        self.copies |= {f"{TRIALS}/{rollout_id}/{path}": ProvenCopy(copy, recorded[path]) for path, copy in proven.items()}
        return frozenset(proven)

    def _digest(self, path: str) -> str | None:
        data = self._read(path)
        return None if data is None else digest_of([data])

    def _identity(self, path: str) -> str | None:
        data = self._read(path)
        facts = trajectory_facts(data) if data is not None else None
        return facts.rollout_id if facts else None

    def _read(self, path: str) -> bytes | None:
        try:
            return read_file(self._directory.path, path, MAX_FILE_BYTES)
        except Unreadable:
            return None


def log_fact(directory: RunDirectory, marks: Sequence[LogMark]) -> LogFact:
    """The log beside the `marks` of it; not read where there are none."""
    if not marks or kind_of(directory.log) is not EntryKind.FILE:
        return LogFact(None)
    return LogFact(directory.log.lstat().st_size, log_digests(directory, [mark.size for mark in marks]))
