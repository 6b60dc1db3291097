"""What `osmosis eval verify` notices of each file of a run: the table of `docs/durability.md`, checked against the code.

The run is the one that was written by hand, with digests of its files in its journal, as a runner records them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from osmosis.pure.finding import AuditReport, AuditStatus, Severity
from osmosis.shell.evaluation import invocation
from osmosis.shell.evaluation.verify import VerifyRequest, verify_run
from tests.integration.crash_lab import Lab
from tests.integration.golden_run import (
    DATASET,
    append,
    change_lines,
    contents,
    copy_run,
    edit,
    link,
    pipe,
    record_evidence,
    remove,
    snapshot,
    write,
)
from tests.integration.outside_world import LocalServer, outside_world

PAGE = Path(__file__).parents[2] / "docs" / "durability.md"
KEPT = ("events.jsonl.torn-", "replaced-")
TRIAL = "rollout_trials/" + "a0".rjust(32, "0")
SUPERSEDED = "rollout_trials/" + "a2".rjust(32, "0")
TRAJECTORY, SAMPLE = f"{TRIAL}/trajectory.json", f"{TRIAL}/sample.json"

EXAMPLES = {
    "manifest.json": "manifest.json",
    "events.jsonl": "events.jsonl",
    "source_files.json": "source_files.json",
    "dataset_rows.jsonl": "dataset_rows.jsonl",
    "index.jsonl": "index.jsonl",
    "summary.jsonl": "summary.jsonl",
    "progress.json": "progress.json",
    "metrics.json": "metrics.json",
    "trajectories/*": "trajectories/row_0_run_0.json",
    "artifacts/**": "artifacts/row_0_run_0/notes.txt",
    "logs.txt": "logs.txt",
    "trajectory.json of a trial": TRAJECTORY,
    "artifacts/** of a trial": f"{TRIAL}/artifacts/notes.txt",
    "sample.json of a trial": SAMPLE,
    "any other file of a trial": f"{TRIAL}/diagnostics.json",
    ".osmosis-health-check of a trial": f"{TRIAL}/.osmosis-health-check",
    "files of superseded trials": f"{SUPERSEDED}/artifacts/old.txt",
}
"""A file of the run for each line of the table."""


def change_a_byte(path: Path) -> None:
    """Flip the lowest bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "deleted": lambda path: path.unlink(),
    "cut short": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a byte changed": change_a_byte,
    "appended to": lambda path: append(path.name, b"x")(path.parent),
}
OUTCOMES = ("error", "repaired", "no")


def table() -> dict[str, dict[str, str]]:
    """The table: file -> damage -> outcome. What is not noticed has a reason in the last column."""
    lines = [line for line in PAGE.read_text().split("\n") if line.startswith("|")]
    header = next(number for number, line in enumerate(lines) if "| deleted |" in line)
    names = [cell.strip() for cell in lines[header].strip("|").split("|")]
    found: dict[str, dict[str, str]] = {}
    for line in lines[header + 2 :]:
        file, *cells, why = (cell.strip() for cell in line.strip("|").split("|"))
        outcomes = dict(zip(names[1:-1], cells, strict=True))
        assert "no" not in outcomes.values() or len(why) > 20, f"{file}: why is it not noticed?"
        found[re.sub("`", "", file)] = outcomes
    return found


