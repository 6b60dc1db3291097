"""One run of 100,000 work items (25,000 rows, n = 4): every file correct, memory bounded, the end as quick as the beginning.

The model, the rollout and the number in flight are those of `whole_runs`. What the first and the last fifth of the items cost
is looked at from outside while the run goes on; `osmosis eval verify` has the last word. Takes some ten minutes, and four
gigabytes of disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.measuring import Finding, Options, at_least, at_most, own_cpu_seconds, run, scratch, told
from benchmarks.run_workspace import Bench, our_bench
from benchmarks.stub_model import StubModel, stub_model

ROWS = 25_000
RUNS = 4
ITEMS = ROWS * RUNS
_LOOK_SECONDS = 0.5


class Look(msgspec.Struct, frozen=True):
    """The run at one moment: results in the journal, seconds of the supervisor's processor time, its resident bytes."""

    at: float
    results: int
    cpu: float
    resident: int


class Watch(threading.Thread):
    """Looks at a run again and again, until it is told to stop."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__(name="watch", daemon=True)
        self.looks: list[Look] = []
        self._journal = bench.run_directory(name) / "events.jsonl"
        self._bench = bench
        self._over = threading.Event()

    def run(self) -> None:
        """Until stopped."""
        results, position = 0, 0
        while not self._over.wait(_LOOK_SECONDS):
            if (pid := self._supervisor()) is None or not self._journal.exists():
                continue
            with self._journal.open("rb") as journal:
                journal.seek(position)
                # Only whole lines are counted, and no line twice.
                whole = journal.read().rpartition(b"\n")[0]
            results += whole.count(b'"kind":"result"')
            position += len(whole) + 1 if whole else 0
            try:
                self.looks.append(Look(time.monotonic(), results, own_cpu_seconds(pid), _resident(pid)))
            except OSError:
                continue

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()

    def _supervisor(self) -> int | None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                place = os.readlink(path / "cwd")
            except OSError:
                continue
            if self._bench.command[0].encode() in words[:2] and place == str(self._bench.root):
                return int(path.name)
        return None


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024


def measure(options: Options) -> list[Finding]:
    """All findings. Only with `options.large` has the run its full size; else a fiftieth of it."""
    rows = ROWS if options.large else ROWS // 50
    with stub_model() as model:
        root = scratch()
        bench = our_bench(root / "ours", model.url, runs=RUNS)
        return list(_findings(bench, model, rows))


def _findings(bench: Bench, model: StubModel, rows: int) -> Iterator[Finding]:
    log, dataset, items = bench.root / "output.log", bench.write_dataset(rows), rows * RUNS
    run(bench.words("warm", bench.write_dataset(1)), bench.root, bench.environment, log)
    model.marks()
    watch = Watch(bench, "large")
    watch.start()
    cost = run(bench.words("large", dataset), bench.root, bench.environment, log)
    watch.stop()
    if cost.code != 0:
        raise RuntimeError(f"the run ended with exit code {cost.code}:\n{cost.output[-4000:]}")
    yield at_most(f"model calls beyond one an item, {items} items", [model.marks().calls - items], 0, "")
    yield told("whole command", [cost.wall], "s")
    yield told("supervisor CPU an item", [1000 * cost.cpu / items], "ms")
    yield told("tree CPU an item", [1000 * cost.tree_cpu / items], "ms")
    yield told("bytes written an item", [cost.written / items / 1000], "kB")
    yield told("supervisor's peak memory", [cost.peak / 1e6], "MB")
    yield told("of it while items ran", [max(look.resident for look in watch.looks if look.results < items) / 1e6], "MB")
    first, last = fifth(watch.looks, items, 0), fifth(watch.looks, items, 4)
    yield at_least("items a second, last fifth against first", [pace(last) / pace(first)], 0.8, "")
    yield at_most("supervisor CPU an item, last fifth against first", [per_item(last) / per_item(first)], 1.15, "")
    yield from _verified(bench)


def fifth(looks: Sequence[Look], items: int, number: int) -> tuple[Look, Look]:
    """The looks at the beginning and the end of one fifth of the items."""
    inside = [look for look in looks if number * items <= 5 * look.results <= (number + 1) * items]
    # A fifth begins when the first result is there, not while the server starts.
    inside = [look for look in inside if 0 < look.results < items]
    return inside[0], inside[-1]


def pace(ends: tuple[Look, Look]) -> float:
    """Items a second between two looks."""
    return (ends[1].results - ends[0].results) / (ends[1].at - ends[0].at)


def per_item(ends: tuple[Look, Look]) -> float:
    """Seconds of the supervisor's processor time for each item between two looks."""
    return (ends[1].cpu - ends[0].cpu) / (ends[1].results - ends[0].results)


def _verified(bench: Bench) -> Iterator[Finding]:
    began = time.monotonic()
    words = [*bench.command, "eval", "verify", "large", "--json"]
    said = subprocess.run(words, cwd=bench.root, env=bench.environment, capture_output=True, check=False)
    found = json.loads(said.stdout or b"{}")
    problems = len(found.get("resource", {}).get("findings", ())) if said.returncode == 0 else 1
    yield at_most("what `eval verify` finds amiss", [problems], 0, "")
    yield told("seconds that it takes", [time.monotonic() - began], "s")
