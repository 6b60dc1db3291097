"""Writes what follows from the journal: index, summary, progress, metrics, and copies of trajectories and artifacts.

Nothing here is authority. While a run is going on, one finished item costs one appended line and its own files, however long
the run is; at the end everything is written once, sorted and atomically (ruling 2). Every file can be rebuilt from the
manifest, the journal and `rollout_trials/` at any time, byte for byte (ruling 1).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from osmosis.pure.artifacts import RESERVED_PATHS
from osmosis.pure.canonical import pretty_json
from osmosis.pure.index import TRAJECTORY_FILENAME, IndexRow, encode_index_line, index_chunks, index_row
from osmosis.pure.item_table import ItemTable, packing
from osmosis.pure.journal import Result, RunHistory, WorkItem
from osmosis.pure.metrics_file import Summary, encode_metrics
from osmosis.pure.plan import Manifest, planned_rows
from osmosis.pure.projections import eval_run_info, progress_file, running_summary
from osmosis.pure.tally import Tally
from osmosis.pure.trajectory import trajectory_facts
from osmosis.pure.usage import TrajectoryUsage
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.hostile_files import Unreadable, list_files, read_file
from osmosis.shell.evaluation.run_directory import RunDirectory

MAX_FILE_BYTES = 256 << 20
"""Larger files of a rollout are not copied."""

_NOWHERE = Path(os.devnull)
"""Stands for a trial that must not be looked at: nothing exists below it."""


class _Projected(msgspec.Struct, frozen=True, gc=False):
    """What this process saw of a result's own files: all of an index row that the journal does not say."""

    rollout_id: str
    has_trajectory: bool
    tokens: int | None
    max_context_tokens: int | None

    @property
    def usage(self) -> TrajectoryUsage | None:
        return TrajectoryUsage(self.tokens, self.max_context_tokens) if self.has_trajectory else None