def recorded_run(place: Path) -> Path:
    """The run, with a sample and a backend's notes in one trial, and everything in its journal."""
    root = copy_run(place)
    write(SAMPLE, b'{"messages":[]}\n')(root)
    write(f"{TRIAL}/diagnostics.json", b'{"note": 1}\n')(root)
    for path in root.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
    record_evidence(root)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A sound run whose journal records digests."""
    return recorded_run(tmp_path)


def verify(root: Path, *, repair: bool = False, dataset: Path | None = None) -> AuditReport:
    """Verify a run by its path."""
    return verify_run(VerifyRequest(str(root), Path.cwd(), None, dataset, repair))


def test_the_table_knows_every_kind_of_file() -> None:
    """Each line of the table has an example here, and each example a line."""
    assert list(table()) == list(EXAMPLES)
    for outcomes in table().values():
        assert list(outcomes) == list(DAMAGE)
        assert set(outcomes.values()) <= set(OUTCOMES)


def test_a_recorded_run_is_sound(root: Path) -> None:
    """Digests in the journal change nothing for a run that is as it was, and a look changes nothing at all."""
    before = snapshot(root)
    assert verify(root, dataset=DATASET).findings == ()
    assert verify(root).unchecked == ()
    assert snapshot(root) == before


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", EXAMPLES)
def test_damage_is_noticed_as_the_table_says(root: Path, file: str, damage: str) -> None:
    """What the table calls an error names the file; what it calls repaired is as it was afterwards; the rest has a reason."""
    path, outcome = EXAMPLES[file], table()[file][damage]
    sound = contents(root)
    DAMAGE[damage](root / path)
    named = [finding for finding in verify(root).findings if finding.path == path and finding.severity is Severity.ERROR]
    assert bool(named) == (outcome != "no")
    report = verify(root, repair=True)
    if outcome == "repaired":
        assert report.status is AuditStatus.REPAIRED, report
        assert contents(root, without=KEPT) == sound
    elif outcome == "error":
        assert report.status is AuditStatus.UNSOUND
        assert set(named) <= set(report.findings)
        assert report.advice, "what cannot be mended comes with advice"


def test_dataset_rows_are_written_again_from_the_dataset(root: Path) -> None:
    """The advice about dataset rows works: with the dataset everything is as it was."""
    sound = contents(root)
    for damage in DAMAGE.values():
        damage(root / "dataset_rows.jsonl")
        assert "--dataset-file" in verify(root, repair=True).advice[0]
        assert verify(root, repair=True, dataset=DATASET).status is AuditStatus.REPAIRED
        assert contents(root, without=KEPT) == sound


# --- Trials -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
def test_a_trial_that_is_gone_comes_back_as_far_as_copies_go(root: Path, whole: bool) -> None:
    """Trajectory and artifacts are put back; what has no copy stays named, and is no reason not to compare the rest."""
    sound = contents(root)
    if whole:
        shutil.rmtree(root / "rollout_trials")
    else:
        shutil.rmtree(root / TRIAL)
    report = verify(root, repair=True)
    left = {path for path in sound if path not in contents(root)}
    assert {f"{TRIAL}/sample.json", f"{TRIAL}/diagnostics.json", f"{TRIAL}/artifacts/manifest.json"} <= left
    assert not [path for path in left if path.endswith("trajectory.json") and "a3/" not in path]
    assert f"{TRIAL}/artifacts/plots/größe.bin" not in left
    assert report.status is AuditStatus.UNSOUND
    assert {finding.path for finding in report.findings} >= {f"{TRIAL}/sample.json"}


def test_both_sides_damaged_is_an_error_that_nothing_mends(root: Path) -> None:
    """When neither the trial's file nor its copy is what was recorded, nothing is written over either."""
    for path in (TRAJECTORY, "trajectories/row_0_run_0.json"):
        change_a_byte(root / path)
    before = snapshot(root)
    report = verify(root, repair=True)
    assert snapshot(root) == before
    assert [finding.where for finding in report.findings] == [TRAJECTORY]
    assert report.unchecked


def test_a_damaged_trial_and_a_damaged_projection_are_mended_in_one_go(root: Path) -> None:
    """What follows from a trial is compared once the trial is whole again, in the same command."""
    sound = contents(root)
    change_a_byte(root / TRAJECTORY)
    change_a_byte(root / "trajectories/row_0_run_1.json")
    remove("metrics.json")(root)
    report = verify(root, repair=True)
    assert report.status is AuditStatus.REPAIRED
    assert {finding.path for finding in report.repaired} == {TRAJECTORY, "trajectories/row_0_run_1.json", "metrics.json"}
    assert contents(root, without=KEPT) == sound
    assert len(report.kept) == 2


def test_a_restored_file_never_lands_outside_the_run(root: Path) -> None:
    """A link in the place of a trial's directory is moved aside; what it led to is untouched."""
    link(f"{TRIAL}/artifacts")(root)
    elsewhere = contents(root.parent / "elsewhere-artifacts")
    report = verify(root, repair=True)
    assert contents(root.parent / "elsewhere-artifacts") == elsewhere
    assert (root / TRIAL / "artifacts").is_dir()
    assert not (root / TRIAL / "artifacts").is_symlink()
    assert (root / TRIAL / "artifacts/notes.txt").is_file()
    assert {finding.path for finding in report.findings} == {f"{TRIAL}/artifacts/manifest.json"}, "it had no copy"


@pytest.mark.parametrize("trap", [pipe(TRAJECTORY), link(TRAJECTORY)])
def test_traps_in_the_place_of_a_trajectory_are_moved_aside(root: Path, trap: Callable[[Path], None]) -> None:
    """What is no regular file is neither opened nor followed, and the copy takes its place."""
    trap(root)
    report = verify(root, repair=True)
    assert report.status is AuditStatus.REPAIRED
    assert (root / TRAJECTORY).read_bytes() == (root / "trajectories/row_0_run_0.json").read_bytes()
    assert not (root / TRAJECTORY).is_symlink()


def test_a_file_that_came_later_is_named(root: Path) -> None:
    """What a trial holds beyond what was recorded would be projected as if the rollout had made it."""
    write(f"{TRIAL}/artifacts/extra.txt", b"x")(root)
    (finding,) = [finding for finding in verify(root).findings if finding.path.startswith(TRIAL)]
    assert (finding.path, finding.what) == (f"{TRIAL}/artifacts/extra.txt", "was not there when the result was recorded")


