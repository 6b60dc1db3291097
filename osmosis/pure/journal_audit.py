"""Whether the records of a journal agree with each other and with the plan (issue 3; rulings 1, 14 and 15; E22, E35).

The decoder has already proven that every line is as it was written and in its place. This module asks whether what was written
makes sense: items of the plan only, every result of an attempt that was recorded before it in the same invocation, rollout ids
never used twice, attempts counted without a gap, no success ever run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from osmosis.pure.evidence import Evidence, LogMark
from osmosis.pure.finding import Finding
from osmosis.pure.journal import (
    Attempt,
    Ending,
    InvocationEnded,
    InvocationStarted,
    Record,
    Result,
    RunHistory,
    Status,
    WorkItem,
)
from osmosis.pure.plan import Manifest, RunInputs
from osmosis.pure.selection import RowSelection, SourceRows

JOURNAL = "events.jsonl"
_NO_EVIDENCE = Evidence()


class RunPlan(msgspec.Struct, frozen=True):
    """A readable manifest: the inputs that it locks and the dataset rows that it names."""

    manifest: Manifest
    inputs: RunInputs
    rows: RowSelection

    @property
    def total_items(self) -> int:
        """How many work items the run has."""
        return self.rows.count * self.inputs.n


class JournalAudit:
    """Takes the records of one journal, in order. `history` folds those that lie inside the plan.

    What the journal says of files is kept as it comes: `own_files` of the run's own, `log_marks` of the log, and `trial_files`
    of the trials behind current results, without those of which it says nothing (`osmosis.pure.evidence`).
    """

    def __init__(self, plan: RunPlan) -> None:
        self.history = RunHistory(plan.total_items)
        self.findings: list[Finding] = []
        self.records = 0
        self.with_result: set[str] = set()
        self.own_files: dict[str, str] = {}
        self.log_marks: list[LogMark] = []
        self.trial_files: dict[WorkItem, dict[str, str]] = {}
        self._plan = plan
        self._source_rows = SourceRows(plan.rows)
        self._attempts: dict[str, tuple[WorkItem, int]] = {}
        self._invocation_ids: set[str] = set()
        self._going_on = False

    @property
    def cut_short(self) -> bool:
        """Whether the last invocation did not live to say why it ended."""
        return self._going_on

    def add(self, record: Record, evidence: Evidence = _NO_EVIDENCE) -> None:
        """Check one more record against everything before it, then fold it, and keep what its line says of files."""
        self.records += 1
        problems = [*_time_problems(record), *_CHECKS[type(record)](self, record)]
        self.findings += (Finding(JOURNAL, problem, self.records) for problem in problems)
        item = record.item if isinstance(record, Attempt | Result) else None
        if not any(_time_problems(record)) and (item is None or self._is_planned(item)):
            self.history.add(record)
            self._keep(record, evidence)

    def _keep(self, record: Record, evidence: Evidence) -> None:
        if evidence.log is not None:
            self.log_marks.append(evidence.log)
        if isinstance(record, InvocationStarted):
            self.own_files = self.own_files or evidence.files or {}
        elif isinstance(record, Result) and evidence.files is None:
            self.trial_files.pop(record.item, None)
        elif isinstance(record, Result) and evidence.files is not None:
            self.trial_files[record.item] = evidence.files

    def _is_planned(self, item: WorkItem) -> bool:
        return item.row_index < self._plan.rows.count and item.run_index < self._plan.inputs.n

    def _check_start(self, record: InvocationStarted) -> Iterator[str]:
        if record.id in self._invocation_ids:
            yield f"invocation {record.id} begins a second time"
        self._invocation_ids.add(record.id)
        self._going_on = True

    def _check_end(self, record: InvocationEnded) -> Iterator[str]:
        if not self._going_on:
            yield "an invocation ends that is not going on"
        self._going_on = False
        if record.ending is Ending.FINISHED and not self.history.finished:
            pending = self.history.total_items - len(self.history.results)
            yield f"the invocation ends as finished, and {pending} items are pending"
        for item in record.in_flight:
            if item not in self.history.attempts:
                yield f"{_name(item)} was in flight without an attempt"

    def _check_attempt(self, record: Attempt) -> Iterator[str]:
        yield from self._outside(record.item)
        if record.rollout_id in self._attempts:
            yield f"rollout id {record.rollout_id} is used a second time"
        due = self.history.attempts.get(record.item, 0) + 1
        if record.number != due:
            yield f"this is attempt {record.number} of {_name(record.item)}, and {due} is due"
        earlier = self.history.results.get(record.item)
        if earlier is not None and earlier.status is Status.SUCCESS:
            yield f"{_name(record.item)} is run again although it has succeeded"
        elif earlier is not None and not self._retrying:
            yield f"{_name(record.item)} is run again although it has a result and the invocation does not retry"
        self._attempts.setdefault(record.rollout_id, (record.item, len(self.history.invocations)))

    @property
    def _retrying(self) -> bool:
        return bool(self.history.invocations) and self.history.invocations[-1].started.retry_failed

    def _check_result(self, record: Result) -> Iterator[str]:
        yield from self._outside(record.item)
        attempt = self._attempts.get(record.rollout_id)
        if attempt is None:
            yield f"a result of rollout {record.rollout_id}, which no attempt before it names"
        elif attempt[0] != record.item:
            yield f"a result of {_name(record.item)} by rollout {record.rollout_id}, which ran {_name(attempt[0])}"
        elif attempt[1] != len(self.history.invocations):
            yield f"a result of rollout {record.rollout_id}, which an earlier invocation ran"
        if record.rollout_id in self.with_result:
            yield f"rollout {record.rollout_id} has a second result"
        self.with_result.add(record.rollout_id)
        if self._is_planned(record.item) and record.source_row_index != (due := self._source_rows[record.item.row_index]):
            yield f"source_row_index is {record.source_row_index}, and row {record.item.row_index} of the selection is {due}"
        yield from _value_problems(record)

    def _outside(self, item: WorkItem) -> Iterator[str]:
        if not self._going_on:
            yield "a record outside an invocation"
        if not self._is_planned(item):
            yield f"{_name(item)} is not in the plan of {self._plan.rows.count} rows x {self._plan.inputs.n} runs"


_CHECKS: dict[type[Record], Callable[[JournalAudit, Any], Iterator[str]]] = {
    InvocationStarted: JournalAudit._check_start,
    InvocationEnded: JournalAudit._check_end,
    Attempt: JournalAudit._check_attempt,
    Result: JournalAudit._check_result,
}


def is_time(text: str) -> bool:
    """Whether `text` is an ISO 8601 time in UTC."""
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _time_problems(record: Record) -> Iterator[str]:
    if not is_time(record.at):
        yield f"{record.at!r} is not an ISO 8601 time in UTC"


def _value_problems(record: Result) -> Iterator[str]:
    if record.reward is not None and record.status is not Status.SUCCESS:
        yield f"a reward on a result that is {record.status}"
    if record.error_type is not None and record.status is not Status.FAILED:
        yield f"an error on a result that is {record.status}"
    if record.duration_ms < 0:
        yield f"duration_ms is {record.duration_ms}"
    if any(min(call.prompt_tokens, call.completion_tokens, call.total_tokens) < 0 for call in record.calls or ()):
        yield "a model call with a negative number of tokens"


def _name(item: WorkItem) -> str:
    return f"row {item.row_index} run {item.run_index}"
