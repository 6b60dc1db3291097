"""A thousand judgements at 32 in flight: exact accounting, bounded in flight, bounded memory (issue 7, must-show 4).

How fast they are beside LiteLLM is for `benchmarks/judge_throughput.py` to print and for no test to assert.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_thousand_judgements_are_counted_exactly_within_their_bounds():
    """Every call is made once and counted once by both sides, at most 32 at a time, in a few megabytes."""
    words = [sys.executable, "-m", "benchmarks.judge_throughput", "--count", "1000", "--in-flight", "32"]
    finished = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=1800)
    turn = json.loads(finished.stdout)["turn"]
    assert (turn["scores"], turn["calls"], turn["total_tokens"]) == (1000, 1000, 420_000)
    assert turn["stub"]["calls"] == 1000
    assert 1 < turn["stub"]["most_in_flight"] <= 32
    # The candidates alone are a megabyte; what is in flight and the outcomes come on top.
    assert json.loads(finished.stdout)["peak_bytes"] < 16 * 2**20
