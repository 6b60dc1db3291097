"""The crash matrix (ruling 28; issue "runs that survive", must-show 1).

A run is recorded once, step by step. Then it is run again and again, and at one step each time the process dies, the machine
loses power, the disk is full, or the disk has an error. Each time the run is resumed until it is finished, and `Lab` checks
that every item has one result, that nothing with a durable result was run again, that no result was shown and then lost, and
that every projection is what a rebuild makes of it.

The work is cut into shards, so that several processes can share it.
"""

from __future__ import annotations

import gc
import os
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import pytest

from osmosis.shell.evaluation import invocation
from tests.integration.crash_lab import TOTAL, Lab
from tests.integration.outside_world import LocalServer, World, outside_world
from tests.integration.simulated_disk import KINDS, Fault, Kind, Point

pytestmark = [
    pytest.mark.slow,
    # A process that dies closes nothing, and its event loop says so when it meets a connection that was still open. The matrix
    # is about files; that a living run closes what it opened, every other test of runs sees to.
    pytest.mark.filterwarnings("ignore:unclosed resource:ResourceWarning"),
]

SHARDS = 4
LEAST = {"new": 45, "resume": 25, "finalize": 45, "retry": 25}
"""How many different faults must happen in each test, and each shard of the first, so that the number cannot shrink unseen."""
JOURNAL = ("journal.", "rollout.", "model.")
"""Steps of an item's life that decide what counts."""
ALL_KINDS = 4
TURNS = 2

