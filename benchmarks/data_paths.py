"""What data takes through one process: dataset, digest, journal, index, redaction; each beside its bar or a plain loop.

Each measurement has a process of its own, so that its memory is its own too; it prints one JSON object of figures.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MEGABYTE = 1_000_000
ROW = {"user_prompt": "What is 2*2? " + "x" * 430, "ground_truth": "4"}
"""About 500 bytes as a line of JSON."""


def _write(path: Path, size: int, chunk: bytes) -> int:
    with path.open("wb") as file:
        for _ in range(size // len(chunk)):
            file.write(chunk)
    return path.stat().st_size


def dataset(root: Path, size: int) -> dict[str, float]:
    """`dataset_rows.jsonl` from a JSONL dataset of 500-byte rows, end to end."""
    from osmosis.pure.dataset_rows import encode_dataset_rows  # noqa: PLC0415 - each process imports what it measures
    from osmosis.shell.evaluation.dataset_file import read_dataset  # noqa: PLC0415

    path = root / "rows.jsonl"
    written = _write(path, size, (json.dumps(ROW) + "\n").encode() * 1000)
    began, spent = time.perf_counter(), time.process_time()
    loaded = read_dataset(path, rows=None, limit=None)
    with (root / "dataset_rows.jsonl").open("wb") as file:
        for chunk in encode_dataset_rows(loaded.rows):
            file.write(chunk)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"MB/s": written / wall / MEGABYTE, "MB a CPU second": written / cpu / MEGABYTE}


def digest(root: Path, size: int) -> dict[str, float]:
    """The digest of a dataset file beside a plain read loop, which takes turns with it."""
    from osmosis.pure.digest import ContentHasher  # noqa: PLC0415
    from osmosis.shell.evaluation import dataset_file  # noqa: PLC0415

    path = root / "large.bin"
    written = _write(path, size, bytes(range(256)) * 4096)

    def plain() -> None:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass

    def ours() -> None:
        with path.open("rb") as file:
            hasher = ContentHasher()
            for _ in dataset_file.hashed_chunks(file, hasher):
                pass

    times = {"plain": _fastest(plain, 3), "digest": _fastest(ours, 3)}
    return {"of a plain read loop": times["plain"] / times["digest"], "MB/s": written / times["digest"] / MEGABYTE}


def resume(root: Path, records: int) -> dict[str, float]:
    """From a journal of that many records to what is left to run."""
    from osmosis.pure.journal import Attempt, InvocationStarted, Result, Status, WorkItem, encode_record  # noqa: PLC0415
    from osmosis.pure.plan import work_items  # noqa: PLC0415
    from osmosis.pure.resume import workload  # noqa: PLC0415
    from osmosis.pure.usage import CallUsage  # noqa: PLC0415
    from osmosis.shell.evaluation.journal_file import read_journal  # noqa: PLC0415

    at = "2026-11-30T12:35:44.521865Z"
    items = records // 2
    path = root / "events.jsonl"
    calls = (CallUsage(12, 1, 13),)
    with path.open("wb") as file:
        file.write(encode_record(InvocationStarted("a" * 32, at, "0.3.10"), 1))
        for number in range(items):
            item, name = WorkItem(number, 0), f"{number:032x}"
            result = Result(item, number, name, Status.SUCCESS, at, 10.5, reward=1.0, calls=calls)
            file.write(encode_record(Attempt(item, name, 1, at), 2 * number + 2) + encode_record(result, 2 * number + 3))
    began, spent = time.perf_counter(), time.process_time()
    reading = read_journal(path, items + 10)
    work = workload(work_items(items + 10, 1), reading.history, retry_failed=False)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    assert work.size == 10
    return {"seconds": wall, "CPU seconds": cpu}


def metrics(root: Path, rows: int) -> dict[str, float]:
    """From index rows to `metrics.json`."""
    from osmosis.pure.index import IndexRow  # noqa: PLC0415
    from osmosis.pure.journal import Status  # noqa: PLC0415
    from osmosis.pure.metrics import index_frame, summarize  # noqa: PLC0415

    records = [
        IndexRow(
            row_index=number // 4,
            run_index=number % 4,
            rollout_id=f"{number:032x}",
            trajectory_filename="trajectory.json",
            status=Status.SUCCESS if number % 7 else Status.FAILED,
            reward=(number % 11) / 10 if number % 7 else None,
            tokens=100 + number % 50,
            max_context_tokens=90,
            duration_ms=10.0 + number % 100,
            error_type=None if number % 7 else "agent_error",
        )
        for number in range(rows)
    ]
    began = time.perf_counter()
    frame = index_frame(records)
    framed = time.perf_counter()
    summarize(frame, 0.5, seed="s", planned=rows)
    return {"seconds": time.perf_counter() - began, "of these for the frame": framed - began}


def redaction(root: Path, size: int) -> dict[str, float]:
    """A log stream with 50 secrets, each in all its spellings, of which some occur."""
    from osmosis.pure.redaction import Redactor  # noqa: PLC0415

    secrets = [f"sk-{number:02d}-ZxY/{'q' * (number % 9)}+{number * 7919:024d}=" for number in range(50)]
    line = "2026-11-30T12:35:44Z INFO [rollout-server] row 17 run 3 asked the model and got an answer of 312 tokens in 1.8 s\n"
    chunk = (line * 80 + f"Authorization: Bearer {secrets[7]}\n") * 7
    redactor = Redactor(secrets)
    redactor.text("warm")
    stream = redactor.stream()
    began, spent, done = time.perf_counter(), time.process_time(), 0
    while done < size:
        stream.feed(chunk)
        done += len(chunk)
    stream.finish("")
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"MB/s": done / wall / MEGABYTE, "MB a CPU second": done / cpu / MEGABYTE}


def _fastest(work: Callable[[], None], times: int) -> float:
    def each() -> Iterator[float]:
        for _ in range(times):
            began = time.perf_counter()
            work()
            yield time.perf_counter() - began

    return min(each())


MEASUREMENTS: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "dataset": dataset,
    "digest": digest,
    "resume": resume,
    "metrics": metrics,
    "redaction": redaction,
}


def main() -> None:
    """`data_paths.py NAME DIRECTORY SIZE`: one measurement, in this process."""
    name, directory, size = sys.argv[1:]
    figures = MEASUREMENTS[name](Path(directory), int(size))
    figures["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
