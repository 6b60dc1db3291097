"""Exact bytes of `metrics.json`."""

from __future__ import annotations

import polars as pl
import pytest

from osmosis.pure.metrics import index_frame, summarize
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, decode_metrics, encode_metrics

REWARDS = [1, 1, 0.25, 0.25, 1, 0.25, 0.75, 0.75, 1, 1]


def finished_run() -> bytes:
    """The contract's worked example with every optional key present: 9 rows of two runs, threshold 0.5."""
    frame = pl.DataFrame(
        {
            "row_index": [index // 2 for index in range(18)],
            "run_index": [index % 2 for index in range(18)],
            "status": ["success"] * 10 + ["failed"] * 6 + ["skipped"] * 2,
            "reward": REWARDS + [None] * 8,
            "tokens": [100 + index for index in range(18)],
            "max_context_tokens": [50 + index for index in range(16)] + [None] * 2,
        },
        strict=False,
        schema_overrides={"reward": pl.Float64},
    )
    run = EvalRunInfo(
        id="0123456789abcdef0123456789abcdef",
        status=EvalRunStatus.FINISHED,
        name="brave-otter-042",
        dataset_name="Größen & <数>",
        model_name="openai/gpt-x",
        rollout_name="arithmetic",
        duration_ms=9909.125,
        started_at="2026-11-30T12:35:44.521865Z",
        completed_at="2026-11-30T12:35:54.430990Z",
    )
    return encode_metrics(run, summarize(frame, 0.5))


def fresh_run() -> bytes:
    """A run before its first result: every optional key absent."""
    run = EvalRunInfo("f" * 32, EvalRunStatus.RUNNING, "n", "d", "openai/m", "r", 0.0, "2026-11-30T12:35:44.521865Z")
    return encode_metrics(run, summarize(index_frame([]), 1.0))


@pytest.mark.parametrize("make", [finished_run, fresh_run])
def test_bytes(golden, make):
    """The file is what it was when it was pinned, byte for byte, and reads back."""
    golden(f"metrics/{make.__name__}.json", make())
    metrics = decode_metrics(make(), "metrics.json")
    assert encode_metrics(metrics.eval_run, metrics.summary) == make()
