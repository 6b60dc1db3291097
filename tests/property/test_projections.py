"""What follows from a run's history: its times over all invocations, its size, its status, whatever was cut or repeated."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given

from osmosis.pure.index import index_row
from osmosis.pure.index_frame import index_frame
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
    fold,
)
from osmosis.pure.metrics import summarize
from osmosis.pure.metrics_file import EvalRunStatus, encode_metrics
from osmosis.pure.projections import ProgressFile, active_ms, eval_run_info, progress_file, running_summary
from osmosis.pure.selection import RowRange, select
from osmosis.pure.tally import Tally
from tests.strategies.run import Story, moment, plan_of, stories

PLAN = plan_of(select([RowRange(0, 0)]), 2)


def history_of(story: Story) -> RunHistory:
    """The state that the journal tells."""
    return fold(story.records, story.plan.total_items)


@given(stories())
def test_a_run_is_finished_when_every_item_has_a_result(story: Story) -> None:
    """Not before, and not because its last invocation ended well or badly."""
    history = history_of(story)
    info = eval_run_info(story.plan.manifest, history, running=False)
    complete = len(history.results) == story.plan.total_items
    assert info.status is (EvalRunStatus.FINISHED if complete else EvalRunStatus.INCOMPLETE)
    assert (info.completed_at is not None) == complete
    assert eval_run_info(story.plan.manifest, history, running=True).status is EvalRunStatus.RUNNING


@given(stories())
def test_times_are_those_of_the_whole_run(story: Story) -> None:
    """It starts with its first invocation and is complete with its last current result, over all restarts."""
    history = history_of(story)
    info = eval_run_info(story.plan.manifest, history, running=False)
    starts = [record.at for record in story.records if isinstance(record, InvocationStarted)]
    assert info.started_at == (starts[0] if starts else story.plan.manifest.created_at)
    if info.completed_at is not None:
        assert info.completed_at == max(result.at for result in history.results.values())
        assert info.completed_at >= info.started_at


@given(stories())
def test_duration_is_the_time_at_work(story: Story) -> None:
    """Each invocation counts from its start to its last record; the time between invocations does not."""
    expected = 0.0
    start = last = None
    for record in story.records:
        if isinstance(record, InvocationStarted):
            expected += _seconds(start, last)
            start = record.at
        last = record.at
    expected += _seconds(start, last)
    history = history_of(story)
    assert active_ms(history) == expected * 1000
    assert eval_run_info(story.plan.manifest, history, running=False).duration_ms == expected * 1000
    assert eval_run_info(story.plan.manifest, history, running=True).duration_ms == 0.0


def _seconds(start: str | None, end: str | None) -> float:
    if start is None or end is None:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


@given(stories(eventful=True))
def test_a_night_between_two_invocations_costs_nothing(story: Story) -> None:
    """A later resume adds only its own work to the duration."""
    before = active_ms(history_of(story))
    start = InvocationStarted("f" * 32, moment(80_000), "0.3.10")
    end = InvocationEnded(moment(80_002), Ending.HALTED)
    assert active_ms(fold([*story.records, start, end], story.plan.total_items)) == before + 2000


def test_a_clock_that_was_set_back_takes_nothing_away() -> None:
    """An invocation that seems to end before it began counts as nothing, not as less."""
    records: list[Record] = [
        InvocationStarted("1" * 32, moment(100), "0.3.10"),
        Attempt(WorkItem(0, 0), "a" * 32, 1, moment(40)),
        InvocationStarted("2" * 32, moment(200), "0.3.10"),
        Attempt(WorkItem(0, 0), "b" * 32, 2, moment(201)),
    ]
    assert active_ms(fold(records, 2)) == 1000.0


def test_fractions_of_a_second_add_up_exactly() -> None:
    """Durations are summed in microseconds, so that three times 0.1 s are 300 ms, not 300.00000000000006."""
    records: list[Record] = []
    for number in range(3):
        records.append(InvocationStarted(f"{number:032x}", f"2026-11-30T12:00:0{number}.000000Z", "0.3.10"))
        records.append(Attempt(WorkItem(0, 0), f"{number:032x}", number + 1, f"2026-11-30T12:00:0{number}.100001Z"))
    assert active_ms(fold(records, 2)) == 300.003


@given(stories())
def test_progress_is_the_size_of_the_plan(story: Story) -> None:
    """It depends on the manifest alone; an older manifest that does not tell the size of the dataset is no obstacle."""
    manifest = story.plan.manifest
    rows = story.plan.rows.count
    assert progress_file(manifest) == ProgressFile(story.plan.total_items, rows, 100)
    older = type(manifest)(1, manifest.local_run_id, "n", manifest.created_at, manifest.inputs, {})
    assert progress_file(older).total_dataset_rows == rows


@given(stories())
def test_running_and_final_counts_agree(story: Story) -> None:
    """The counts shown while a run goes on are those of its final summary."""
    history = history_of(story)
    tally = Tally(story.plan.inputs.pass_threshold)
    for result in history.results.values():
        tally = tally.add(result)
    running = running_summary(tally)
    rows = [index_row(result, None, resumed=history.resumed(item)) for item, result in history.results.items()]
    final = summarize(index_frame(rows), story.plan.inputs.pass_threshold)
    for name in ("total_samples", "completed_samples", "graded", "passed", "failed", "skipped", "pass_rate", "tokens_used"):
        assert getattr(running, name) == getattr(final, name)
    assert running.total_samples == running.completed_samples + running.skipped
    encode_metrics(eval_run_info(story.plan.manifest, history, running=True), running)


@pytest.mark.parametrize("status", Status)
def test_looking_again_changes_nothing(status: Status) -> None:
    """An invocation of a finished run marks nothing as carried over and moves neither its start nor its end (ruling 3)."""
    records: list[Record] = [InvocationStarted("1" * 32, moment(1), "0.3.10")]
    records += [Result(WorkItem(0, run), 0, f"{run:032x}", status, moment(2 + run), 1.0) for run in (0, 1)]
    before = fold(records, 2)
    after = fold([*records, InvocationStarted("2" * 32, moment(50), "0.3.10")], 2)
    assert eval_run_info(PLAN.manifest, before, running=False) == eval_run_info(PLAN.manifest, after, running=False)
    assert not any(after.resumed(item) for item in after.results)
