"""The HTML report in a real browser (issue 9, "must show" 4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from osmosis.pure.metrics import EvalRunInfo, EvalRunStatus, encode_metrics, summarize
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.pure.trajectory import (
    Agent,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
    encode_trajectory,
)
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.shell.evaluation.run_report import ReportRequest, report
from tests.browser.conftest import Tab
from tests.integration.stored_runs import write_run
from tests.strategies.comparisons import Cell, stored_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ATTACK = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'><svg onload='window.owned = 3'>"


def trajectory(rollout_id: str, words: str) -> bytes:
    """A conversation with a tool call, metrics (but for the first rollout) and metadata, all of whose texts are `words`."""
    call = ToolCall(tool_call_id="c", function_name=words[:60], arguments={"text": words})
    result = ObservationResult(source_call_id="c", content=words)
    agent = Step(
        step_id=2,
        source="agent",
        message=words,
        reasoning_content=words,
        tool_calls=[call],
        observation=Observation(results=[result]),
    )
    steps = [Step(step_id=1, source="user", message=words), agent]
    metrics = {"overlap": 0.25, "turns": 2, words: 1, "note": words} if int(rollout_id, 16) else None
    carried = {"rollout_id": rollout_id, "sample_metrics": metrics, "request_metadata": {"topic": words, "level": [1, 2]}}
    document = Trajectory(session_id=rollout_id, agent=Agent(name="a", version="1"), steps=steps, extra={"osmosis": carried})
    return encode_trajectory(document)


def write_report(root: Path, run: StoredRun, words: str) -> Path:
    """The report of a run whose every sample has a trajectory."""
    directory = write_run(root, run)
    info = EvalRunInfo("a" * 32, EvalRunStatus.FINISHED, run.name, "d", "m", "r", 1500.0, run.manifest.created_at)
    summary = summarize(samples_frame(run), run.pass_threshold, seed=bootstrap_seed(run.manifest), planned=run.planned)
    (directory / "metrics.json").write_bytes(encode_metrics(info, summary))
    (directory / "trajectories").mkdir()
    for row in run.index:
        path = directory / "trajectories" / f"row_{row.row_index}_run_{row.run_index}.json"
        path.write_bytes(trajectory(row.rollout_id, words))
    return Path(report(ReportRequest(root, str(directory))).path)


CELLS: Sequence[Sequence[Cell]] = [[1.0, 0.0, "timeout"], [0.5, 1.0, 1.0], [None, "skipped", "server_crash"], [1.0, 1.0, 0.25]]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A report of twelve samples in which every text is an attack."""
    run = stored_run("small", CELLS, prompts=[ATTACK] * 4, labels=[ATTACK] * 4, message=ATTACK)
    return write_report(tmp_path, run, ATTACK)


def test_it_is_quiet_and_alone(tab: Tab, small: Path) -> None:
    """The page complains of nothing, asks for nothing but itself, and no text of a model runs, whatever is opened."""
    page = tab.open(small)
    for place in range(12):
        page.focus("#grid")
        page.keyboard.press("Home")
        for _ in range(place):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        for summary in page.locator("dialog summary").all():
            summary.click()
        page.keyboard.press("Escape")
    assert tab.complaints == []
    assert tab.requests == [small.as_uri()]
    assert page.evaluate("window.owned") is None
    assert page.locator("img").count() == 0


def test_the_policy_refuses_what_is_not_ours(tab: Tab, small: Path) -> None:
    """Even markup that somebody managed to put into the file does not run."""
    planted = small.with_name("planted.html")
    planted.write_text(small.read_text().replace("</main>", f"<a href='javascript:window.owned=4' id=x>x</a>{ATTACK}</main>"))
    page = tab.open(planted)
    page.locator("#x").click()
    assert page.evaluate("window.owned") is None
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)


def test_its_numbers_are_those_of_the_metrics(tab: Tab, small: Path) -> None:
    """Tiles, charts and table say what `metrics.json` says."""
    summary = json.loads((small.parent / "metrics.json").read_text())["summary"]
    page = tab.open(small)
    rate = page.inner_text("#tile-pass-rate .value")
    assert rate == f"{100 * summary['pass_rate']:.1f}%"
    assert page.inner_text("#tile-mean-reward .value") == f"{summary['reward_stats']['mean']:.3f}"
    assert page.inner_text("#tile-tokens .value") == f"{summary['tokens_used']:,}"
    assert page.inner_text("#tile-samples .note") == f"{summary['failed']} failed, {summary['skipped']} skipped"
    cells = page.locator("#figure-reward table td").all_text_contents()
    assert sum(map(int, cells[1::2])) == summary["graded"]
    curve = page.locator("#figure-pass_curve table tbody tr").all_text_contents()
    assert [f"{point['value'] * 100:.1f}%" for point in summary["uncertainty"]["pass_at_k"]] == [
        line.removeprefix(f"pass@k{point['k']}").partition("%")[0] + "%"
        for line, point in zip(curve, summary["uncertainty"]["pass_at_k"], strict=False)
    ]
    page.select_option("#filter-outcome", label="passed")
    assert page.inner_text("#shown") == f"{summary['passed']} of 12 samples"


