"""Random requests and counts of the command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import strategies as st

from osmosis.pure.journal import Status, WorkItem
from osmosis.pure.report import ItemFinished, Progress
from osmosis.pure.scoreboard import SlowItem, Standing
from osmosis.shell.cli.invocation import Invocation
from osmosis.shell.cli.modes import Mode
from osmosis.shell.evaluation.request import RunRequest
from tests.strategies.cli_reports import WORKSPACE

counts = st.integers(0, 10_000_000)
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
paths = words.map(Path)
ports = st.integers(1, 65535)
rewards = st.floats(-10, 10) | st.none()

requests = st.builds(
    RunRequest,
    config_path=paths,
    working_directory=st.just(Path(WORKSPACE)),
    name=words | st.none(),
    output=paths | st.none(),
    dataset_file=paths | st.none(),
    secrets_file=words.filter(lambda word: not word.startswith("-")) | st.just("-") | st.none(),
    rows=words | st.none(),
    fresh=st.booleans(),
    retry_failed=st.booleans(),
    max_in_flight=st.integers(1, 1000) | st.none(),
    record=paths | st.none(),
    rollout_port=ports | st.none(),
    listener_port=ports | st.none(),
)
invocations = st.builds(
    Invocation, request=requests, yes=st.booleans(), verbose=st.booleans(), events=st.booleans(), mode=st.sampled_from(Mode)
)


run_items = st.builds(WorkItem, st.integers(0, 9999), st.integers(0, 9))


@st.composite
def progresses(draw: st.DrawFn) -> Progress:
    """Counts that add up."""
    succeeded, failed, skipped = draw(counts), draw(counts), draw(counts)
    done = succeeded + failed + skipped
    total = done + draw(counts)
    return Progress(
        total=total,
        done=done,
        succeeded=succeeded,
        failed=failed,
        skipped=skipped,
        scored=succeeded + failed,
        passed=draw(st.integers(0, succeeded)),
        in_flight=draw(st.integers(0, min(64, total - done))),
        tokens=draw(counts),
        working=tuple(draw(st.lists(run_items, max_size=4, unique=True))),
    )


items = st.builds(
    ItemFinished,
    item=run_items,
    source_row_index=st.integers(0, 9999),
    rollout_id=words,
    status=st.sampled_from(Status),
    reward=rewards,
    error_type=st.text(max_size=30) | st.none(),
    duration_ms=st.floats(0, 1e9),
    passed=st.booleans(),
    tokens=st.integers(0, 10**7) | st.none(),
    cost_usd=st.floats(0, 1000) | st.none(),
).map(lambda item: msgspec.structs.replace(item, passed=item.passed and item.status is Status.SUCCESS))

slow_items = st.builds(SlowItem, run_items, st.floats(0, 1e9), st.booleans())
standings = st.builds(
    Standing,
    progress=progresses(),
    elapsed_s=st.floats(0, 1e6),
    left_s=st.floats(0, 1e6) | st.none(),
    low=st.floats(0, 0.5) | st.none(),
    high=st.floats(0.5, 1) | st.none(),
    failures=st.lists(st.tuples(st.text(max_size=60), st.integers(1, 10**6)), max_size=6).map(tuple),
    cost_usd=st.floats(0, 1e6) | st.none(),
    unpriced=st.integers(0, 3),
    slowest=st.lists(slow_items, max_size=5).map(tuple),
)
