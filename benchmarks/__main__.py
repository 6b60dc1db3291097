"""All benchmarks, or those named: `just bench [NAME ...] [--rounds N] [--large] [--output FILE] [--record]`.

Trust the ratios, not the times: sides take turns in the same minutes, and the middle of the rounds counts. Findings go to
standard output as a table, to `--output` as JSON, and to `.benchmarks/history.jsonl`, one line a benchmark; `--record` keeps
them in `benchmarks/findings.json` and makes the tables of `benchmarks/README.md` of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.measuring import TICKS, Options, new_file_microseconds
from benchmarks.record import Entry, Record, conditions, read_record, write_record

ROOT = Path(__file__).resolve().parent.parent
HISTORY = ROOT / ".benchmarks" / "history.jsonl"

BENCHMARKS = {
    "runs": ("whole_runs", "whole runs beside the public package: start, dispatch, processor time, bytes, memory"),
    "start_up": ("start_up", "what `osmosis --version` and `osmosis eval run --help` cost, beside the public command"),
    "peers": ("peers", "whole commands beside promptfoo, Inspect, lm-eval and bare LiteLLM"),
    "data": ("data", "dataset, digest, journal, index, redaction, each in a process of its own"),
    "bridge": ("bridge", "the model bridge beside raw aiohttp and LiteLLM"),
    "server": ("rollout_server", "the rollout server's processor time beside the public one's"),
    "large": ("large_run", "a run of 100,000 items: files, memory, and whether it slows down; with --large, else a small one"),
    "kill": ("after_kill", "which model calls a run makes again after kill -9 and a resume"),
    "judge": ("judge_throughput", "judgements beside LiteLLM"),
}
"""Name: the module, whose `measure(options)` returns findings, and what it measures."""


def main() -> None:
    """Measure, print, keep."""
    listed = "\n".join(f"    {name:10} {what}" for name, (_, what) in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter, prog="just bench"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2, help="of the full size of files, for the data paths [0.2]")
    parser.add_argument("--large", action="store_true", help="also what takes many minutes")
    parser.add_argument("--output", type=Path, help="write the findings here as JSON")
    parser.add_argument("--record", action="store_true", help="keep the findings with the code")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    options = Options(given.rounds, given.share, given.large)
    record: Record = {}
    for name in given.names or BENCHMARKS:
        record[name] = _measured(name, options)
        _print(name, record[name])
        _keep(name, record[name])
    if given.output is not None:
        given.output.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    if given.record:
        write_record(read_record() | record)
    sys.exit(any(finding.met is False for entry in record.values() for finding in entry.findings))


def _measured(name: str, options: Options) -> Entry:
    module, new_file = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}"), new_file_microseconds()
    load, began, busy, own = os.getloadavg()[0], time.monotonic(), _busy_seconds(), _own_seconds()
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    findings = tuple(module.measure(options))
    others = (_busy_seconds() - busy - (_own_seconds() - own)) / (time.monotonic() - began)
    return Entry(
        at=at,
        commit=_commit(),
        python=platform.python_version(),
        cores=os.cpu_count() or 1,
        load=round(load, 2),
        others=max(0.0, round(others, 2)),
        new_file=round(new_file, 1),
        rounds=options.rounds,
        findings=findings,
    )


def _busy_seconds() -> float:
    """Processor time of everything on this machine since its start."""
    user, nice, system, _, _, interrupts, soft, steal, *_ = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, interrupts, soft, steal))) / TICKS


def _own_seconds() -> float:
    """Processor time of this process and of all that it has buried."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short=9", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def _print(name: str, entry: Entry) -> None:
    print(f"\n{name}: {conditions(entry)}")
    for finding in entry.findings:
        verdict = {True: "met", False: "MISSED", None: ""}[finding.met]
        spread = f"{finding.low:.4g} to {finding.high:.4g}"
        print(f"{finding.name:62} {finding.value:>8.4g} {finding.unit:5} {spread:20} {finding.bar:14} {verdict}", flush=True)


def _keep(name: str, entry: Entry) -> None:
    HISTORY.parent.mkdir(exist_ok=True)
    with HISTORY.open("a") as file:
        file.write(json.dumps({"benchmark": name, **msgspec.to_builtins(entry)}) + "\n")


if __name__ == "__main__":
    main()
