"""Reads a run directory, finished or not, by the name of the run or by its path; changes nothing (E5, E11; issue 8).

The journal is the authority. A directory without one, such as a baseline that was committed with its manifest and index alone,
is read from `index.jsonl`, or `summary.jsonl`, which has the same bytes. Where both are there, the index adds what the journal
does not hold (usage that a trajectory reported), for the very same rollouts only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from osmosis.pure.dataset_rows import DatasetRow, decode_dataset_rows
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.index import IndexRow, decode_index, index_row
from osmosis.pure.journal import Result, RunHistory, WorkItem
from osmosis.pure.known_dataset import known_dataset
from osmosis.pure.plan import Manifest, decode_manifest, planned_rows
from osmosis.pure.stored_run import StoredRun
from osmosis.shell.evaluation.dataset_file import LoadedDataset, read_dataset, recognise_dataset
from osmosis.shell.evaluation.journal_file import read_journal
from osmosis.shell.evaluation.own_files import SMALL, TABLE, kind_of, read_own
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.run_location import locate_run as locate_run  # noqa: PLC0414 - its readers' one door

MOST_ROWS = 50_000_000
MOST_PLANNED = 1_000_000_000


def read_run(directory: RunDirectory) -> StoredRun:
    """The run at `directory`. Raises OsmosisError for a manifest, journal or index that is not what it should be."""
    with _in_words(directory):
        return _read(directory)


@contextmanager
def _in_words(directory: RunDirectory) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OsmosisError(
            f"Run {directory.name} cannot be read: {error.strerror or error}.",
            problems=[Problem(str(error.filename or directory.path), error.strerror or str(error))],
            hint="Check the permissions of the run directory.",
        ) from None


def manifest_of(directory: RunDirectory) -> Manifest:
    """The manifest of the run at `directory`. Raises OsmosisError."""
    with _in_words(directory):
        return decode_manifest(read_own(directory.manifest, SMALL), str(directory.manifest))


def _read(directory: RunDirectory) -> StoredRun:
    manifest = manifest_of(directory)
    rows = planned_rows(manifest)
    planned = rows.count * _runs(manifest, directory)
    _refuse_boundless(planned, rows.count, directory)
    index = _read_index(directory)
    history = read_journal(directory.journal, planned).history if kind_of(directory.journal) else None
    if history is None and index is None:
        raise OsmosisError(
            f"Run {directory.name} has neither a journal nor an index.",
            code=ErrorCode.NOT_FOUND,
            problems=[Problem(str(path), "no such file") for path in (directory.journal, directory.index)],
            hint="Restore events.jsonl or index.jsonl beside the manifest.",
        )
    current = _current(history, index or ()) if history is not None else tuple(index or ())
    _check_plan(current, rows.count, directory)
    results = history.results if history is not None else {}
    return StoredRun(
        name=directory.name,
        location=str(directory.path),
        manifest=manifest,
        planned=planned,
        source_rows=tuple(rows.indices()),
        index=current,
        results=results,
        dataset_rows=_read_dataset_rows(directory, rows.count),
    )


def _runs(manifest: Manifest, directory: RunDirectory) -> int:
    runs = manifest.inputs.get("n")
    if isinstance(runs, int) and not isinstance(runs, bool) and runs > 0:
        return runs
    raise OsmosisError(
        f"The manifest of run {directory.name} does not say how often each row runs.",
        problems=[Problem(str(directory.manifest), "`inputs.n` is not a positive whole number", "inputs.n")],
        hint="Restore manifest.json from a copy.",
    )


def _refuse_boundless(planned: int, rows: int, directory: RunDirectory) -> None:
    """A damaged manifest must not make a reader list more than it can hold."""
    if planned > MOST_PLANNED or rows > MOST_ROWS:
        raise OsmosisError(
            f"The manifest of run {directory.name} plans {planned} samples of {rows} rows.",
            problems=[Problem(str(directory.manifest), f"at most {MOST_PLANNED} samples of {MOST_ROWS} rows can be read")],
            hint="`osmosis eval verify RUN` says whether the manifest is as it was.",
        )


def _read_index(directory: RunDirectory) -> tuple[IndexRow, ...] | None:
    for path in (directory.index, directory.summary):
        if kind_of(path):
            return decode_index(read_own(path, TABLE), str(path))
    return None


def _current(history: RunHistory, index: tuple[IndexRow, ...]) -> tuple[IndexRow, ...]:
    """The journal's results as index rows, in order, with what the index knows of the same rollouts."""
    known = {row.rollout_id: row for row in index}

    def row_of(item: WorkItem, result: Result) -> IndexRow:
        found = known.get(result.rollout_id)
        if found is not None and WorkItem(found.row_index, found.run_index) == item and found.status is result.status:
            return found
        return index_row(result, None, resumed=history.resumed(item))

    return tuple(row_of(item, history.results[item]) for item in sorted(history.results))


def _check_plan(index: tuple[IndexRow, ...], rows: int, directory: RunDirectory) -> None:
    strange = [row for row in index if row.row_index >= rows]
    doubled = len(index) - len({(row.row_index, row.run_index) for row in index})
    if strange or doubled:
        problems = [Problem(f"row {row.row_index} run {row.run_index}", "is not in the plan") for row in strange]
        problems += [Problem(str(directory.index), f"{doubled} samples stand more than once")] if doubled else []
        raise OsmosisError(
            f"The results of run {directory.name} do not fit its plan.",
            problems=problems,
            hint="`osmosis eval verify RUN` says what is wrong.",
        )


def _read_dataset_rows(directory: RunDirectory, count: int) -> tuple[DatasetRow, ...] | None:
    if not kind_of(directory.dataset_rows):
        return None
    rows = decode_dataset_rows(read_own(directory.dataset_rows, TABLE), str(directory.dataset_rows))
    if len(rows) != count:
        raise OsmosisError(
            f"{directory.dataset_rows} does not list the rows of the run.",
            problems=[Problem(str(directory.dataset_rows), f"{len(rows)} rows, and the plan has {count}")],
            hint="`osmosis eval verify RUN --repair --dataset-file FILE` writes it again.",
        )
    return rows


def load_dataset_of(run: StoredRun, path: Path) -> LoadedDataset:
    """The rows of `run` in the dataset file at `path`. Raises OsmosisError when it is not the dataset that `run` evaluated."""
    planned, known = planned_rows(run.manifest), known_dataset(run.manifest)
    digests = run.manifest.inputs["dataset"]
    dataset: LoadedDataset | None = None
    if known is not None:
        dataset = recognise_dataset(path, known, rows=planned, limit=None)
    elif read_dataset(path, rows=None, limit=None).sha256 == digests.get("sha256"):
        dataset = read_dataset(path, rows=planned, limit=None)
    if dataset is None:
        raise OsmosisError(
            f"{path} is not the dataset of run {run.name}.",
            code=ErrorCode.CONFLICT,
            problems=[Problem(run.location, f"evaluated {digests.get('fingerprint') or digests.get('sha256')}")],
            hint="Give the file as it was when the run was made.",
        )
    return dataset
