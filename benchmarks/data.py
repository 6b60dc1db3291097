"""Each data path (`data_paths.py`) in a process of its own, beside its bars."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import Finding, Options, at_least, at_most, told

ROOT = Path(__file__).resolve().parent.parent


class _Bar(NamedTuple):
    judge: Callable[..., Finding]
    bar: float | None
    unit: str


_DATA: dict[str, tuple[int, dict[str, _Bar]]] = {
    "dataset": (
        1_000_000_000,
        {
            "MB/s": _Bar(at_least, 150.0, "MB/s"),
            "MB a CPU second": _Bar(told, None, "MB/s"),
            "MB more at the peak than for a quarter of the file": _Bar(at_most, 10.0, "MB"),
        },
    ),
    "digest": (
        5_000_000_000,
        {
            "fingerprint, warm: of a plain read loop": _Bar(at_least, 0.8, ""),
            "fingerprint, cold: of a plain read loop": _Bar(at_least, 0.8, ""),
            "first run: of its pass without digests": _Bar(at_least, 0.8, ""),
            "with SHA-256, warm: of a plain read loop": _Bar(told, None, ""),
            "with SHA-256, cold: of a plain read loop": _Bar(told, None, ""),
            "with SHA-256, warm: of SHA-256 alone": _Bar(told, None, ""),
            "plain read loop, warm: MB/s": _Bar(told, None, "MB/s"),
            "plain read loop, cold: MB/s": _Bar(told, None, "MB/s"),
        },
    ),
    "resume": (1_000_000, {"seconds": _Bar(at_most, 3.0, "s"), "CPU seconds": _Bar(told, None, "s")}),
    "metrics": (
        1_000_000,
        {
            "seconds": _Bar(at_most, 2.0, "s"),
            "CPU seconds": _Bar(told, None, "s"),
            "seconds, from the bytes of index.jsonl": _Bar(told, None, "s"),
        },
    ),
    "redaction": (
        1_000_000_000,
        {"MB/s": _Bar(at_least, 100.0, "MB/s"), "MB a CPU second": _Bar(told, None, "MB/s")},
    ),
}
_PEAKS = {"resume": 1000.0}
"""Bars on the memory of a whole process, in MB."""


def measure(options: Options) -> list[Finding]:
    """Each data path on `options.share` of its full size."""
    findings = []
    for name, (size, bars) in _DATA.items():
        # The bars of the journal and of the metrics are times, so those keep their size.
        scaled = size if name in ("resume", "metrics") else int(size * options.share)
        figures = [_data_path(name, scaled) for _ in range(options.rounds)]
        for figure, (judge, bar, unit) in bars.items():
            values = [found[figure] for found in figures]
            words = (f"{name}: {figure}", values, *(() if bar is None else (bar,)), unit)
            findings.append(judge(*words))
        peaks = [found["peak MB"] for found in figures]
        findings.append(
            at_most(f"{name}: peak", peaks, _PEAKS[name], "MB") if name in _PEAKS else told(f"{name}: peak", peaks, "MB")
        )
    return findings


def _data_path(name: str, size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="osmosis-bench-") as directory:
        command = [sys.executable, "-m", "benchmarks.data_paths", name, directory, str(size)]
        output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    figures: dict[str, float] = json.loads(output)
    return figures
