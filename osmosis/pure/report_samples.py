"""The samples of a report: a list for the table, and their texts in compressed packs that a browser opens one by one (issue 9).

So a run of 20,000 samples costs a browser one short list; the texts of a sample are unpacked when somebody looks at it.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec
import polars as pl

from osmosis.pure.conversation import Conversation, Passage, TextLimits, conversation, passage
from osmosis.pure.html_page import data_block
from osmosis.pure.journal import Status
from osmosis.pure.presentation import one_line
from osmosis.pure.sample_details import Details, SampleDetails, json_text
from osmosis.pure.stored_run import StoredRun

PACK = 64
"""Samples in a pack."""
_EXCERPT = 160
_ERROR_TYPE = 120


class Outcome(StrEnum):
    """What became of a sample, in the words of the report."""

    PASSED = "passed"
    NOT_PASSED = "not passed"
    UNGRADED = "ungraded"
    FAILED = "failed"
    SKIPPED = "skipped"


class SampleList(msgspec.Struct, frozen=True):
    """What the table shows and filters by, a column a field, all of one length. `outcome` counts into `outcomes`, `error` into
    `errors` (-1 for none); the texts of prompts and labels are by row of the dataset. `metered`: some samples have metrics, so
    that one without them is told."""

    row: list[int]
    run: list[int]
    outcome: list[int]
    reward: list[float | None]
    tokens: list[int | None]
    context: list[int | None]
    milliseconds: list[float]
    error: list[int]
    outcomes: list[str]
    errors: list[str]
    source_rows: list[int]
    prompts: list[str]
    labels: list[str]
    metered: bool = False
    pack: int = PACK


class SampleTexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything else of one sample."""

    rollout_id: str
    conversation: Conversation
    prompt: Passage | None = None
    label: Passage | None = None
    error: Passage | None = None
    metrics: Passage | None = None
    metadata: Passage | None = None


def outcome_of(status: str, graded: bool, passed: bool) -> Outcome:
    """The outcome of a sample of a samples frame."""
    if status == Status.FAILED:
        return Outcome.FAILED
    if status == Status.SKIPPED:
        return Outcome.SKIPPED
    if not graded:
        return Outcome.UNGRADED
    return Outcome.PASSED if passed else Outcome.NOT_PASSED


def sample_list(run: StoredRun, samples: pl.DataFrame, *, metered: bool = False) -> SampleList:
    """The list of `samples` (`osmosis.pure.stored_run.samples_frame`), in their order."""
    outcomes = list(Outcome)
    error_types = [one_line(error[:_ERROR_TYPE]) if error else "" for error in samples["error_type"]]
    errors = sorted({error for error in error_types if error})
    position = {error: number for number, error in enumerate(errors)}
    decided = samples.select("status", "graded", "passed").iter_rows()
    texts = run.dataset_rows or ()
    return SampleList(
        row=samples["row_index"].to_list(),
        run=samples["run_index"].to_list(),
        outcome=[outcomes.index(outcome_of(*one)) for one in decided],
        reward=samples["reward"].to_list(),
        tokens=samples["tokens"].to_list(),
        context=samples["max_context_tokens"].to_list(),
        milliseconds=samples["duration_ms"].to_list(),
        error=[position.get(error, -1) for error in error_types],
        outcomes=[outcome.value for outcome in outcomes],
        errors=errors,
        source_rows=list(run.source_rows),
        prompts=[one_line(row.prompt[:_EXCERPT]) for row in texts],
        labels=[one_line((row.label or "")[:_EXCERPT]) for row in texts],
        metered=metered,
    )


def sample_texts(
    run: StoredRun, sample: Mapping[str, Any], trajectory: bytes | None, details: SampleDetails, limits: TextLimits
) -> SampleTexts:
    """The texts of one line of a samples frame, whose stored trajectory is `trajectory`, and holds `details`."""
    row = run.dataset_rows[sample["row_index"]] if run.dataset_rows else None
    error = sample["error_message"]
    return SampleTexts(
        rollout_id=sample["rollout_id"],
        conversation=conversation(trajectory, limits),
        prompt=passage(row.prompt, limits.passage) if row and row.prompt else None,
        label=passage(row.label, limits.passage) if row and row.label is not None else None,
        error=passage(error, limits.passage) if error else None,
        metrics=_entries(details.metrics, limits),
        metadata=_entries(details.metadata, limits),
    )


def _entries(details: Details | None, limits: TextLimits) -> Passage | None:
    """An entry a line, in the stored order."""
    lines = [f"{key}: {json_text(value)}" for key, value in (details or {}).items()]
    return passage("\n".join(lines), limits.passage) if lines else None


def list_block(samples: SampleList) -> str:
    """The list as a data block of the page."""
    return data_block("sample-list", "application/json", msgspec.json.encode(samples).decode())


def pack_blocks(texts: Iterable[SampleTexts]) -> Iterator[str]:
    """The packs as data blocks, in the order of the list: JSON arrays, deflated (RFC 1950), in base64."""
    remaining = iter(texts)
    number = 0
    while pack := list(islice(remaining, PACK)):
        packed = zlib.compress(msgspec.json.encode(pack), 6)
        yield data_block(f"pack-{number}", "application/octet-stream", b64encode(packed).decode())
        number += 1
