"""A run that is ended again and again, and what must hold of it in the end.

`Lab` performs invocations of `run_evaluation` on one workspace, each on a `SimulatedDisk` with at most one fault, as if each
were a process of its own: between two of them nothing is kept but the directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from osmosis.pure.dataset_rows import encode_dataset_rows
from osmosis.pure.errors import OsmosisError
from osmosis.pure.index import decode_index
from osmosis.pure.journal import JournalDecoder, Result, RunHistory, Status, WorkItem, fold
from osmosis.pure.metrics_file import EvalRunStatus, decode_metrics
from osmosis.pure.plan import decode_manifest, work_items
from osmosis.pure.report import ItemFinished, PlanSummary, Progress, RunReport, RunStatus
from osmosis.pure.resume import workload
from osmosis.shell.evaluation.dataset_file import read_dataset
from osmosis.shell.evaluation.journal_file import JournalReading, read_journal
from osmosis.shell.evaluation.projection import Projector
from osmosis.shell.evaluation.request import RunRequest
from osmosis.shell.evaluation.run import run_evaluation
from osmosis.shell.evaluation.run_directory import RunDirectory
from osmosis.shell.evaluation.verify import VerifyRequest, verify_run
from tests.integration.outside_world import World
from tests.integration.simulated_disk import Fault, Platter, SimulatedDisk

NAME = "tested"
RUNS = 2
ROWS = (("file one", "file one"), ("ask two", "else"), ("raise three", "three"), ("ask four", "discard"))
STATUSES = (Status.SUCCESS, Status.SUCCESS, Status.FAILED, Status.SKIPPED)
"""What becomes of each row."""
TOTAL = len(ROWS) * RUNS

CONFIG = f"""\
[experiment]
rollout = "ask"
entrypoint = "main.py"
model_path = "openai/stub"
dataset = "rows"

[evaluation]
n = {RUNS}
batch_size = 2

