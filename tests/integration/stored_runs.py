"""Run directories as the runner leaves them, made in a moment and without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from osmosis.pure.canonical import pretty_json
from osmosis.pure.index import encode_index
from osmosis.pure.journal import Attempt, InvocationStarted, Record, encode_record
from osmosis.pure.plan import encode_manifest
from osmosis.pure.stored_run import StoredRun


def write_run(root: Path, run: StoredRun, *, journal: bool = True, index: bool = True) -> Path:
    """The directory of `run` below `root`: manifest, dataset rows, and whichever of journal and index is asked for."""
    directory = root / run.name
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_bytes(encode_manifest(run.manifest))
    lines = [msgspec.json.encode(row) + b"\n" for row in run.dataset_rows or ()]
    (directory / "dataset_rows.jsonl").write_bytes(b"".join(lines))
    if journal:
        (directory / "events.jsonl").write_bytes(encode_journal(run))
    if index:
        (directory / "index.jsonl").write_bytes(encode_index(run.index))
    return directory


def encode_journal(run: StoredRun) -> bytes:
    """An invocation, an attempt for each result, and the results."""
    at = run.manifest.created_at
    records: list[Record] = [InvocationStarted("b" * 32, at, "0.3.10")]
    records += [Attempt(item, result.rollout_id, 1, at) for item, result in run.results.items()]
    records += run.results.values()
    return b"".join(encode_record(record, number) for number, record in enumerate(records, 1))


def write_workspace(root: Path, runs: Sequence[StoredRun]) -> Path:
    """A workspace at `root` that holds `runs`."""
    for folder in ("configs/eval", "rollouts"):
        (root / folder).mkdir(parents=True)
    for run in runs:
        write_run(root / ".osmosis" / "evals", run)
    return root


def write_dataset(path: Path, rows: int) -> Path:
    """A dataset whose rows have a topic each, three rows a topic."""
    lines = [
        pretty_json({"user_prompt": f"question {row}", "ground_truth": f"{row}", "metadata": {"topic": f"topic {row // 3}"}})
        for row in range(rows)
    ]
    path.write_bytes(b"".join(line.replace(b"\n", b"") + b"\n" for line in lines))
    return path
