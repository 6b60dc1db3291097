"""Exact bytes of a run directory. `tests/golden/run/` was written by hand: no encoder of ours had part in it (ruling 30).

Each file is read by its reader and written again by its writer: the same bytes must come out. What the readers found is
compared with values written here. The one exception is the part of `metrics.json` behind the contract's keys, which nobody
computes by hand: `just golden` writes it, and `CONTRACT_SUMMARY` pins the rest.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from osmosis.pure.canonical import pretty_json
from osmosis.pure.dataset_rows import DatasetRow, decode_dataset_rows
from osmosis.pure.digest import SourceEntry, decode_source_files, encode_source_files, source_tree_digest
from osmosis.pure.index import IndexRow, decode_index, encode_index, encode_index_line, index_row
from osmosis.pure.index_frame import index_frame
from osmosis.pure.journal import (
    Attempt,
    Ending,
    InvocationEnded,
    InvocationStarted,
    JournalDecoder,
    Record,
    Result,
    RunHistory,
    Status,
    WorkItem,
    encode_record,
    fold,
)
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, encode_metrics
from osmosis.pure.plan import (
    DatasetIdentity,
    Manifest,
    Provenance,
    RolloutIdentity,
    RunInputs,
    Timeouts,
    decode_manifest,
    encode_manifest,
    new_manifest,
    planned_rows,
    work_items,
)
from osmosis.pure.projections import ProgressFile, active_ms, eval_run_info, progress_file
from osmosis.pure.trajectory import trajectory_facts
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.pure.usage import CallUsage, TrajectoryUsage

FOLDER = Path(__file__).parent / "run" / "calm-otter-7"
RUN_ID = "0123456789abcdef0123456789abcdef"
SOURCES = {"main.py": b"print('hi')\n", "pyproject.toml": b'[project]\nname = "arithmetic"\n'}

CONTRACT_SUMMARY = {
    "total_samples": 8,
    "completed_samples": 6,
    "graded": 4,
    "passed": 3,
    "failed": 1,
    "skipped": 2,
    "pass_rate": 0.5,
    "pass_threshold": 0.5,
    "tokens_used": 327,
    "reward_stats": {"mean": 0.625, "median": 0.75, "std": 0.414578098794425, "min": 0.0, "max": 1.0},
    "n_runs": 2,
    "pass_at_k": [{"k": 1, "value": 0.5}, {"k": 2, "value": 2 / 3}],
    "pass_hat_k": [{"k": 1, "value": 0.5}, {"k": 2, "value": 1 / 3}],
    "context_stats": {"max": 140, "mean": 184 / 3, "p50": 34.0, "p95": 129.4},
}


def read(name: str) -> bytes:
    """The bytes of a file of the run."""
    return (FOLDER / name).read_bytes()


def manifest() -> Manifest:
    """The manifest, read."""
    return decode_manifest(read("manifest.json"), "manifest.json")


def records() -> list[Record]:
    """The journal, read."""
    decoder = JournalDecoder("events.jsonl")
    found = decoder.feed(read("events.jsonl"))
    assert (decoder.torn, decoder.count) == (0, 31)
    return found


def history() -> RunHistory:
    """The journal, folded."""
    return fold(records(), 8)


def hexadecimal(tail: str) -> str:
    """A rollout id of the run."""
    return tail.rjust(32, "0")


def test_events(golden):
    """Every kind of record, with and without its optional keys, in exactly these bytes."""
    golden("run/calm-otter-7/events.jsonl", b"".join(encode_record(record, n) for n, record in enumerate(records(), 1)))


def test_what_the_events_say():
    """The values behind the bytes, one record of each shape."""
    found = records()
    assert found[0] == InvocationStarted(hexadecimal("1"), "2026-11-30T12:00:00.000000Z", "0.3.10", max_in_flight=4)
    assert found[4] == Attempt(WorkItem(1, 1), hexadecimal("a3"), 1, "2026-11-30T12:00:00.000000Z")
    assert found[6] == Result(
        item=WorkItem(0, 0),
        source_row_index=0,
        rollout_id=hexadecimal("a0"),
        status=Status.SUCCESS,
        at="2026-11-30T12:00:04.500000Z",
        duration_ms=4500.25,
        reward=1.0,
        calls=(CallUsage(100, 20, 120), CallUsage(130, 10, 140)),
    )
    failure = found[7]
    assert isinstance(failure, Result)
    assert (failure.error_type, failure.error_message) == ("timeout", 'no "Größe"\n\u2028in 9 s')
    assert found[8] == InvocationEnded("2026-11-30T12:00:10.500000Z", Ending.SERVER_CRASH, (WorkItem(1, 1),))
    assert found[21] == InvocationStarted(hexadecimal("3"), "2026-11-30T14:00:00.000000Z", "0.3.10", retry_failed=True)


def test_the_events_fold_to_one_state():
    """Results superseded by a retry, strikes, attempts, times, and which results were carried over."""
    run = history()
    assert run.finished
    assert {item: run.attempts[item] for item in run.attempts if run.attempts[item] > 1} == {
        WorkItem(1, 0): 2,
        WorkItem(1, 1): 2,
        WorkItem(2, 0): 2,
        WorkItem(2, 1): 2,
        WorkItem(3, 1): 2,
    }
    assert run.strikes == {WorkItem(1, 1): 1}
    assert [item for item in sorted(run.results) if run.resumed(item)] == [WorkItem(0, 0), WorkItem(0, 1)]
    assert (run.started_at, run.last_result_at) == ("2026-11-30T12:00:00.000000Z", "2026-11-30T14:00:05.000000Z")
    assert active_ms(run) == 10500.0 + 20250.0 + 5125.0


def test_manifest(golden):
    """Key order, indentation, raw UTF-8, null only among the timeouts, a final newline; made from typed values."""
    dataset = DatasetIdentity(
        "fc7cb65e8a6664ecf967d7d987f3e3d89f704de05bd6f18ebd21eb7ca419bdad",
        "0,2-4",
        "xxh3-128:v1:09a054b7dd843cee4de52b8fce8f5fc8",
    )
    made = new_manifest(
        inputs=RunInputs(
            model_path="openai/m",
            dataset=dataset,
            n=2,
            pass_threshold=0.5,
            rollout=RolloutIdentity("arithmetic", "main.py", source_tree_digest(entries()).digest),
            env={"CITY": "Köln"},
            secret_names=("SEARCH_KEY",),
            timeouts=Timeouts(30.0, None),
        ),
        provenance=Provenance(
            sdk_version="0.3.10",
            dataset_name="sums",
            total_dataset_rows=5,
            config_path="configs/eval/sums.toml",
            endpoint="http://127.0.0.1:8000/v1",
        ),
        local_run_id=RUN_ID,
        run_name="calm-otter-7",
        created_at="2026-11-30T11:59:58.000001Z",
    )
    golden("run/calm-otter-7/manifest.json", encode_manifest(made))
    assert made == manifest()


def entries() -> list[SourceEntry]:
    """The rollout's source files."""
    return [SourceEntry(path, False, len(content), [content]) for path, content in SOURCES.items()]


