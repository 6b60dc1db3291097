"""What data takes through one process: dataset, digest, journal, index, redaction; each beside its bar or a plain loop.

Each measurement has a process of its own, so that its memory is its own too; it prints one JSON object of figures.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path

MEGABYTE = 1_000_000
ROW = {"user_prompt": "What is 2*2? " + "x" * 430, "ground_truth": "4"}
"""About 500 bytes as a line of JSON."""
_ROWS = (json.dumps(ROW) + "\n").encode() * 1000


def _write(path: Path, size: int, chunk: bytes) -> int:
    with path.open("wb") as file:
        for _ in range(size // len(chunk)):
            file.write(chunk)
    return path.stat().st_size


def dataset(root: Path, size: int) -> dict[str, float]:
    """`dataset_rows.jsonl` from a JSONL dataset of 500-byte rows, end to end; a quarter of it first, to compare the memory."""
    from osmosis.pure.dataset_rows import encode_dataset_rows  # noqa: PLC0415 - each process imports what it measures
    from osmosis.shell.evaluation.dataset_file import read_dataset  # noqa: PLC0415

    def write_rows(path: Path) -> None:
        loaded = read_dataset(path, rows=None, limit=None)
        with (root / "dataset_rows.jsonl").open("wb") as file:
            for chunk in encode_dataset_rows(loaded.rows):
                file.write(chunk)

    path = root / "rows.jsonl"
    _write(path, size // 4, _ROWS)
    write_rows(path)
    peak = _peak()
    written = _write(path, size, _ROWS)
    began, spent = time.perf_counter(), time.process_time()
    write_rows(path)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {
        "MB/s": written / wall / MEGABYTE,
        "MB a CPU second": written / cpu / MEGABYTE,
        "MB more at the peak than for a quarter of the file": _peak() - peak,
    }


def digest(root: Path, size: int) -> dict[str, float]:
    """The digests of a dataset file beside a plain read loop, which takes turns with them, out of the page cache and out of a
    cold one: the fingerprint that decides, and both digests, beside SHA-256 of what is in memory already. Then what both
    digests cost where both are taken: in a first run's pass over its rows, beside the same pass without any."""
    from osmosis.pure.digest import ContentHasher, FingerprintHasher  # noqa: PLC0415
    from osmosis.shell.evaluation.file_digest import take_in  # noqa: PLC0415

    path = root / "large.bin"
    written = _write(path, size, random.Random(0).randbytes(1 << 20))  # noqa: S311 - bytes, no secrets
    part = bytes(1 << 20)

    def plain() -> None:
        with FileIO(path) as file:
            while file.read(1 << 20):
                pass

    def hashed(hasher: FingerprintHasher) -> None:
        with FileIO(path) as file:
            take_in(file, hasher)

    def sha256_alone() -> None:
        hasher = hashlib.sha256()
        for _ in range(written // len(part)):
            hasher.update(part)

    sides: dict[str, Callable[[], None]] = {
        "plain": plain,
        "fingerprint": lambda: hashed(FingerprintHasher()),
        "with SHA-256": lambda: hashed(ContentHasher()),
        "SHA-256 alone": sha256_alone,
    }
    figures: dict[str, float] = {}
    for cache in ("warm", "cold"):
        times = _in_turn(sides, 5 if cache == "warm" else 3, (lambda: None) if cache == "warm" else (lambda: _forget(path)))
        for side in ("fingerprint", "with SHA-256"):
            pairs = zip(times["plain"], times[side], strict=True)
            figures[f"{side}, {cache}: of a plain read loop"] = statistics.median(ours / mine for ours, mine in pairs)
            figures[f"{side}, {cache}: MB/s"] = written / min(times[side]) / MEGABYTE
        figures[f"plain read loop, {cache}: MB/s"] = written / min(times["plain"]) / MEGABYTE
        pairs = zip(times["SHA-256 alone"], times["with SHA-256"], strict=True)
        figures[f"with SHA-256, {cache}: of SHA-256 alone"] = statistics.median(alone / mine for alone, mine in pairs)
    path.unlink()
    return figures | _digests_of_a_first_run(root / "rows.jsonl", size // 5)


def _digests_of_a_first_run(path: Path, size: int) -> dict[str, float]:
    from osmosis.pure.dataset_formats import JSONL  # noqa: PLC0415
    from osmosis.pure.dataset_survey import DatasetSurvey  # noqa: PLC0415
    from osmosis.shell.evaluation.dataset_file import read_dataset  # noqa: PLC0415
    from osmosis.shell.evaluation.file_digest import CHUNK_BYTES  # noqa: PLC0415
    from osmosis.shell.evaluation.stored_rows import store_rows  # noqa: PLC0415

    _write(path, size, _ROWS)

    def without() -> None:
        with FileIO(path) as file:
            survey = DatasetSurvey(rows=None, limit=None, label=path.name)
            store_rows(JSONL.read(iter(lambda: file.read(CHUNK_BYTES), b""), path.name), survey, JSONL, file, path.name)

    times = _in_turn({"without": without, "with": lambda: read_dataset(path, rows=None, limit=None) and None}, 3, lambda: None)
    pairs = zip(times["without"], times["with"], strict=True)
    return {"first run: of its pass without digests": statistics.median(bare / full for bare, full in pairs)}


def _forget(path: Path) -> None:
    """Have the page cache give the file back."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _in_turn(sides: Mapping[str, Callable[[], None]], times: int, before: Callable[[], None]) -> dict[str, list[float]]:
    """The seconds of each side, round by round; every other round the other way round."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(times):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            before()
            began = time.perf_counter()
            sides[name]()
            taken[name].append(time.perf_counter() - began)
    return taken


def resume(root: Path, records: int) -> dict[str, float]:
    """From a journal of that many records to what is left to run. Results name the files of their trials, as a run's do."""
    from osmosis.pure.evidence import Evidence  # noqa: PLC0415
    from osmosis.pure.journal import Attempt, InvocationStarted, Result, Status, WorkItem, encode_record  # noqa: PLC0415
    from osmosis.pure.plan import work_items  # noqa: PLC0415
    from osmosis.pure.resume import workload  # noqa: PLC0415
    from osmosis.pure.usage import CallUsage  # noqa: PLC0415
    from osmosis.shell.evaluation.journal_file import read_journal  # noqa: PLC0415

    at = "2026-11-30T12:35:44.521865Z"
    items = records // 2
    path = root / "events.jsonl"
    calls = (CallUsage(12, 1, 13),)
    evidence = Evidence(files={"sample.json": "fe798f2716ba81d9", "trajectory.json": "9e3a50dd74e697a0"})
    with path.open("wb") as file:
        file.write(encode_record(InvocationStarted("a" * 32, at, "0.3.10"), 1))
        for number in range(items):
            item, name = WorkItem(number, 0), f"{number:032x}"
            result = Result(item, number, name, Status.SUCCESS, at, 10.5, reward=1.0, calls=calls)
            file.write(encode_record(Attempt(item, name, 1, at), 2 * number + 2))
            file.write(encode_record(result, 2 * number + 3, evidence))
    began, spent = time.perf_counter(), time.process_time()
    reading = read_journal(path, items + 10)
    work = workload(work_items(items + 10, 1), reading.history, retry_failed=False)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    assert work.size == 10
    return {"seconds": wall, "CPU seconds": cpu}


def metrics(root: Path, rows: int) -> dict[str, float]:
    """From index rows to the numbers of `metrics.json`, as a run ends; and from the bytes of an `index.jsonl`."""
    from osmosis.pure.index import IndexRow, decode_index, encode_index  # noqa: PLC0415
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
    data = encode_index(records)
    began, spent = time.perf_counter(), time.process_time()
    summarize(index_frame(records), 0.5, seed="s", planned=rows)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    del records
    before = time.perf_counter()
    summarize(index_frame(decode_index(data, "index.jsonl")), 0.5, seed="s", planned=rows)
    return {
        "seconds": wall,
        "CPU seconds": cpu,
        "seconds, from the bytes of index.jsonl": time.perf_counter() - before,
    }


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


def _peak() -> float:
    """The most memory that this program has had, in MB. `ru_maxrss` would count what the process was before `exec`, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024 / MEGABYTE


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
    figures["peak MB"] = _peak()
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
