"""`eval compare`, `eval gate` and `eval export` as real processes on real run directories (issue 8)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import polars as pl
import pytest

from osmosis import open_run
from osmosis.pure.stored_run import samples_frame
from osmosis.shell.cli.main import main
from osmosis.shell.evaluation.run_reader import locate_run, read_run
from tests.integration.stored_runs import write_dataset, write_run, write_workspace
from tests.strategies.comparisons import Cell, stored_run, trajectory_file

BASELINE: list[list[Cell]] = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], ["timeout", 1.0], ["skipped", 1.0], [None, 0.0]]
CANDIDATE: list[list[Cell]] = [[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], ["http_error", 1.0], [1.0, 1.0], [0.0, 0.0]]


@pytest.fixture
def workspace(tmp_path):
    """Runs `baseline`, `candidate`, `good` and `bad`, 400 equal rows and a clear drop, and `other` on another dataset."""
    return write_workspace(
        tmp_path / "workspace",
        [
            stored_run("baseline", BASELINE),
            stored_run("candidate", CANDIDATE),
            stored_run("good", [[1.0]] * 400),
            stored_run("bad", [[0.0]] * 100 + [[1.0]] * 300),
            stored_run("other", BASELINE, dataset="f" * 64),
        ],
    )


def osmosis(workspace, *arguments, **environment):
    """Run the command in the workspace, as a CI would."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "OSMOSIS_"))}
    return subprocess.run(
        [sys.executable, "-m", "osmosis.shell.cli.main", *map(str, arguments)],
        cwd=workspace,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def state(directory: Path):
    """Every file with its bytes and its time."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(directory.rglob("*")) if path.is_file()}


def test_compare_by_name_and_by_path(workspace):
    """Names and paths mean the same runs; looking changes no byte of them."""
    before = state(workspace)
    by_name = osmosis(workspace, "eval", "compare", "baseline", "candidate", "--json")
    by_path = osmosis(workspace, "eval", "compare", ".osmosis/evals/baseline", "./.osmosis/evals/candidate", "--json")
    assert (by_name.returncode, by_name.stderr) == (0, "")
    assert by_name.stdout == by_path.stdout
    (comparison,) = json.loads(by_name.stdout)["resource"]["comparisons"]
    assert (comparison["paired_rows"], comparison["exact"]["name"]) == (6, "exact sign test over rows")
    assert [flip["source_row_index"] for flip in comparison["flips"]] == [1, 2]
    assert state(workspace) == before


def test_compare_several_with_slices_clusters_prices_and_a_page(workspace, tmp_path):
    """All options together, rich and plain and as a page."""
    dataset = write_dataset(tmp_path / "data.jsonl", 400)
    digest = hashlib.sha256(dataset.read_bytes()).hexdigest()
    for name, table in (("x", [[1.0]] * 400), ("y", [[0.0]] * 10 + [[1.0]] * 390), ("z", [[1.0]] * 200 + [[0.0]] * 200)):
        write_run(tmp_path / "runs", stored_run(name, table, dataset=digest))
    options = ["--output", tmp_path / "runs", "--dataset-file", dataset, "--cluster-by", "topic", "--slice-by", "topic"]
    options += ["--price", "openai/x=1,2", "--price", "openai/y=1,2", "--html", "page.html"]
    result = osmosis(workspace, "eval", "compare", "x", "y", "z", *options)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Pass rate by topic" in result.stdout
    assert "Cost" in result.stdout
    document = osmosis(workspace, "eval", "compare", "x", "y", "z", *options, "--json")
    first, second = json.loads(document.stdout)["resource"]["comparisons"]
    assert (first["cluster_by"], len(first["slices"])) == ("topic", 134)
    assert first["pass_rate"]["difference"]["method"] == "clustered_t"
    assert second["adjusted_p_value"] < 0.001
    page = (workspace / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<h3>") == 2


def test_another_dataset_is_refused_unless_forced(workspace):
    """The refusal names both digests; --force says how many rows it could pair."""
    refused = osmosis(workspace, "eval", "compare", "baseline", "other", "--json")
    assert refused.returncode == 1
    error = json.loads(refused.stderr)["error"]
    assert error["code"] == "CONFLICT"
    assert len(error["details"]["issues"]) == 2
    forced = osmosis(workspace, "eval", "compare", "baseline", "other", "--force", "--plain")
    assert forced.returncode == 0
    assert "Paired Rows: 6 by equal prompt and label" in forced.stdout


@pytest.mark.parametrize(
    ("run", "baseline", "code", "status"),
    [("good", "good", 0, "passed"), ("bad", "good", 4, "failed"), ("candidate", "baseline", 5, "inconclusive")],
)
def test_gate_exit_codes(workspace, run, baseline, code, status):
    """0, 4 and 5, in every mode, with the verdict in the envelope (ruling 12)."""
    arguments = ("eval", "gate", run, "--baseline", baseline, "--max-drop", "0.02", "--confidence", "0.95")
    for mode in ([], ["--plain"], ["--json"]):
        result = osmosis(workspace, *arguments, *mode)
        assert (result.returncode, result.stderr) == (code, "")
    assert json.loads(result.stdout)["status"] == status


def test_a_baseline_may_be_committed_without_its_journal(workspace, tmp_path):
    """Manifest and index are enough; the numbers are the same."""
    bare = write_run(tmp_path / "baselines", stored_run("good", [[1.0]] * 400), journal=False)
    result = osmosis(workspace, "eval", "gate", "good", "--baseline", bare)
    assert result.returncode == 0
    with_journal = read_run(locate_run("good", workspace))
    without = read_run(locate_run(str(bare), workspace))
    columns = ["row_index", "run_index", "status", "reward", "passed", "tokens", "source_row_index"]
    assert samples_frame(with_journal).select(columns).equals(samples_frame(without).select(columns))


def test_a_partial_run_is_read_and_said_to_be_partial(workspace):
    """A journal cut off in the middle of its last line is a partial run: compared, noted, and never green."""
    directory = workspace / ".osmosis" / "evals" / "good"
    journal = directory / "events.jsonl"
    journal.write_bytes(journal.read_bytes()[:-30])
    (directory / "index.jsonl").unlink()
    compared = osmosis(workspace, "eval", "compare", "bad", "good", "--plain")
    assert compared.returncode == 0
    assert "Note: run good is not finished: 1 sample is pending" in compared.stdout
    gate = osmosis(workspace, "eval", "gate", "good", "--baseline", "good", "--plain")
    assert gate.returncode == 5
    assert "not finished: good" in gate.stdout


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda run: (run / "manifest.json").unlink(), "There is no run at"),
        (lambda run: (run / "manifest.json").write_text("{"), "is not a run manifest"),
        (lambda run: (run / "events.jsonl").write_bytes(b"x" + (run / "events.jsonl").read_bytes()), "is damaged"),
        (lambda run: (run / "index.jsonl").write_text("{}\n"), "is not a valid index"),
        (lambda run: (run / "dataset_rows.jsonl").write_text(""), "does not list the rows of the run"),
        (lambda run: [(run / name).unlink() for name in ("events.jsonl", "index.jsonl")], "neither a journal nor an index"),
    ],
)
def test_a_damaged_run_is_one_clear_message(workspace, damage, words):
    """What is wrong, in which file, and no traceback."""
    damage(workspace / ".osmosis" / "evals" / "baseline")
    result = osmosis(workspace, "eval", "export", "baseline", "--format", "csv", "--plain")
    assert result.returncode == 1
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert list(workspace.glob("*.csv")) == []


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "xml", "md"])
def test_exports_are_written_once(workspace, suffix):
    """Where and what is said; an existing file is kept unless --overwrite is given; the same run gives the same bytes."""
    kind = {"xml": "junit", "md": "github"}.get(suffix, suffix)
    arguments = ("eval", "export", "baseline", "--format", kind, "--json")
    result = osmosis(workspace, *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    path = workspace / f"baseline.{suffix}"
    assert json.loads(result.stdout)["resource"]["path"] == str(path)
    data = path.read_bytes()
    again = osmosis(workspace, *arguments)
    assert again.returncode == 1
    assert json.loads(again.stderr)["error"]["code"] == "CONFLICT"
    assert osmosis(workspace, *arguments, "--overwrite").returncode == 0
    assert path.read_bytes() == data
    elsewhere = workspace / "out" / "file"
    assert osmosis(workspace, *arguments, "--to", elsewhere).returncode == 0
    assert elsewhere.read_bytes() == data


def test_export_formats_agree(workspace):
    """Parquet, CSV and JSON lines hold the same table; JUnit counts the same samples."""
    keep_trajectories(workspace / ".osmosis" / "evals" / "baseline")
    for kind in ("parquet", "csv", "jsonl", "junit"):
        assert osmosis(workspace, "eval", "export", "baseline", "--format", kind).returncode == 0
    table = pl.read_parquet(workspace / "baseline.parquet")
    from_csv = pl.read_csv(workspace / "baseline.csv", schema=table.schema)
    lines = [json.loads(line) for line in (workspace / "baseline.jsonl").read_text().split("\n")[:-1]]
    assert table.equals(from_csv)
    overlaps = [(line["metrics"] or {}).get("overlap") for line in lines]
    assert table["metric.overlap"].to_list() == [value if isinstance(value, float) else None for value in overlaps]
    assert table["metric.overlap"].drop_nulls().to_list() == [0.5, 0.75]
    read = [
        {**line, "metrics": json.loads(line["metrics"] or "null"), "metadata": json.loads(line["metadata"] or "null")}
        for line in table.drop("metric.overlap").to_dicts()
    ]
    assert read == lines
    assert [line["metadata"] for line in lines if line["metadata"]] == [{"topic": "sums"}] * 3
    suite = ET.parse(workspace / "baseline.xml").getroot()  # noqa: S314 - our own document
    assert suite.get("tests") == str(len(table))
    assert suite.get("skipped") == str(table["status"].eq("skipped").sum())
    assert [given.get("value") for given in suite.iterfind(".//testcase/properties/property[@name='metric.overlap']")] == [
        "0.5",
        "0.75",
        "no number",
    ]
    github = osmosis(workspace, "eval", "export", "baseline", "--format", "github")
    assert github.returncode == 0
    summary = (workspace / "baseline.md").read_text()
    assert "| <code>overlap</code> | 0.625 | 2 of 12 samples, 9 missing, 1 no number |" in summary


def test_a_notebook_has_what_exports_have(workspace):
    """The frame of samples ends with the very columns of a Parquet export, in its order; the means are those of `eval info`."""
    keep_trajectories(workspace / ".osmosis" / "evals" / "baseline")
    assert osmosis(workspace, "eval", "export", "baseline", "--format", "parquet").returncode == 0
    table = pl.read_parquet(workspace / "baseline.parquet")
    run = open_run(workspace / ".osmosis" / "evals" / "baseline")
    further = ["metrics", "metadata", "metric.overlap"]
    assert run.index.columns[-3:] == table.columns[-3:] == further
    assert run.index.select("row_index", "run_index", *further).equals(table.select("row_index", "run_index", *further))
    (mean,) = json.loads(osmosis(workspace, "eval", "info", "baseline", "--json").stdout)["data"]["sample_metrics"]
    assert [msgspec.to_builtins(one) for one in run.sample_metrics] == [mean]
    bare = open_run(workspace / ".osmosis" / "evals" / "good")
    assert bare.index.select("metrics", "metadata").null_count().row(0) == (len(bare.index), len(bare.index))
    assert (bare.sample_metrics, bare.index.columns[-1]) == ((), "metadata")


def test_info_lists_means_of_metrics(workspace):
    """Over how many samples each was taken, and how many have none of it; nobody is counted as zero."""
    keep_trajectories(workspace / ".osmosis" / "evals" / "baseline")
    told = osmosis(workspace, "eval", "info", "baseline", "--json")
    mean = {"name": "overlap", "mean": 0.625, "samples": 2, "missing": 9, "not_numbers": 1}
    assert json.loads(told.stdout)["data"]["sample_metrics"] == [mean]
    plain = osmosis(workspace, "eval", "info", "baseline", "--plain").stdout
    assert "\noverlap: mean 0.625 over 2 of 12 samples, 9 missing, 1 no number\n" in plain
    assert json.loads(osmosis(workspace, "eval", "info", "good", "--json").stdout)["data"]["sample_metrics"] == []


COUNTED = """
import sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from osmosis.shell.cli.main import main
code = main(["eval", "report", "baseline", "--to", "report.html", "--json"])
print(code, *sorted(name for name in opened if name.startswith("row_")), file=sys.stderr)
"""


def test_a_report_reads_each_trajectory_once(workspace):
    """Means, list and texts of the samples come from one look at each of its files."""
    keep_trajectories(workspace / ".osmosis" / "evals" / "baseline")
    told = subprocess.run([sys.executable, "-c", COUNTED], cwd=workspace, capture_output=True, text=True, check=True)
    files = [f"row_{row}_run_{run}.json" for row in range(6) for run in range(2)]
    assert told.stderr.split() == ["0", *files]
    assert "2 of 12 samples, 9 missing, 1 no number" in (workspace / "report.html").read_text()


SAID_OF_A_RUN = (
    ("eval", "info", "moved"),
    ("eval", "verify", "moved"),
    ("eval", "report", "moved", "--to", "report.html"),
    ("eval", "export", "moved", "--format", "junit"),
    ("eval", "export", "moved", "--format", "github"),
    ("eval", "compare", "baseline", "moved"),
    ("eval", "gate", "moved", "--baseline", "baseline"),
    ("eval", "info", "./.osmosis/evals/moved"),
)


@pytest.mark.parametrize("words", SAID_OF_A_RUN, ids=" ".join)
def test_a_moved_run_is_called_what_it_can_be_found_by(workspace, words, monkeypatch, capsys):
    """No command says the name under which a run was made once its directory has another (decision 0054); `data.metrics`, which
    is `metrics.json` as it is, keeps it."""
    run = stored_run("moved", CANDIDATE)
    made_as = msgspec.structs.replace(run.manifest, run_name="zebra")
    write_run(workspace / ".osmosis" / "evals", msgspec.structs.replace(run, manifest=made_as))
    monkeypatch.chdir(workspace)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for mode in ("--json", "--plain"):
        main([*words, mode, *(["--overwrite"] if words[1] in ("report", "export") else [])])
        out, err = capsys.readouterr()
        said = (out + err).replace('"name": "zebra", "dataset_name"', "")
        assert "moved" in said
        assert "zebra" not in said
    written = [path.read_text() for path in workspace.iterdir() if path.is_file()]
    assert len(written) == (words[1] in ("report", "export"))
    assert all("moved" in text and "zebra" not in text for text in written)


def keep_trajectories(run):
    """Trajectories of four samples: two where they are collected, one in its trial alone, and one that is another rollout's."""
    ids = {(row, number): f"{row:016x}{number:016x}" for row, number in ((0, 0), (0, 1), (1, 0), (1, 1))}
    (run / "trajectories").mkdir()
    for (row, number), overlap in {(0, 0): 0.5, (0, 1): 0.75}.items():
        path = run / "trajectories" / f"row_{row}_run_{number}.json"
        path.write_bytes(trajectory_file(ids[row, number], {"overlap": overlap}, {"topic": "sums"}))
    trial = run / "rollout_trials" / ids[1, 0]
    trial.mkdir(parents=True)
    (trial / "trajectory.json").write_bytes(trajectory_file(ids[1, 0], {"overlap": "no number"}, {"topic": "sums"}))
    (run / "trajectories" / "row_1_run_1.json").write_bytes(trajectory_file(ids[0, 0], {"overlap": 9.0}, {"topic": "x"}))


def test_github_gets_its_summary_and_annotations(workspace, tmp_path):
    """The summary is appended to the file that the step names; annotations stand on standard output, whole and alone."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    result = osmosis(workspace, "eval", "export", "baseline", "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert (result.returncode, result.stderr) == (0, "")
    text = summary.read_text()
    assert text.startswith("before\n## Evaluation <code>baseline</code>\n")
    commands = [line for line in result.stdout.splitlines() if line.startswith("::")]
    assert sum(line.startswith("::error title=baseline%3A row 3 run 0::timeout") for line in commands) == 1
    assert len(commands) == 6
    assert list(workspace.glob("*.md")) == []


def test_points_are_not_taken_for_a_share(workspace):
    """A drop of more than 1 in a pass rate would let everything pass: it is refused. A reward has no such limit."""
    gate = ("eval", "gate", "candidate", "--baseline", "baseline", "--max-drop", "2")
    refused = osmosis(workspace, *gate)
    assert refused.returncode == 1
    assert "from 0 to 1" in refused.stderr
    assert "--max-drop 0.02" in refused.stderr
    assert osmosis(workspace, *gate, "--measure", "reward").returncode in (0, 4, 5)


def test_wrong_options_are_usage_errors(workspace):
    """Exit code 2, and which option it was."""
    for arguments in (
        ("eval", "compare", "baseline"),
        ("eval", "gate", "candidate"),
        ("eval", "gate", "candidate", "--baseline", "baseline", "--confidence", "1.5"),
        ("eval", "gate", "candidate", "--baseline", "baseline", "--max-drop", "-1"),
        ("eval", "export", "baseline", "--format", "xlsx"),
    ):
        result = osmosis(workspace, *arguments, "--json")
        assert result.returncode == 2, arguments
        assert result.stdout == ""
    wrong = osmosis(workspace, "eval", "compare", "baseline", "candidate", "--price", "x", "--price", "y", "--json")
    assert wrong.returncode == 1
    assert len(json.loads(wrong.stderr)["error"]["details"]["issues"]) == 2