def test_files_beyond_those_recorded_by_name_share_a_digest(tmp_path: Path) -> None:
    """A trial with many files has a bounded line in the journal, and every one of them still counts."""
    root = copy_run(tmp_path)
    for number in range(40):
        write(f"{TRIAL}/logs/{number:02}.txt", b"x")(root)
    record_evidence(root)
    assert verify(root).findings == ()
    change_a_byte(root / TRIAL / "logs/39.txt")
    (finding,) = verify(root).findings
    assert (finding.path, finding.severity) == (TRIAL, Severity.ERROR)


def test_results_without_digests_are_said_to_be_judged_by_copies_alone(tmp_path: Path) -> None:
    """A run of an earlier build, whose journal says nothing of files, is no worse than it was; the report says so."""
    report = verify(copy_run(tmp_path))
    assert (report.status, report.findings) == (AuditStatus.SOUND, ())
    assert report.unchecked[0].startswith("8 results: the journal holds no digests")


@pytest.mark.parametrize("left", range(31))
def test_a_journal_that_was_cut_at_a_line_is_noticed(root: Path, left: int) -> None:
    """However many lines are gone, and although each that is left is sound, the run is not."""
    change_lines("events.jsonl", lambda lines: lines[:left])(root)
    errors = {finding.path for finding in verify(root).findings if finding.severity is Severity.ERROR}
    assert errors & {"events.jsonl", "metrics.json"}


# --- The log ------------------------------------------------------------------------------------------------------------------


def test_damage_to_the_log_is_told_by_its_place(root: Path) -> None:
    """The bytes between which the log changed are named; lines after the last record are nobody's damage."""
    size = (root / "logs.txt").stat().st_size
    append("logs.txt", b"2026-11-30T14:00:06.000000Z INFO [rollout-server] bye\n")(root)
    assert verify(root).findings == ()
    edit("logs.txt", b"work items", b"WORK items")(root)
    (finding,) = verify(root).findings
    assert finding.what == f"is not what was written: damaged between bytes 0 and {size}"


# --- A real run ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A workspace whose rollout server is in this process."""

    async def nothing(*_: object) -> None:
        """There is nothing to install."""

    with outside_world() as world:
        monkeypatch.setattr(invocation, "RolloutProcess", LocalServer)
        monkeypatch.setattr(invocation, "sync_environment", nothing)
        monkeypatch.setenv("OPENAI_BASE_URL", world.model_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        yield Lab(tmp_path, world)


def line_of(path: str) -> str:
    """The line of the table that a file of a run falls under."""
    if path in EXAMPLES:
        return path
    top, _, rest = path.partition("/")
    if top in ("trajectories", "artifacts"):
        return {"trajectories": "trajectories/*", "artifacts": "artifacts/**"}[top]
    assert top == "rollout_trials", f"{path} is in no line of the table"
    inside = rest.partition("/")[2]
    names = {name: f"{name} of a trial" for name in ("trajectory.json", "sample.json", ".osmosis-health-check")}
    return names.get(inside) or ("artifacts/** of a trial" if inside.startswith("artifacts/") else "any other file of a trial")


def test_every_file_of_a_real_run_stands_in_the_table_and_is_guarded(lab: Lab) -> None:
    """What a runner writes is covered, and its own journal notices a changed byte as the table says."""
    lab.finish()
    root, lines = lab.directory.path, table()
    assert verify(root).unchecked == ()
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    assert {line_of(path.relative_to(root).as_posix()) for path in paths} >= {"sample.json of a trial", "logs.txt"}
    for path in paths:
        name = path.relative_to(root).as_posix()
        data = path.read_bytes()
        change_a_byte(path)
        named = name in {finding.path for finding in verify(root).findings}
        assert named == (lines[line_of(name)]["a byte changed"] != "no"), name
        path.write_bytes(data)
    assert verify(root).findings == ()


def test_the_list_of_sources_comes_back_from_the_source(lab: Lab) -> None:
    """While the rollout's source is the one that the manifest locks, its list can be written again, and not once it changed."""
    lab.finish()
    root = lab.directory.path
    sound = contents(root)
    for damage in DAMAGE.values():
        damage(root / "source_files.json")
        assert verify(root, repair=True).status is AuditStatus.REPAIRED
        assert contents(root, without=KEPT) == sound
    (lab.root / "rollouts/ask/main.py").write_text("changed = True\n")
    remove("source_files.json")(root)
    report = verify(root, repair=True)
    assert [(finding.path, finding.repairable) for finding in report.findings] == [("source_files.json", False)]
    assert "restore it from a copy" in report.advice[0]