def test_metrics_and_metadata_stand_in_summary_and_sample(tab: Tab, small: Path) -> None:
    """The summary has means with what they are over; a sample shows its own, and that it has none where others do."""
    page = tab.open(small)
    rows = [row.split("\t") for row in page.locator("section.metrics tbody").inner_text().split("\n")]
    assert rows == [
        [ATTACK, "1.000", "11 of 12 samples, 1 missing"],
        ["overlap", "0.250", "11 of 12 samples, 1 missing"],
        ["turns", "2.000", "11 of 12 samples, 1 missing"],
    ]
    page.focus("#grid")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    without = page.inner_text("#sample-body").replace("\n\n", "\n")
    assert "Metrics\nNone were stored." in without
    page.keyboard.press("ArrowRight")
    page.locator("#sample-title", has_text="Row 0, run 1").wait_for()
    body = page.inner_text("#sample-body").replace("\n\n", "\n")
    assert f'overlap: 0.25\nturns: 2\n{ATTACK}: 1\nnote: "{ATTACK}"' in body
    assert f'Metadata of the row\ntopic: "{ATTACK}"\nlevel: [1, 2]' in body
    assert page.evaluate("window.owned") is None
    assert tab.complaints == []


def test_the_keyboard_reaches_everything(tab: Tab, small: Path) -> None:
    """Tab gets to the filters, a column's button and the table; a sample opens, moves on and closes, and focus comes back."""
    page = tab.open(small)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert {"filter-text", "filter-outcome", "filter-error", "grid", "Prompt"} <= reached
    page.focus("#grid")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#sample-title") == "Row 3, run 2"
    page.keyboard.press("ArrowLeft")
    page.locator("#sample-title", has_text="Row 3, run 1").wait_for()
    page.locator("#sample-previous").focus()
    for place in range(9, -1, -1):
        page.keyboard.press("ArrowLeft")
        page.locator("#sample-title", has_text=f"Row {place // 3}, run {place % 3}").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator("#sample-title", has_text="Row 0, run 1").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator("#sample-title", has_text="Row 0, run 0").wait_for()
    for place in range(1, 11):
        page.keyboard.press("ArrowRight")
        page.locator("#sample-title", has_text=f"Row {place // 3}, run {place % 3}").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "grid"
    assert page.locator("[aria-selected=true]").get_attribute("id") == page.get_attribute("#grid", "aria-activedescendant")


def test_it_filters_and_sorts(tab: Tab, small: Path) -> None:
    """Rewards sort both ways with missing ones last; a search narrows the table and says how far."""
    page = tab.open(small)
    column = page.locator("[role=columnheader]", has_text="Reward")
    values = page.locator("#grid-space .row > :nth-child(4)")
    column.locator("button").click()
    ascending = values.all_text_contents()
    assert column.get_attribute("aria-sort") == "ascending"
    column.locator("button").click()
    descending = values.all_text_contents()
    rewards = sorted(cell for row in CELLS for cell in row if isinstance(cell, float))
    assert ascending == [f"{reward:.3f}" for reward in rewards] + ["\N{EN DASH}"] * 4
    assert descending == [f"{reward:.3f}" for reward in reversed(rewards)] + ["\N{EN DASH}"] * 4
    page.fill("#filter-text", "SERVER_crash")
    assert page.inner_text("#shown") == "1 of 12 samples"
    page.fill("#filter-text", "no such text")
    assert page.locator("#grid-space .row").count() == 0


def test_long_texts_are_clipped_until_asked_for(tab: Tab, tmp_path: Path) -> None:
    """A text of thousands of characters shows its beginning and a button that shows the rest of it."""
    words = "0123456789" * 500
    page = tab.open(write_report(tmp_path, stored_run("long", [[1.0]]), words))
    page.focus("#grid")
    page.keyboard.press("Enter")
    turn = page.locator(".turn.user .passage")
    turn.wait_for()
    assert turn.inner_text() == words[:1500]
    page.locator(".turn.user .cut").click()
    assert turn.inner_text() == words


def test_twenty_thousand_samples(tab: Tab, tmp_path: Path) -> None:
    """Of 20,000 samples a few dozen rows are in the page, wherever one scrolls; sorting, filtering and opening still work."""
    run = stored_run("large", [[float((row * run) % 3 == 0) for run in range(4)] for row in range(5000)])
    page = tab.open(write_report(tmp_path, run, "some words " * 50))
    rows = page.locator("#grid-space .row")
    assert page.inner_text("#shown") == "20,000 of 20,000 samples"
    page.focus("#grid")
    for key in ("PageDown", "End", "Home", "End"):
        page.keyboard.press(key)
        assert 0 < rows.count() < 60
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#sample-title") == "Row 4999, run 3"
    assert page.text_content(".turn.user .passage") == "some words " * 50
    page.keyboard.press("Escape")
    page.fill("#filter-text", "question 4321")
    assert page.inner_text("#shown") == "4 of 20,000 samples"
    assert tab.complaints == []


def test_without_a_script_the_rest_is_there(tmp_path: Path, small: Path) -> None:
    """The file itself holds the tiles, the charts and the failures as markup."""
    text = small.read_text()
    assert text.count("<svg") == text.count("<figure") == 5
    assert "<noscript>" in text
    assert text.count("server_crash") >= 2
