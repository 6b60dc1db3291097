"""`--json --events`: every event is one line of strict JSON on standard error, in the order in which things happen."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.redaction import Redactor
from osmosis.pure.report import ItemFinished, Progress
from osmosis.shell.cli.main import main
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.run_view import TerminalRunView
from tests.strategies.cli import items, progresses
from tests.strategies.cli_reports import PLAN, WORKSPACE

SECRET = "hunter2-hunter2"


@given(st.lists(items, max_size=4), progresses(), st.sampled_from(["checking model", f"uses {SECRET}\x1b[2J\nx"]))
def test_events_tell_the_run_line_by_line(finished: list[ItemFinished], progress: Progress, milestone: str) -> None:
    """Plan, milestone, progress, items: each a JSON object with schema, name, time and data; secrets are gone."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(Mode.JSON, out, err, Redactor([SECRET]))
    with TerminalRunView(output, working_directory=WORKSPACE, yes=True, verbose=False, stdin=None, events=True) as view:
        view.plan(PLAN)
        view.milestone(milestone)
        view.progress(progress)
        for item in finished:
            view.item(item)
        view.warning("SOME_CODE", "something")
    assert out.getvalue() == ""
    assert SECRET not in err.getvalue()
    assert err.getvalue().isascii()
    *events, warning = map(json.loads, err.getvalue().splitlines())
    assert [event["event"] for event in events] == [
        "run.planned",
        "run.milestone",
        "run.progress",
        *(["item.finished"] * len(finished)),
    ]
    assert all(list(event) == ["schema_version", "event", "at", "data"] for event in events)
    assert events[0]["data"]["work_items"] == PLAN.work_items
    assert events[2]["data"]["done"] == progress.done
    assert [(event["data"]["row_index"], event["data"]["passed"]) for event in events[3:]] == [
        (item.item.row_index, item.passed) for item in finished
    ]
    assert warning["warning"]["code"] == "SOME_CODE"


@pytest.mark.parametrize("mode", [[], ["--plain"]])
def test_events_need_json(mode: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In another mode there is nothing that could be streamed: a usage error, before anything is read."""
    assert main(["eval", "run", "no-such.toml", "--events", *mode]) == 2
    assert capsys.readouterr().err.startswith("Error: --events needs --json.")


def test_without_events_json_is_silent_until_the_end() -> None:
    """The flag alone makes JSON mode speak."""
    out, err = io.StringIO(), io.StringIO()
    output = Output(Mode.JSON, out, err, Redactor([]))
    with TerminalRunView(output, working_directory=WORKSPACE, yes=True, verbose=False, stdin=None) as view:
        view.plan(PLAN)
        view.milestone("checking model")
        view.progress(Progress(1, 0, 0, 0, 0, 0, 0, 1, 0))
    assert (out.getvalue(), err.getvalue()) == ("", "")
