"""Intervals at size: the same bytes on any number of threads, and ten million rows in bounded memory (issue 8)."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, json, resource, sys
import polars as pl
from osmosis.pure.canonical import pretty_json
from osmosis.pure.metrics import summarize, summary_object
size = int(sys.argv[1])
mixed = pl.int_range(size).hash(7)
frame = pl.select(
    row_index=pl.int_range(size) // 4,
    run_index=pl.int_range(size) % 4,
    status=pl.when(mixed % 17 == 0).then(pl.lit("failed")).when(mixed % 17 == 1).then(pl.lit("skipped")).otherwise(
        pl.lit("success")
    ),
    reward=(mixed % 1_000_003) / 1_000_003,
    tokens=(mixed % 4096).cast(pl.Int64),
    error_type=pl.when(mixed % 17 == 0).then(pl.lit("http_error")),
).sample(fraction=1, shuffle=True, seed=int(sys.argv[2]))
summary = summarize(frame, 0.5, seed="xxh3-128:v1:0", planned=size + 1)
document = summary_object(summary)
digest = hashlib.sha256(pretty_json(document)).hexdigest()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([pl.thread_pool_size(), digest, document["counts"], document["uncertainty"]["pass_rate"], peak]))
"""


def measured(size, threads):
    """(threads of polars, digest of all numbers, counts, pass rate, peak memory in kB) in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(size), str(threads)],
        env=os.environ | {"POLARS_MAX_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
        timeout=3600,
    )
    return json.loads(child.stdout)


def test_one_thread_and_four_give_the_same_bytes():
    """The same samples in another order, on another number of threads: the same intervals to the last byte."""
    one, four = measured(400_000, 1), measured(400_000, 4)
    assert (one[0], four[0]) == (1, 4)
    assert one[1] == four[1]


@pytest.mark.slow
def test_ten_million_rows():
    """Every sample is counted, rows are the units, and 3 GB are enough."""
    _, _, counts, pass_rate, peak = measured(10_000_000, 2)
    assert counts["planned"] == 10_000_001
    assert counts["success"] + counts["failed"] + counts["skipped"] == 10_000_000
    assert counts["pending"] == 1
    assert 2_490_000 < pass_rate["units"] <= 2_500_000
    assert peak < 3_000_000 * (1 if sys.platform != "darwin" else 1024)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >= peak
