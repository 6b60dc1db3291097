"""All benchmarks, or those named: `just bench [NAME ...] [--rounds N] [--large] [--output FILE]`.

    runs       whole runs beside the public package: start, dispatch, processor time, bytes, memory
    data       dataset, digest, journal, index, redaction
    bridge     the model bridge beside raw aiohttp and LiteLLM
    server     the rollout server beside the public one
    judge      judgements beside LiteLLM

Trust the ratios, not the times: sides take turns in the same minutes, and the middle of the rounds counts. Findings go to
standard output as a table, to `--output` as JSON, and to `.benchmarks/history.jsonl`, one line a command.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import whole_runs
from benchmarks.measuring import Finding, at_least, at_most, told

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ROOT / ".benchmarks" / "history.jsonl"


class _Bar(NamedTuple):
    judge: Callable[..., Finding]
    bar: float | None
    unit: str


_DATA: dict[str, tuple[int, dict[str, _Bar]]] = {
    "dataset": (1_000_000_000, {"MB/s": _Bar(at_least, 150.0, "MB/s"), "MB a CPU second": _Bar(told, None, "MB/s")}),
    "digest": (5_000_000_000, {"of a plain read loop": _Bar(at_least, 0.8, "")}),
    "resume": (1_000_000, {"seconds": _Bar(at_most, 3.0, "s"), "CPU seconds": _Bar(told, None, "s")}),
    "metrics": (1_000_000, {"seconds": _Bar(at_most, 2.0, "s")}),
    "redaction": (1_000_000_000, {"MB/s": _Bar(at_least, 100.0, "MB/s")}),
}
_PEAKS = {"resume": 1000.0}
"""Bars on the memory of a whole process, in MB."""


def data_paths(rounds: int, share: float) -> list[Finding]:
    """Each data path in a process of its own, on `share` of its full size."""
    findings = []
    for name, (size, bars) in _DATA.items():
        # The bars of the journal and of the metrics are times, so those keep their size.
        scaled = size if name in ("resume", "metrics") else int(size * share)
        figures = [_data_path(name, scaled) for _ in range(rounds)]
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


def _script(name: str) -> None:
    """A benchmark that judges for itself and says so."""
    subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name)], cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


_SCRIPTS = {"bridge": "bridge.py", "server": "rollout_server.py", "judge": "judge_throughput.py"}


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(('runs', 'data', *_SCRIPTS))}; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2, help="of the full size of files, for the data paths [0.2]")
    parser.add_argument("--large", action="store_true", help="also a run of 20,000 items, which takes minutes")
    parser.add_argument("--output", type=Path, help="write the findings here as JSON")
    options = parser.parse_args()
    names = options.names or ["runs", "data", *_SCRIPTS]
    if unknown := set(names) - {"runs", "data", *_SCRIPTS}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    load = os.getloadavg()[0]
    findings: list[Finding] = []
    if "runs" in names:
        _make_public_environment()
        findings += whole_runs.measure(options.rounds, large=options.large)
    if "data" in names:
        findings += data_paths(options.rounds, options.share)
    _print(findings, load)
    for name in names:
        if name in _SCRIPTS:
            print(f"\n{name}:", flush=True)
            _script(_SCRIPTS[name])
    _keep(findings, load, options.output)
    sys.exit(any(finding.met is False for finding in findings))


def _make_public_environment() -> None:
    """The public package, in an environment of its own; without it, the ratios are left out."""
    made = subprocess.run([sys.executable, str(ROOT / "scripts" / "interop_env.py")], check=False, stdout=subprocess.DEVNULL)
    if made.returncode != 0:
        print("the public package cannot be installed here: its columns are left out", file=sys.stderr)


def _print(findings: list[Finding], load: float) -> None:
    print(f"{os.cpu_count()} cores, load {load:.1f} at the start")
    for finding in findings:
        verdict = {True: "met", False: "MISSED", None: ""}[finding.met]
        spread = f"{finding.low:g} to {finding.high:g}"
        print(f"{finding.name:58} {finding.value:>10g} {finding.unit:5} {spread:24} {finding.bar:16} {verdict}")


def _keep(findings: list[Finding], load: float, output: Path | None) -> None:
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(load, 2),
        "findings": msgspec.to_builtins(findings),
    }
    if output is not None:
        output.write_text(json.dumps(document, indent=2) + "\n")
    if findings:
        HISTORY.parent.mkdir(exist_ok=True)
        with HISTORY.open("a") as file:
            file.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