def test_source_files(golden):
    """The digests of a tree, and of each of its files, computed apart from ours."""
    golden("run/calm-otter-7/source_files.json", encode_source_files(source_tree_digest(entries())))
    assert decode_source_files(read("source_files.json"), "source_files.json") == source_tree_digest(entries())


def test_dataset_rows_are_read():
    """The rows of the run, U+2028 and all."""
    assert decode_dataset_rows(read("dataset_rows.jsonl"), "dataset_rows.jsonl") == (
        DatasetRow(0, "2+2?", "4"),
        DatasetRow(1, "Größe \u2028 of <数>?", "é"),
        DatasetRow(2, '{"a":"ü","b":1}', "L"),
        DatasetRow(3, "last", " "),
    )


def usage_of(result: Result) -> TrajectoryUsage | None:
    """What the trial's own trajectory says."""
    path = FOLDER / "rollout_trials" / result.rollout_id / "trajectory.json"
    facts = trajectory_facts(path.read_bytes()) if path.exists() else None
    return facts.usage if facts and facts.rollout_id == result.rollout_id else None


def test_index(golden):
    """Both spellings of absence, tokens from the bridge and from a trajectory, `resumed` only where it is true."""
    run = history()
    rows = [index_row(result, usage_of(result), resumed=run.resumed(item)) for item, result in run.results.items()]
    golden("run/calm-otter-7/index.jsonl", encode_index(rows))
    golden("run/calm-otter-7/summary.jsonl", encode_index(rows))


def test_index_lines():
    """The values behind the bytes; a line by itself has the bytes that it has in the file."""
    rows = decode_index(read("index.jsonl"), "index.jsonl")
    assert rows[1] == IndexRow(
        row_index=0,
        run_index=1,
        rollout_id=hexadecimal("a1"),
        trajectory_filename="trajectory.json",
        status=Status.SUCCESS,
        reward=0.5,
        tokens=57,
        max_context_tokens=34,
        duration_ms=3000.0,
        resumed=True,
    )
    assert rows[7] == IndexRow(
        row_index=3,
        run_index=1,
        rollout_id=hexadecimal("ac"),
        status=Status.FAILED,
        duration_ms=5000.0,
        error_type="agent_error",
    )
    assert b"".join(map(encode_index_line, rows)) == read("index.jsonl")


def test_progress(golden):
    """The plan's size."""
    assert progress_file(manifest()) == ProgressFile(8, 4, 5)
    assert (str(planned_rows(manifest())), len(list(work_items(4, 2)))) == ("0,2-4", 8)
    golden("run/calm-otter-7/progress.json", pretty_json(msgspec.to_builtins(progress_file(manifest()))))


def test_metrics(golden):
    """The whole run's numbers from its index; those of the contract are what a person computed."""
    rows = decode_index(read("index.jsonl"), "index.jsonl")
    info = eval_run_info(manifest(), history(), running=False)
    assert info == EvalRunInfo(
        id=RUN_ID,
        status=EvalRunStatus.FINISHED,
        name="calm-otter-7",
        dataset_name="sums",
        model_name="openai/m",
        rollout_name="arithmetic",
        duration_ms=35875.0,
        started_at="2026-11-30T12:00:00.000000Z",
        completed_at="2026-11-30T14:00:05.000000Z",
    )
    summary = summarize(index_frame(rows), 0.5, seed=bootstrap_seed(manifest()), planned=8)
    data = encode_metrics(info, summary)
    golden("run/calm-otter-7/metrics.json", data)
    written = json.loads(data)["summary"]
    assert {key: written[key] for key in CONTRACT_SUMMARY} == CONTRACT_SUMMARY
    assert list(written)[: len(CONTRACT_SUMMARY)] == list(CONTRACT_SUMMARY)
