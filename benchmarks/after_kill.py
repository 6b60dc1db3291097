"""A run is killed (`SIGKILL`) in the middle and resumed: which model calls are made a second time?

Only those whose results were not durable yet, and never more than were in flight. The model counts how often each row's
question is asked; the journal that the dead supervisor left says which results are durable. The points are random, and the
same each time, so that a miss can be looked at again.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping

import msgspec

from benchmarks.measuring import Finding, Options, at_least, at_most, run, scratch, told
from benchmarks.run_workspace import Bench, our_bench
from benchmarks.stub_model import StubModel, stub_model
from osmosis.shell.evaluation.journal_file import read_journal

ROWS = 400
RUNS = 2
ITEMS = ROWS * RUNS
IN_FLIGHT = 64
ANSWER_SECONDS = 0.2
"""As long as a quick model takes, so that a kill finds calls on their way."""

_PATIENCE = 300.0


class Killed(msgspec.Struct, frozen=True):
    """One run that was killed once. `called`: model calls before the kill; `durable`: results in the journal then; `repeated`:
    calls beyond one an item when all was done; `needless`: calls of the resume for a row beyond the results that it lacked."""

    called: int
    durable: int
    repeated: int
    needless: int

    @property
    def in_flight(self) -> int:
        """Calls whose results were lost."""
        return self.called - self.durable


def measure(options: Options) -> list[Finding]:
    """All findings; twice as many kills as rounds."""
    points = random.Random(6)  # noqa: S311 - chosen once, to be the same each time
    with stub_model(ANSWER_SECONDS) as model:
        root = scratch()
        bench = our_bench(root / "ours", model.url, runs=RUNS)
        killed = [_killed(bench, model, f"run-{number}", points.randrange(1, ITEMS)) for number in range(2 * options.rounds)]
    return [
        told("model calls before the kill", [one.called for one in killed], ""),
        told("of these, with a durable result", [one.durable for one in killed], ""),
        at_least("calls in flight at the kill", [one.in_flight for one in killed], 1, ""),
        at_most("model calls made again after the resume", [one.repeated for one in killed], IN_FLIGHT, ""),
        at_most("most of them in any run", [max(one.repeated for one in killed)], IN_FLIGHT, ""),
        at_most("calls for a row beyond the results that it lacked", [max(one.needless for one in killed)], 0, ""),
    ]


def _killed(bench: Bench, model: StubModel, name: str, point: int) -> Killed:
    """Kill a new run after `point` model calls and resume it to its end."""
    before = model.questions()
    words, log = bench.words(name, bench.write_dataset(ROWS)), bench.root / "output.log"
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            words, cwd=bench.root, env=bench.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        deadline = time.monotonic() + _PATIENCE
        while (asked := _since(before, model)).total() < point:
            if supervisor.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the run did not reach {point} calls:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.002)
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()
    asked = _since(before, model)
    durable = Counter(
        item.row_index for item in read_journal(bench.run_directory(name) / "events.jsonl", ITEMS).history.results
    )
    resumed = run(words, bench.root, bench.environment, log)
    if resumed.code != 0:
        raise RuntimeError(f"the resume ended with exit code {resumed.code}:\n{resumed.output[-4000:]}")
    total = _since(before, model)
    needless = sum(max(0, total[row] - asked[row] - (RUNS - durable[row])) for row in range(ROWS))
    return Killed(asked.total(), durable.total(), total.total() - ITEMS, needless)


def _since(before: Mapping[str, int], model: StubModel) -> Counter[int]:
    """How often each row was asked since then."""
    counts = {question: count - before.get(question, 0) for question, count in model.questions().items()}
    return Counter({int(question.rpartition("(")[2].rstrip(")")): count for question, count in counts.items()})
