"""The demo, run for real from its cassette: concurrency changes nothing, and no model and no key is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from osmosis.pure.journal import Attempt, JournalDecoder, Result
from scripts.generate_schemas import SCHEMAS

WORKSPACE = Path(__file__).parents[2] / "examples" / "workspace"
PROVIDER_VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE")

# What two runs of the same work may differ in (issue's must-show 2): identities, times, durations and the run's own name.
ITEM_DIFFERENCES = {"rollout_id", "duration_ms"}
RUN_DIFFERENCES = {"id", "name", "duration_ms", "started_at", "completed_at"}

pytestmark = pytest.mark.slow


def demo(output: Path, name: str, in_flight: int, cassette: Path | None = None) -> tuple[int, str]:
    """Replay the demo with `in_flight` rollouts at a time: the exit code, and the warnings and errors it gave."""
    command = [sys.executable, "-m", "osmosis.shell.cli.main", "--json", "eval", "run", "configs/eval/word-problems.toml"]
    flags = {
        "--dataset-file": "data/word-problems.jsonl",
        "--replay": cassette or "cassettes/word-problems.jsonl",
        "--output": output,
        "--name": name,
        "--max-in-flight": in_flight,
    }
    arguments = [str(part) for flag in flags.items() for part in flag]
    environment = {key: value for key, value in os.environ.items() if key not in PROVIDER_VARIABLES}
    done = subprocess.run([*command, *arguments, "--yes"], cwd=WORKSPACE, env=environment, capture_output=True, check=False)
    return done.returncode, done.stderr.decode()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The demo run twice: the directory of the run with 1 in flight, and of the one with 16."""
    output = tmp_path_factory.mktemp("runs")
    for name, in_flight in (("one", 1), ("sixteen", 16)):
        code, complaints = demo(output, name, in_flight)
        assert code == 0, complaints
    return output / "one", output / "sixteen"


def most_in_flight(run: Path) -> int:
    """The largest number of rollouts that were dispatched and had no durable result, by the journal's own order."""
    open_attempts, most = set(), 0
    for record in JournalDecoder("events.jsonl").feed((run / "events.jsonl").read_bytes()):
        match record:
            case Attempt():
                open_attempts.add(record.rollout_id)
                most = max(most, len(open_attempts))
            case Result():
                open_attempts.discard(record.rollout_id)
    return most


def items(run: Path) -> list[dict]:
    """The lines of `index.jsonl` without what may differ."""
    lines = (run / "index.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return [{key: value for key, value in json.loads(line).items() if key not in ITEM_DIFFERENCES} for line in lines]


def metrics(run: Path) -> dict:
    """`metrics.json` without what may differ."""
    document = json.loads((run / "metrics.json").read_bytes())
    document["eval_run"] = {key: value for key, value in document["eval_run"].items() if key not in RUN_DIFFERENCES}
    return document


def test_one_and_sixteen_were_really_in_flight(runs):
    """The two runs differ in what they are meant to differ in (ruling 35)."""
    assert [most_in_flight(run) for run in runs] == [1, 16]


def test_concurrency_changes_no_result(runs):
    """Rows, items and metrics are the same whatever was in flight (ruling 21)."""
    one, sixteen = runs
    assert (one / "dataset_rows.jsonl").read_bytes() == (sixteen / "dataset_rows.jsonl").read_bytes()
    assert items(one) == items(sixteen)
    assert len(items(one)) == 256
    assert metrics(one) == metrics(sixteen)


def test_the_demo_has_something_to_show(runs):
    """A pass rate between 20 and 80 %, and rows that some runs get right and some wrong (ruling 34)."""
    by_row: dict[int, set[float]] = {}
    for item in items(runs[0]):
        by_row.setdefault(item["row_index"], set()).add(item["reward"])
    assert 0.2 <= metrics(runs[0])["summary"]["pass_rate"] <= 0.8
    assert sum(len(rewards) > 1 for rewards in by_row.values()) >= 10


def test_every_rollout_leaves_a_trajectory_and_a_worksheet(runs):
    """Each item's trajectory shows the tool call with its result, and its artifact ends in the grader's verdict."""
    trials = sorted(path for path in (runs[1] / "rollout_trials").iterdir())
    assert len(trials) == 256
    for trial in trials:
        steps = json.loads((trial / "trajectory.json").read_bytes())["steps"]
        called = next(step for step in steps if step.get("tool_calls"))
        assert called["observation"]["results"][0]["source_call_id"] == called["tool_calls"][0]["tool_call_id"]
        assert "**verdict**: " in (trial / "artifacts/worksheet.md").read_text(encoding="utf-8")


SHAPES = {
    "manifest.json": "manifest",
    "events.jsonl": "events",
    "index.jsonl": "index",
    "summary.jsonl": "index",
    "dataset_rows.jsonl": "dataset_rows",
    "metrics.json": "metrics",
    "progress.json": "progress",
    "source_files.json": "source_files",
    "rollout_trials/*/trajectory.json": "trajectory",
    "rollout_trials/*/sample.json": "sample",
    "trajectories/*.json": "trajectory",
}
"""The files of a run, and their schemas in `docs/schemas/files/`."""


def test_every_file_is_what_its_schema_says(runs):
    """A real run, and the cassette that it came from, hold documents of the published formats and nothing else."""
    files = {name: (schema, sorted(runs[1].glob(name))) for name, schema in SHAPES.items()}
    files["cassette"] = ("cassette", [WORKSPACE / "cassettes" / "word-problems.jsonl"])
    for name, (schema, paths) in files.items():
        judge = Draft202012Validator(json.loads((SCHEMAS / "files" / f"{schema}.schema.json").read_bytes()))
        assert paths, name
        for path in paths:
            text = path.read_text(encoding="utf-8")
            parts = text.split("\n")[:-1] if path.suffix == ".jsonl" else [text]
            assert [error.message for part in parts for error in judge.iter_errors(json.loads(part))] == [], path.name
    assert len(files["rollout_trials/*/sample.json"][1]) == 256


def test_a_request_that_was_not_recorded_is_explained(tmp_path):
    """A cassette of other requests fails the items, calls no model, and the run says what differs."""
    recorded = (WORKSPACE / "cassettes/word-problems.jsonl").read_text(encoding="utf-8").replace("v1:", "v1:0")
    other = tmp_path / "other.jsonl"
    other.write_text(recorded.replace('"temperature":0.4', '"temperature":0.5'), encoding="utf-8")
    code, complaints = demo(tmp_path, "missing", 16, other)
    assert code == 3
    assert "temperature: recorded 0.5, asked 0.4" in complaints