[secrets]
required = []
"""


class Silent:
    """A view that says yes and counts what it was shown."""

    interactive = False

    def __init__(self) -> None:
        self.shown: list[WorkItem] = []

    def protect(self, secrets: Iterable[str]) -> None:
        """Nothing is printed."""

    def warning(self, code: str, message: str) -> None:
        """Nothing is printed."""

    def milestone(self, text: str) -> None:
        """Nothing is printed."""

    def plan(self, plan: PlanSummary) -> None:
        """Nothing is printed."""

    def confirm(self, question: str, *, default: bool) -> bool:
        """Yes."""
        return True

    def propose(self, question: str) -> bool:
        """No."""
        return False

    def prompt_secret(self, name: str) -> str | None:
        """Nobody answers."""
        return None

    def progress(self, progress: Progress) -> None:
        """Nothing is printed."""

    def item(self, finished: ItemFinished) -> None:
        """A result counts from here on."""
        self.shown.append(finished.item)

    def log_line(self, line: str) -> None:
        """Nothing is printed."""


class Invoked(msgspec.Struct):
    """How one invocation went: with a report, with an error that a person can act on, or not to its end."""

    disk: SimulatedDisk
    shown: list[WorkItem]
    report: RunReport | None = None
    error: OsmosisError | None = None


class Lab:
    """One workspace and the run in it."""

    def __init__(self, root: Path, world: World) -> None:
        self.root = root
        self._world = world
        self._durable: dict[WorkItem, Result] = {}
        for name in ("configs/eval", "rollouts/ask", "data"):
            (root / name).mkdir(parents=True)
        (root / "configs/eval/ask.toml").write_text(CONFIG)
        (root / "rollouts/ask/main.py").write_text("")
        (root / "rollouts/ask/pyproject.toml").write_text('[project]\nname = "ask"\nversion = "1"\n')
        rows = ({"user_prompt": prompt, "ground_truth": label} for prompt, label in ROWS)
        (root / "data/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.directory = RunDirectory(root / ".osmosis" / "evals", NAME)
        self._platter = Platter(root)

    def invoke(self, fault: Fault | None = None, **options: Any) -> Invoked:
        """One `osmosis eval run`. Afterwards the directory is as that process, or the power cut, left it."""
        disk = SimulatedDisk(self._platter, fault)
        view = Silent()
        done = Invoked(disk, view.shown)
        request = RunRequest(
            config_path=Path("configs/eval/ask.toml"),
            working_directory=self.root,
            name=NAME,
            dataset_file=Path("data/rows.jsonl"),
            **options,
        )
        before = read_journal(self.directory.journal, TOTAL).history
        dispatched, self._world.disk = set(self._world.dispatched), disk
        try:
            done.report = run_evaluation(request, view, disk)
        except OsmosisError as error:
            done.error = error
        except BaseException:
            # Whatever a dying process raises is lost with it. Anything that a living one raises is a traceback for a person.
            if not disk.gone:
                raise
        finally:
            self._world.disk = None
            self._world.close()
            disk.release()
        self._check_dispatches(set(self._world.dispatched) - dispatched, before, **options)
        if fault is not None and disk.fired and fault.kind.loses_power:
            self._platter.lose_power()
            self._platter = Platter(self.root)
        self._check_journal(done, **options)
        return done

    def finish(self, **options: Any) -> None:
        """One invocation that nothing hinders finishes the run, and the next one changes nothing."""
        done = self.invoke(**options)
        assert done.error is None, done.error
        assert done.report is not None
        assert done.report.status in (RunStatus.SUCCESS, RunStatus.NOOP), done.report
        self.check_finished()
        audited = verify_run(VerifyRequest(NAME, self.root, dataset_file=Path("data/rows.jsonl")))
        assert not audited.findings, audited.findings
        before = _files(self.directory.path)
        times = {path: path.stat().st_mtime_ns for path in self.directory.path.rglob("*")}
        report = self.invoke().report
        assert report is not None
        assert report.status is RunStatus.NOOP
        assert _files(self.directory.path) == before
        assert {path: path.stat().st_mtime_ns for path in self.directory.path.rglob("*")} == times

    # --- What must hold ----------------------------------------------------------------------------------------------------

    def _check_dispatches(self, started: set[str], before: RunHistory, *, retry_failed: bool = False, **_: Any) -> None:
        """No item that had a result was run again, unless it failed and was to be retried; no rollout asked the model twice."""
        for rollout_id in started:
            found = before.results.get(self._world.dispatched[rollout_id])
            assert found is None or (retry_failed and found.status is not Status.SUCCESS), f"{found} was run again"
            assert self._world.calls.get(rollout_id, 0) <= 1

    def _check_journal(self, done: Invoked, *, retry_failed: bool = False, **_: Any) -> None:
        """What was durable before still is, and so is what was shown. Only who did not live to the end leaves a torn line."""
        results = fold(JournalDecoder("journal").feed(self._platter.content(self.directory.journal) or b""), TOTAL).results
        if (report := done.report) is not None:
            assert read_journal(self.directory.journal, TOTAL).torn == 0
            assert report.succeeded + report.failed + report.skipped == len(results), "the report counts what is not durable"
        lost = [item for item in done.shown if item not in results]
        assert not lost, f"results that had been shown are not durable: {lost}"
        for item, result in self._durable.items():
            now = results.get(item)
            replaced = retry_failed and now is not None and result.status is not Status.SUCCESS
            assert now == result or replaced, f"a durable result was lost: {result}"
        self._durable = dict(results)

    def check_finished(self) -> None:
        """Every item has one current terminal result, and every projection is what a rebuild from scratch makes of it."""
        reading = read_journal(self.directory.journal, TOTAL)
        assert reading.torn == 0
        items = list(work_items(len(ROWS), RUNS))
        assert sorted(reading.history.results) == items
        assert workload(items, reading.history, retry_failed=False).size == 0
        for item, result in reading.history.results.items():
            assert result.status is STATUSES[item.row_index]
            assert self._world.dispatched[result.rollout_id] == item
            assert self._world.calls[result.rollout_id] == 1
            assert result.calls is not None
            assert len(result.calls) == 1
        self._check_projections(reading)

    def _check_projections(self, reading: JournalReading) -> None:
        directory = self.directory
        rows = decode_index(directory.index.read_bytes(), "index.jsonl")
        assert [(row.row_index, row.run_index) for row in rows] == [tuple(msgspec.structs.astuple(i)) for i in work_items(4, 2)]
        assert {row.row_index for row in rows if row.trajectory_filename is None} == {2}, "a trajectory was lost"
        metrics = decode_metrics(directory.metrics.read_bytes(), "metrics.json")
        assert metrics.eval_run.status is EvalRunStatus.FINISHED
        assert metrics.summary.total_samples == TOTAL
        dataset = read_dataset(self.root / "data/rows.jsonl", rows=None, limit=None)
        assert directory.dataset_rows.read_bytes() == b"".join(encode_dataset_rows(dataset.rows))
        manifest = decode_manifest(directory.manifest.read_bytes(), "manifest.json")
        with TemporaryDirectory(dir=self.root.parent) as place:
            rebuilt = RunDirectory(Path(place), NAME)
            rebuilt.path.mkdir()
            rebuilt.trials.symlink_to(directory.trials)
            disk = SimulatedDisk(Platter(rebuilt.output_root))
            Projector(disk, rebuilt, lambda _: None).finalize(manifest, reading.history)
            assert _projections(directory.path) == _projections(rebuilt.path)


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


_AUTHORITY = ("manifest.json", "events.jsonl", "logs.txt", "source_files.json", "dataset_rows.jsonl", "rollout_trials/")


def _projections(directory: Path) -> dict[str, bytes]:
    """Everything that is not itself a source. Litter that a crash left would show here."""
    return {name: data for name, data in _files(directory).items() if not name.startswith(_AUTHORITY)}
