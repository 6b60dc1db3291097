"""How an invocation ended, as people and programs are told: status, counts that add up, lists in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.conclusion import Closing, crash_advice, declined_report, interrupted_report, run_report, run_status
from osmosis.pure.journal import InvocationStarted, Result, RunHistory, Status, WorkItem, fold
from osmosis.pure.projections import active_ms, running_summary
from osmosis.pure.report import PlanSummary, RunReport, RunStatus
from osmosis.pure.tally import Tally
from osmosis.shell.cli.result import Table
from osmosis.shell.cli.run_result import run_result
from tests.strategies.run import Story, moment, stories

closings = st.builds(
    Closing,
    dispatched=st.integers(0, 50),
    pending=st.integers(0, 2),
    interrupted=st.booleans(),
    halt_reason=st.none() | st.just("the disk is full"),
)
PLAN = PlanSummary("calm-otter-7", "r", "main.py", "openai/m", "d", 4, 5, 2, 8, 5, 3, "/runs/calm-otter-7")


def history_of(story: Story) -> RunHistory:
    """The state that the journal tells."""
    return fold(story.records, story.plan.total_items)


def report_of(story: Story, closing: Closing | None) -> RunReport:
    """The report of a run as the journal leaves it."""
    history = history_of(story)
    tally = Tally(1.0)
    for result in history.results.values():
        tally = tally.add(result)
    return run_report(
        name="moved",
        manifest=story.plan.manifest,
        history=history,
        closing=closing,
        metrics=running_summary(tally),
        output_path="/runs/plain",
        trials_path="/runs/plain/rollout_trials",
        workspace_directory="/",
    )


@given(stories(), st.none() | closings)
def test_counts_add_up(story: Story, closing: Closing | None) -> None:
    """total = succeeded + failed + skipped + pending, and the lists are as long as their counts.

    Only a retry that was cut short has more: what it did not get to still has its earlier result, and is pending too.
    """
    report = report_of(story, closing)
    history = history_of(story)
    without_result = story.plan.total_items - len(history.results)
    assert report.total_work_items == story.plan.total_items
    assert report.succeeded + report.failed + report.skipped == len(history.results)
    assert report.pending == max(without_result, closing.pending if closing else 0)
    assert (len(report.failed_rows), len(report.skipped_rows)) == (report.failed, report.skipped)
    assert report.resumed <= len(history.results)
    assert report.duration_ms == active_ms(history)
    assert report.metrics["total_samples"] == len(history.results)


@given(stories(), closings)
def test_the_status_is_what_the_journal_and_the_closing_say(story: Story, closing: Closing) -> None:
    """Interrupted only with something pending; all failed only when nothing else happened (ruling 12)."""
    history = history_of(story)
    statuses = {result.status for result in history.results.values()}
    if not history.finished or closing.pending:
        expected = RunStatus.INTERRUPTED if closing.interrupted else RunStatus.PARTIAL
    else:
        expected = RunStatus.ALL_FAILED if statuses == {Status.FAILED} else RunStatus.SUCCESS
    assert run_status(history, closing) is expected


@given(stories(), closings)
def test_a_report_says_what_happened(story: Story, closing: Closing) -> None:
    """Status, dispatched and reason come from the closing; pending is in the message where it matters."""
    report = report_of(story, closing)
    assert (report.dispatched, report.halt_reason) == (closing.dispatched, closing.halt_reason)
    assert report.status is run_status(history_of(story), closing)
    assert report.run_name == "moved"
    assert "moved" in report.message
    if report.pending:
        assert f"{report.pending} work item" in report.message


@given(stories(), st.randoms(use_true_random=False))
def test_lists_do_not_depend_on_the_order_of_results(story: Story, random) -> None:
    """Failed and skipped rows are sorted, each with its own trial's directory."""
    report = report_of(story, None)
    for rows in (report.failed_rows, report.skipped_rows):
        places = [(row.row_index, row.run_index) for row in rows]
        assert places == sorted(places)
        assert all(row.rollout_dir == f"/runs/plain/rollout_trials/{row.rollout_id}" for row in rows)
    results = [record for record in story.records if isinstance(record, Result)]
    last = {result.item: result for result in results}
    one, other = RunHistory(story.plan.total_items), RunHistory(story.plan.total_items)
    shuffled = list(last.values())
    random.shuffle(shuffled)
    for history, order in ((one, last.values()), (other, shuffled)):
        history.add(InvocationStarted("1" * 32, moment(0), "0.3.10"))
        for result in order:
            history.add(result)
    closing = Closing()
    assert run_status(one, closing) is run_status(other, closing)


@given(stories())
def test_a_look_dispatches_nothing(story: Story) -> None:
    """Without a closing there was nothing to do, and the report says so."""
    report = report_of(story, None)
    assert (report.status, report.dispatched, report.halt_reason) == (RunStatus.NOOP, 0, None)


@pytest.mark.parametrize("statuses", [(Status.FAILED,), (Status.FAILED, Status.SKIPPED), (Status.SKIPPED,), (Status.SUCCESS,)])
def test_all_failed_means_all(statuses: tuple[Status, ...]) -> None:
    """One skipped or successful item is enough for exit code 0."""
    results = [Result(WorkItem(0, run), 0, f"{run:032x}", status, moment(1), 1.0) for run, status in enumerate(statuses)]
    history = fold([InvocationStarted("1" * 32, moment(0), "0.3.10"), *results], len(results))
    expected = RunStatus.ALL_FAILED if set(statuses) == {Status.FAILED} else RunStatus.SUCCESS
    assert run_status(history, Closing()) is expected


def test_who_declines_or_interrupts_early_has_lost_nothing() -> None:
    """What is on disk is still pending and recorded as it was; nothing was dispatched."""
    declined = declined_report(PLAN, "/")
    interrupted = interrupted_report(PLAN, "/", exists=True)
    assert (declined.status, interrupted.status) == (RunStatus.CANCELLED, RunStatus.INTERRUPTED)
    for report in (declined, interrupted):
        assert (report.pending, report.dispatched, report.total_work_items) == (5, 0, 8)
    assert interrupted.output_path == PLAN.output_path


def test_a_directory_that_is_gone_again_is_not_named() -> None:
    """A new run that is interrupted before its first dispatch leaves nothing that anybody could look at."""
    report = interrupted_report(PLAN, "/", exists=False)
    assert report.output_path == ""
    assert "Output" not in dict(next(block for block in run_result(report, "/").blocks if isinstance(block, Table)).rows)


@pytest.mark.parametrize(
    ("strikes", "words"),
    [
        (
            {WorkItem(0, 0): 1},
            "One item was in flight when the rollout server crashed or fell silent. The same command tries again; ",
        ),
        (
            {WorkItem(0, 0): 1, WorkItem(1, 0): 1},
            "2 items were in flight when the rollout server crashed or fell silent. The same",
        ),
        (
            {WorkItem(0, 0): 2, WorkItem(1, 0): 1},
            "now runs each of those alone that were in flight twice",
        ),
    ],
)
def test_a_crash_says_what_the_same_command_does_next(strikes: dict[WorkItem, int], words: str) -> None:
    """Ruling 15 in words: once more together, then alone."""
    assert words in crash_advice(tuple(strikes), RunHistory(4, strikes=strikes))
