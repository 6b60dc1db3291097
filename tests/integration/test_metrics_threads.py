"""The bytes of the metrics do not depend on how many threads polars runs."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys
import polars as pl
from osmosis.pure.metrics import summarize
mixed = pl.int_range(300_000).hash(7)
frame = pl.select(
    row_index=pl.int_range(300_000) // 3,
    run_index=pl.int_range(300_000) % 3,
    status=pl.when(mixed % 17 == 0).then(pl.lit("failed")).otherwise(pl.lit("success")),
    reward=(mixed % 1_000_003) / 1_000_003,
    tokens=(mixed % 4096).cast(pl.Int64),
)
print(pl.thread_pool_size(), file=sys.stderr)
print(summarize(frame.sample(fraction=1, shuffle=True, seed=int(sys.argv[1])), 0.5))
"""


def summary_with_threads(threads: int) -> tuple[str, str]:
    """(number of threads that polars has, the summary) in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads)],
        env=os.environ | {"POLARS_MAX_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return child.stderr.strip(), child.stdout


def test_one_thread_and_four_give_the_same_bytes():
    """The same rows in another order, on another number of threads: the same summary."""
    one, four = summary_with_threads(1), summary_with_threads(4)
    assert (one[0], four[0]) == ("1", "4")
    assert one[1] == four[1]
    assert "pass_hat_k=(PassPoint" in one[1]
