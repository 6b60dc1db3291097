"""Properties of `metrics.json` (E16)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.errors import OsmosisError
from osmosis.pure.metrics import index_frame, summarize
from osmosis.pure.metrics_file import EvalRunInfo, EvalRunStatus, Metrics, decode_metrics, encode_metrics
from tests.strategies.numbers import index_rows, thresholds

text = st.text(st.characters(exclude_categories=["Cs"]))
runs = st.builds(
    EvalRunInfo,
    id=text,
    status=st.sampled_from(EvalRunStatus),
    name=text,
    dataset_name=text,
    model_name=text,
    rollout_name=text,
    duration_ms=st.floats(0, 1e12),
    started_at=text,
    completed_at=st.none() | text,
)
EXAMPLE = EvalRunInfo("0" * 32, EvalRunStatus.RUNNING, "n", "d", "m", "r", 0.0, "2026-11-30T12:35:44.521865Z")


@given(runs, index_rows, thresholds)
def test_round_trip(run, rows, threshold):
    """What is written is read back equal, and written again to the same bytes."""
    metrics = Metrics(run, summarize(index_frame(rows), threshold))
    data = encode_metrics(metrics.eval_run, metrics.summary)
    assert decode_metrics(data, "metrics.json") == metrics
    assert encode_metrics(*(getattr(decode_metrics(data, "m"), name) for name in ("eval_run", "summary"))) == data


def test_truncated_anywhere_is_an_error_that_names_the_file():
    """Every true prefix of the file is refused cleanly; only the final newline may be missing."""
    data = encode_metrics(EXAMPLE, summarize(index_frame([]), 1.0))
    for length in range(len(data) - 1):
        with pytest.raises(OsmosisError, match=r"metrics\.json"):
            decode_metrics(data[:length], "metrics.json")
    assert decode_metrics(data[:-1], "metrics.json") == decode_metrics(data, "metrics.json")


def test_unknown_keys_are_ignored():
    """A later version may add keys; this one still reads the file."""
    data = encode_metrics(EXAMPLE, summarize(index_frame([]), 1.0))
    later = data.replace(b'"summary": {', b'"summary": {"interval": null, ', 1)
    assert later != data
    assert decode_metrics(later, "m") == decode_metrics(data, "m")