class Projector:
    """Projects one run. Called from one thread at a time. `warn` hears of artifacts that are left out, never of errors.

    What an `earlier` projector of this process has projected is not looked at again.
    """

    def __init__(
        self, files: FileLayer, directory: RunDirectory, warn: Callable[[str], None], earlier: Projector | None = None
    ) -> None:
        self._files = files
        self._directory = directory
        self._warn = warn
        self._projected: ItemTable[_Projected] = _table(0, 0) if earlier is None else earlier._projected
        self._index: int | None = None

    def publish(self, result: Result) -> IndexRow:
        """Copy a fresh result's files and append its line to the index."""
        row = index_row(result, self._project(result), resumed=False)
        if self._index is None:
            self._index = self._files.open_append(self._directory.index, step="index.create")
        self._files.write(self._index, encode_index_line(row), step="index.append")
        return row

    def begin(self, manifest: Manifest, history: RunHistory, tally: Tally) -> None:
        """Write what is known before the first dispatch: the plan's size, and metrics that say `running`."""
        self._projected = _table(planned_rows(manifest).count, manifest.inputs["n"])
        self._write(self._directory.progress, _encode_progress(manifest))
        self.write_running(manifest, history, tally)

    def write_running(self, manifest: Manifest, history: RunHistory, tally: Tally) -> None:
        """Refresh `metrics.json` with the counts so far; the cost does not depend on them."""
        run = eval_run_info(manifest, history, running=True)
        self._write(self._directory.metrics, encode_metrics(run, running_summary(tally)))

    def finalize(self, manifest: Manifest, history: RunHistory) -> Summary:
        """Write every projection of the whole run. `metrics.json` comes last and vouches for the rest."""
        self.close()
        self._write_index(self._final_rows(history, sorted(history.results)))
        self._write(self._directory.progress, _encode_progress(manifest))
        self._settle()
        # Imported late: polars takes long and 50 MB, so what was needed before it is gone by now.
        from osmosis.pure.index_frame import SUMMARIZED, index_frame  # noqa: PLC0415
        from osmosis.pure.metrics import summarize  # noqa: PLC0415
        from osmosis.pure.uncertainty import bootstrap_seed  # noqa: PLC0415

        summary = summarize(
            index_frame(self._final_rows(history, history.results), SUMMARIZED),
            manifest.inputs["pass_threshold"],
            seed=bootstrap_seed(manifest),
            planned=history.total_items,
        )
        self._write(self._directory.metrics, encode_metrics(eval_run_info(manifest, history, running=False), summary))
        return summary

    def _write_index(self, rows: Iterable[IndexRow]) -> None:
        chunks = list(index_chunks(rows))
        for path in (self._directory.index, self._directory.summary):
            self._write_chunks(path, chunks)

    def _settle(self) -> None:
        """Make durable what was already right and so was not written: appended lines, the work of a process that died."""
        copies = [self._directory.path / name for name in ("trajectories", "artifacts")]
        self._files.sync_trees((path for path in copies if path.is_dir()), step="copies.settle")
        for path in (self._directory.index, self._directory.summary, self._directory.progress):
            self._files.sync_file(path, step=f"{path.name}.settle")
        self._files.sync_directory(self._directory.path, step="projections.settle")

    def close(self) -> None:
        """Stop appending to the index."""
        if self._index is not None:
            self._files.close(self._index)
            self._index = None

    def _final_rows(self, history: RunHistory, items: Iterable[WorkItem]) -> Iterator[IndexRow]:
        """The rows of those items, one at a time: together they would be most of the memory that a long run takes."""
        return (self._final_row(history.results[item], history.resumed(item)) for item in items)

    def _final_row(self, result: Result, resumed: bool) -> IndexRow:
        known = self._projected.get(result.item)
        usage = known.usage if known is not None and known.rollout_id == result.rollout_id else self._project(result)
        return index_row(result, usage, resumed=resumed)

    def _project(self, result: Result) -> TrajectoryUsage | None:
        """Copy the files of a result; what its trajectory says, None without one."""
        stem = f"row_{result.item.row_index}_run_{result.item.run_index}"
        trial = self._directory.trial(result.rollout_id)
        if trial.is_symlink():
            self._warn(f"the trial directory of rollout {trial.name} is a symbolic link; nothing is taken from it")
            trial = _NOWHERE / trial.name
        usage = self._project_trajectory(trial, stem)
        self._project_artifacts(trial / "artifacts", self._directory.path / "artifacts" / stem)
        tokens, context = (None, None) if usage is None else (usage.tokens, usage.max_context_tokens)
        self._projected[result.item] = _Projected(result.rollout_id, usage is not None, tokens, context)
        return usage

    def _project_trajectory(self, trial: Path, stem: str) -> TrajectoryUsage | None:
        """Copy the trial's trajectory if it parses and names this rollout; else remove what an earlier attempt left there."""
        target = self._directory.path / "trajectories" / f"{stem}.json"
        data = _read_hostile(trial, TRAJECTORY_FILENAME)
        facts = trajectory_facts(data) if data is not None else None
        if data is None or facts is None or facts.rollout_id != trial.name:
            self._files.remove(target, step="trajectories.remove")
            return None
        self._write(target, data, durable=False)
        return facts.usage

    def _project_artifacts(self, source: Path, target: Path) -> None:
        wanted = list(self._publishable(source))
        if target.exists():
            self._remove_stale(target, wanted)
        for path in wanted:
            try:
                self._write(target / path, read_file(source, path, MAX_FILE_BYTES), durable=False)
            except Unreadable as reason:
                self._leave_out(source, path, str(reason))

    def _remove_stale(self, target: Path, wanted: list[str]) -> None:
        present = {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}
        if present.difference(wanted):
            self._files.remove_tree(target, step="artifacts.remove")

    def _publishable(self, source: Path) -> Iterator[str]:
        for entry in list_files(source, MAX_FILE_BYTES):
            if entry.problem is None:
                yield entry.path
            elif entry.path not in RESERVED_PATHS:
                self._leave_out(source, entry.path, entry.problem)

    def _leave_out(self, source: Path, path: str, problem: str) -> None:
        self._warn(f"artifact {path!a} of rollout {source.parent.name} is left out: {problem}")

    def _write(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        self._write_chunks(path, (data,), durable=durable)

    def _write_chunks(self, path: Path, chunks: Sequence[bytes], *, durable: bool = True) -> None:
        """Write a projection unless it already has these bytes: rebuilding what is right changes nothing.

        What is not durable yet is settled before `metrics.json` vouches for it; until then nothing rests on it.
        """
        if not _holds(path, chunks):
            step = path.name if path.parent == self._directory.path else path.parent.name
            self._files.replace_streamed(path, chunks, step=step, durable=durable)


def _table(rows: int, runs: int) -> ItemTable[_Projected]:
    return ItemTable(packing(_Projected), rows, runs)


def _encode_progress(manifest: Manifest) -> bytes:
    return pretty_json(msgspec.to_builtins(progress_file(manifest)))


def _read_hostile(trial: Path, name: str) -> bytes | None:
    try:
        return read_file(trial, name, MAX_FILE_BYTES)
    except Unreadable:
        return None


def _holds(path: Path, chunks: Sequence[bytes]) -> bool:
    """Whether these bytes are there, in a regular file: a symbolic link above all is none."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != sum(map(len, chunks)):
            return False
        with path.open("rb") as file:
            return all(file.read(len(chunk)) == chunk for chunk in chunks)
    except OSError:
        return False
