"""Stored runs, and what they are made of, for everything that compares, judges and exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from osmosis.pure.canonical import well_formed
from osmosis.pure.dataset_rows import DatasetRow
from osmosis.pure.index import index_row
from osmosis.pure.journal import Result, Status, WorkItem
from osmosis.pure.plan import DatasetIdentity, Manifest, Provenance, RolloutIdentity, RunInputs, Timeouts, new_manifest
from osmosis.pure.sample_details import SampleDetails
from osmosis.pure.stored_run import StoredRun
from osmosis.pure.trajectory import encode_trajectory
from osmosis.pure.trajectory_conversion import Conversation, convert_conversation
from osmosis.pure.usage import CallUsage

AT = "2026-11-30T12:35:44.521865Z"
THRESHOLD = 1.0

Cell = float | str | None
"""What became of a sample: its reward, None if it was not graded, "skipped", or the `error_type` of a failure."""


def manifest(
    name: str,
    rows: int,
    runs: int,
    *,
    dataset: str = "0" * 64,
    cassette: str | None = None,
    threshold: float = THRESHOLD,
    local_run_id: str = "a" * 32,
    regraded_from: str | None = None,
) -> Manifest:
    """The manifest of a run of the first `rows` rows of the dataset with that SHA-256."""
    inputs = RunInputs(
        model_path=f"openai/{name}",
        dataset=DatasetIdentity(sha256=dataset, selected_source_rows=f"0-{rows - 1}" if rows > 1 else "0"),
        n=runs,
        pass_threshold=threshold,
        rollout=RolloutIdentity("arithmetic", "main.py", "xxh3-128:v1:" + "0" * 32),
        env={},
        secret_names=(),
        timeouts=Timeouts(None, None),
        cassette=cassette,
        regraded_from=regraded_from,
    )
    provenance = Provenance(sdk_version="0.3.10", dataset_name="arithmetic", total_dataset_rows=rows)
    return new_manifest(inputs=inputs, provenance=provenance, local_run_id=local_run_id, run_name=name, created_at=AT)


def result(item: WorkItem, cell: Cell, *, tokens: int = 10, message: str | None = None) -> Result:
    """The terminal result of an item."""
    status = Status.SUCCESS if not isinstance(cell, str) else Status.SKIPPED if cell == "skipped" else Status.FAILED
    return Result(
        item=item,
        source_row_index=item.row_index,
        rollout_id=f"{item.row_index:016x}{item.run_index:016x}",
        status=status,
        at=AT,
        duration_ms=100.0 + item.row_index,
        reward=cell if isinstance(cell, int | float) else None,
        error_type=str(cell) if status is Status.FAILED else None,
        error_message=message if status is Status.FAILED else None,
        calls=(CallUsage(tokens - 4, 4, tokens),),
    )


def stored_run(
    name: str,
    cells: Sequence[Sequence[Cell]],
    *,
    prompts: Sequence[str] | None = None,
    labels: Sequence[str | None] | None = None,
    tokens: int = 10,
    message: str | None = None,
    planned_runs: int | None = None,
    **manifest_options: Any,
) -> StoredRun:
    """A run whose row r, run k came to `cells[r][k]`. Missing cells of the plan are pending."""
    runs = planned_runs or max(map(len, cells))
    items = [WorkItem(row, run) for row, line in enumerate(cells) for run in range(len(line))]
    results = {item: result(item, cells[item.row_index][item.run_index], tokens=tokens, message=message) for item in items}
    prompts = prompts or [f"question {row}" for row in range(len(cells))]
    labels = labels or [f"answer {row % 3}" for row in range(len(cells))]
    return StoredRun(
        name=name,
        location=f"/home/ada/workspace/.osmosis/evals/{name}",
        manifest=manifest(name, len(cells), runs, **manifest_options),
        planned=len(cells) * runs,
        source_rows=tuple(range(len(cells))),
        index=tuple(index_row(results[item], None, resumed=False) for item in items),
        results=results,
        dataset_rows=tuple(
            DatasetRow(row, prompt, label) for row, (prompt, label) in enumerate(zip(prompts, labels, strict=True))
        ),
    )


def trajectory_file(rollout_id: str, metrics: dict[str, Any], metadata: dict[str, Any] | None, words: str = "2*2?") -> bytes:
    """The trajectory file that the SDK writes of a rollout in which somebody said `words`."""
    conversation = Conversation(
        rollout_id=rollout_id,
        messages=[{"role": "user", "content": words}],
        metrics=metrics,
        request_metadata=metadata,
    )
    return encode_trajectory(convert_conversation(conversation, sdk_version="0.3.10"))


def scored_rows(table: Sequence[Sequence[Cell]]) -> set[int]:
    """The rows with a sample that was not skipped."""
    return {row for row, line in enumerate(table) if any(cell != "skipped" for cell in line)}


cells = st.one_of(
    st.sampled_from([0.0, 1.0]),
    st.floats(-2, 2),
    st.none(),
    st.sampled_from(["skipped", "timeout", "http_error", "agent_error", "server_crash", "something else"]),
)
tables = st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=12)
hostile_text = st.text(st.characters(exclude_categories=[]), max_size=40) | st.sampled_from(
    [
        "=1+1",
        "@SUM(A1)",
        "]]>",
        "<!--",
        "\x00\x1b[2J",
        "\ud800",
        "::error::x\n::set-env name=A::b",
        "| `x` |",
        "##[error]",
        "%0A",
    ]
)

_written_text = hostile_text.map(well_formed)
_numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_objects = st.dictionaries(_written_text, st.none() | st.booleans() | _numbers | _written_text, min_size=1, max_size=3)
sample_details = st.builds(SampleDetails, st.none() | _objects, st.none() | _objects)
"""What a sample carries, names and texts hostile."""