LIFE = {
    "dispatched": "rollout.dispatched:moment",
    "model called": "model.called:moment",
    "result received": "journal.write:write",
    "made durable": "journal.sync:sync",
    "shown": "log.write:write",
    "trajectory": "trajectories.rename:rename",
    "artifact": "row_0_run_0.write:write",
    "indexed": "index.append:write",
    "finalizing": "summary.jsonl.rename:rename",
    "vouched for": "metrics.json.rename:rename",
    "created": "manifest.rename:rename",
}
"""The labelled life of an item: each of these steps must be among those that failed."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Provider and rollout server."""
    with outside_world() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """What the dead left is found here, where it is no fault, and not in somebody else's test."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def in_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollout server is the world's, which needs no environment of its own."""

    async def nothing(*_: object) -> None:
        """There is nothing to install."""

    monkeypatch.setattr(invocation, "RolloutProcess", LocalServer)
    monkeypatch.setattr(invocation, "sync_environment", nothing)
    monkeypatch.setenv("OPENAI_BASE_URL", world.model_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where the workspaces lie: in memory where that can be had, since nothing here depends on a real disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as directory:
        yield Path(directory)


def chosen(points: Iterable[Point]) -> list[Fault]:
    """Every kind of fault where the journal or an item's rollout is concerned. Elsewhere the kinds take turns, twice a step."""
    faults = []
    for point in points:
        kinds = KINDS[point.primitive]
        turn = crc32(f"{point.step}:{point.primitive}".encode()) + point.occurrence
        if point.step.startswith(JOURNAL):
            faults += [Fault(point, kind) for kind in kinds if point.occurrence <= ALL_KINDS]
        elif point.occurrence <= TURNS:
            faults.append(Fault(point, kinds[turn % len(kinds)]))
    return faults


def only_at_times(fault: Fault) -> bool:
    """Whether another run need not come there: the index is written anew where results came in another order than rows."""
    return fault.point.step.startswith("index.jsonl.")


class Matrix:
    """Tries faults one after the other, each in a workspace of its own, and gathers what they broke."""

    def __init__(self, root: Path, world: World, before: Callable[[Lab], None] = lambda _: None) -> None:
        self._root = root
        self._world = world
        self._before = before
        self.fired: list[Fault] = []
        self.broken: list[str] = []

    def record(self, **options: Any) -> list[Point]:
        """The steps of the invocation that is to fail, when it does not."""
        lab = self._lab("recorded")
        done = lab.invoke(**options)
        assert done.error is None
        lab.check_finished()
        return done.disk.points

    def run(self, faults: Iterable[Fault], **options: Any) -> None:
        """Let each fault happen, then finish."""
        for number, fault in enumerate(faults):
            try:
                lab = self._lab(f"{number}")
                if lab.invoke(fault, **options).disk.fired:
                    self.fired.append(fault)
                lab.finish(**options)
                shutil.rmtree(lab.root)
            except Exception:  # noqa: BLE001 - every broken promise is told, not only the first
                self.broken.append(f"--- {fault}\n{traceback.format_exc(limit=-6)}")

    def check(self, least: int) -> None:
        """Nothing broke, and at least so many faults did happen."""
        assert not self.broken, f"{len(self.broken)} of {len(self.fired)} faults broke the run\n" + "\n".join(self.broken[:10])
        assert len(set(self.fired)) >= least

    def _lab(self, name: str) -> Lab:
        lab = Lab(self._root / name, self._world)
        self._before(lab)
        return lab


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_new_run_survives_a_fault_at_any_step(shard: int, place: Path, world: World) -> None:
    """From the first directory to the last projection, whatever ends the first invocation, the next ones finish the run."""
    matrix = Matrix(place, world)
    # What not every run has comes last, so that every shard has its share of the rest.
    faults = sorted(chosen(matrix.record()), key=only_at_times)
    matrix.run(faults[shard::SHARDS])
    matrix.check(least=LEAST["new"])


def test_a_resume_survives_a_fault_at_any_step(place: Path, world: World) -> None:
    """A torn journal is cut and carried on with, and a fault on the way there costs nothing either."""
    torn = Fault(Point("journal.write", "write", 4), Kind.CRASH_HALF)

    def tear(lab: Lab) -> None:
        assert lab.invoke(torn).disk.fired

    matrix = Matrix(place, world, tear)
    points = matrix.record()
    assert Point("journal.truncate", "truncate", 1) in points
    matrix.run(chosen(point for point in points if point.occurrence == 1)[::2])
    matrix.check(least=LEAST["resume"])


def test_a_run_that_died_while_finalizing_survives_a_fault_at_any_step(place: Path, world: World) -> None:
    """Every result is there and the projections are not; the next look completes them, and may die as well."""
    dying = Fault(Point("summary.jsonl.create", "open", 1), Kind.CRASH_BEFORE)

    def die(lab: Lab) -> None:
        assert lab.invoke(dying).disk.fired

    matrix = Matrix(place, world, die)
    points = matrix.record()
    matrix.run(Fault(point, kind) for point in points if point.occurrence == 1 for kind in KINDS[point.primitive][::2])
    matrix.check(least=LEAST["finalize"])


def test_the_last_words_of_a_dead_process_are_made_durable_before_they_count(place: Path, world: World) -> None:
    """All results are written, the last of them is not synced: the next start finds a finished run, and says so for good."""
    lab = Lab(place / "workspace", world)
    assert lab.invoke(Fault(Point("journal.sync", "sync", TOTAL), Kind.CRASH_BEFORE), max_in_flight=1).disk.fired
    lab.finish()


def run_once(lab: Lab) -> None:
    """A run that ends well."""
    assert lab.invoke().error is None


def test_a_retry_survives_a_fault_at_any_step(place: Path, world: World) -> None:
    """Failures are run again and successes are kept, also when the retry dies."""
    matrix = Matrix(place, world, run_once)
    points = matrix.record(retry_failed=True)
    matrix.run(chosen(point for point in points if point.occurrence == 1)[1::2], retry_failed=True)
    matrix.check(least=LEAST["retry"])


def test_the_matrix_is_large_enough() -> None:
    """The tests above ask for at least two hundred crash points together."""
    assert LEAST["new"] * SHARDS + LEAST["resume"] + LEAST["finalize"] + LEAST["retry"] >= 200


def test_the_matrix_reaches_every_step_of_an_items_life(place: Path, world: World) -> None:
    """The labels mean what they say: each step of the list is one that a run takes, and its faults are among those chosen."""
    points = Lab(place / "workspace", world).invoke().disk.points
    assert set(LIFE.values()) <= {f"{fault.point.step}:{fault.point.primitive}" for fault in chosen(points)}
