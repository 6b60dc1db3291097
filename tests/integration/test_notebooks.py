"""The notebook door on the demo's run, and the example notebooks executed as they are (issue 8)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from operator import attrgetter
from pathlib import Path

import nbclient
import nbformat
import polars as pl
import pytest
from traitlets.config import Config

import osmosis
from osmosis.pure.errors import OsmosisError
from osmosis.pure.index_frame import INDEX_SCHEMA
from osmosis.shell.notebook.scan import RUN_COLUMNS
from tests.integration.stored_runs import write_run
from tests.integration.test_demo_replay import WORKSPACE
from tests.strategies.comparisons import Cell, stored_run

NOTEBOOKS = WORKSPACE.parent / "notebooks"
CELLS: list[list[Cell]] = [[1.0, 0.0], [None, "timeout"], [0.5, 1.0]]


def test_importing_the_package_is_nothing():
    """`import osmosis` brings no module of ours, and the door's names are there all the same."""
    ours = "[name for name in sys.modules if name.startswith(('osmosis.', 'polars'))]"
    program = f"import sys, osmosis; print({ours}, 'open_run' in dir(osmosis))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[] True\n"
    with pytest.raises(AttributeError, match="no_such_name"):
        attrgetter("no_such_name")(osmosis)


def test_a_run_is_opened_by_its_path(tmp_path: Path):
    """Index, rows and metrics of a run are those that were written."""
    stored = stored_run("a", CELLS)
    run = osmosis.open_run(write_run(tmp_path, stored))
    assert run.index.select(list(INDEX_SCHEMA)).height == len(run.index) == 6
    assert run.rows["prompt"].to_list() == ["question 0", "question 1", "question 2"]
    assert (run.metrics.passed, run.metrics.graded, run.metrics.failed) == (2, 4, 1)
    assert "<strong>a</strong>" in run._repr_html_()
    with pytest.raises(OsmosisError, match="Row 7"):
        run.trajectory(7)


def test_plots_are_charts_of_the_runs_numbers(tmp_path: Path):
    """Each picture is an Altair chart whose data are the run's; comparing a run with itself finds nothing."""
    run = osmosis.open_run(write_run(tmp_path, stored_run("a", CELLS)))
    rewards = run.reward_histogram().to_dict()
    counted = next(iter(rewards["datasets"].values())) if "datasets" in rewards else rewards["data"]["values"]
    assert {bar["start"]: bar["count"] for bar in counted} == {0.0: 1, 0.5: 1, 1.0: 2}
    for plot in (run.pass_curve, run.context_lengths, run.token_histogram, run.time_histogram):
        assert plot().to_dict()["title"]["text"]
    assert run.comparison_forest(run).to_dict()["layer"]
    assert run.compare(run)[0].pass_rate.difference.value == 0.0


def test_many_runs_are_one_frame(tmp_path: Path):
    """Finished or not, with an index or without, every sample of every run is a line; an empty folder has none."""
    assert osmosis.scan_runs(tmp_path / "nowhere").collect().is_empty()
    write_run(tmp_path, stored_run("a", CELLS))
    write_run(tmp_path, stored_run("b", CELLS), index=False)
    frame = osmosis.scan_runs(tmp_path)
    assert frame.collect_schema().names() == [*RUN_COLUMNS, *INDEX_SCHEMA, "graded", "passed"]
    counts = frame.group_by("run_name").agg(pl.len(), pl.col("passed").sum().alias("p")).sort("run_name").collect()
    assert counts.rows() == [("a", 6, 2), ("b", 6, 2)]


def test_runs_are_called_what_their_directories_are_called(tmp_path: Path):
    """Two copies of a run are two names in a frame, one id; an opened copy can be told from its original (decision 0054)."""
    made = write_run(tmp_path, stored_run("made", CELLS))
    shutil.copytree(made, tmp_path / "copied")
    frame = osmosis.scan_runs(tmp_path).select("run_name", "run_id").unique().collect()
    assert sorted(frame["run_name"]) == ["copied", "made"]
    assert frame["run_id"].n_unique() == 1
    (compared,) = osmosis.open_run(made).compare(osmosis.open_run(tmp_path / "copied"))
    assert (compared.baseline, compared.candidate) == ("made", "copied")


@pytest.fixture(scope="module")
def demo_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like `examples` whose workspace has the runs that the notebooks read."""
    root = tmp_path_factory.mktemp("examples")
    shutil.copytree(NOTEBOOKS, root / "notebooks")
    output = root / "workspace" / ".osmosis" / "evals"
    for name, flags in (("demo", []), ("demo-half", ["--rows", "0-31"])):
        command = [sys.executable, "-m", "osmosis.shell.cli.main", "eval", "run", "configs/eval/word-problems.toml", "--yes"]
        command += ["--dataset-file", "data/word-problems.jsonl", "--replay", "cassettes/word-problems.jsonl"]
        command += ["--output", str(output), "--name", name, *flags]
        subprocess.run(command, cwd=WORKSPACE, check=True, capture_output=True)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-run", "several-runs"])
def test_the_example_notebooks_run(demo_runs: Path, name: str):
    """Every cell of an example works, and its pictures are there; the file in the repository keeps no outputs."""
    path = demo_runs / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    # A kernel on TCP binds ports that were free a moment ago, and another test may have taken one meanwhile.
    with tempfile.TemporaryDirectory() as place:
        sockets = Config({"KernelManager": {"transport": "ipc", "ip": f"{place}/kernel"}})
        where = {"metadata": {"path": str(path.parent)}}
        nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, resources=where, config=sockets).execute()
    kinds = {kind for cell in notebook.cells for output in cell.get("outputs", ()) for kind in output.get("data", {})}
    assert "image/svg+xml" in kinds
