"""The command line: modes anywhere, flags into a request, and a request back into flags."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.pure.report import RunReport, RunStatus
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.exit_codes import RUN_EXIT_CODES
from osmosis.shell.cli.invocation import Invocation, eval_run_argv, next_steps
from osmosis.shell.cli.modes import Mode, conflicting_modes, take_mode
from osmosis.shell.evaluation.request import RunRequest
from tests.strategies.cli import invocations
from tests.strategies.cli_reports import INVOCATION, REPORTS

APP = build_app()

tokens = st.lists(st.sampled_from(["eval", "run", "c.toml", "--name", "x", "--json", "--plain", "--", "-y"]))


@given(tokens, st.sampled_from(["--json", "--plain"]), st.data())
def test_a_mode_may_stand_anywhere(words: list[str], flag: str, data: st.DataObject) -> None:
    """Wherever the flag stands before a literal `--`, the mode is the same and so is what is left of the line."""
    plain = [word for word in words if word not in ("--json", "--plain", "--")]
    place = data.draw(st.integers(0, len(plain)))
    mode, rest = take_mode([*plain[:place], flag, *plain[place:], "--", "--json"])
    assert mode == flag.removeprefix("--")
    assert rest == [*plain, "--", "--json"]


@given(tokens)
def test_after_a_double_dash_everything_is_data(words: list[str]) -> None:
    """No flag after `--` chooses a mode or gets lost."""
    mode, rest = take_mode(["--", *words])
    assert (mode, rest) == (Mode.RICH, ["--", *words])
    assert conflicting_modes(["--", *words]) is None


def parse(argv: tuple[str, ...]) -> Invocation:
    """What the real parser makes of a command line. The working directory is not on the line."""
    mode, words = take_mode(argv[1:])
    _, bound, _ = APP.parse_args(words, exit_on_error=False, print_error=False)
    given_ = dict(bound.arguments)
    config = given_.pop("config")
    yes, verbose, events = (given_.pop(flag, False) for flag in ("yes", "verbose", "events"))
    request = RunRequest(config_path=config, working_directory=INVOCATION.request.working_directory, **given_)
    return Invocation(request, yes=yes, verbose=verbose, events=events, mode=mode)


@given(invocations)
def test_a_pasted_command_means_what_was_asked(invocation: Invocation) -> None:
    """Parsing the command line of a request gives the request back: no flag is lost and none is added."""
    assert parse(eval_run_argv(invocation)) == invocation


KEPT = (
    *("config_path", "output", "dataset_file", "secrets_file", "rows"),
    *("max_in_flight", "record", "replay", "rollout_port", "listener_port"),
)


@given(invocations, st.sampled_from(sorted(REPORTS)))
def test_next_steps_repeat_every_flag_that_matters(invocation: Invocation, case: str) -> None:
    """A pasted step runs the same rows of the same dataset into the same place; none archives a run unless it says so."""
    report = REPORTS[case]
    for step in next_steps(invocation, report):
        parsed = parse(step.argv)
        for field in KEPT:
            assert getattr(parsed.request, field) == getattr(invocation.request, field)
        assert (parsed.yes, parsed.mode) == (invocation.yes, invocation.mode)
        assert parsed.request.fresh == (step.action == "fresh")
        assert parsed.request.name == (None if step.action == "new_run" else report.run_name)


def actions(report: RunReport, invocation: Invocation = INVOCATION) -> list[str]:
    """The actions offered after `report`."""
    return [step.action for step in next_steps(invocation, report)]


def test_which_steps_follow_which_ending() -> None:
    """Resume what is incomplete, retry what failed, offer a new run where nothing was left to do; nothing for skipped."""
    success = REPORTS["success"]
    assert actions(success) == ["retry"]
    assert actions(msgspec.structs.replace(success, failed=0)) == []
    assert actions(REPORTS["all_failed"]) == ["retry"]
    assert actions(REPORTS["interrupted"]) == actions(REPORTS["halted"]) == ["resume"]
    assert actions(REPORTS["noop"]) == ["retry", "new_run", "fresh"]
    assert actions(REPORTS["cancelled"]) == []


@pytest.mark.parametrize("case", ["interrupted", "halted"])
def test_resuming_an_interrupted_retry_goes_on_retrying(case: str) -> None:
    """Failures that were still waiting for their retry are not forgotten by the resume command."""
    retrying = msgspec.structs.replace(INVOCATION, request=msgspec.structs.replace(INVOCATION.request, retry_failed=True))
    (step,) = next_steps(retrying, REPORTS[case])
    assert "--retry-failed" in step.argv
    (plain,) = next_steps(INVOCATION, REPORTS[case])
    assert "--retry-failed" not in plain.argv


def test_every_ending_has_an_exit_code() -> None:
    """The table of ruling 12 is complete: no status falls through to a default."""
    assert {status.value: int(RUN_EXIT_CODES[status]) for status in RunStatus} == {
        "success": 0,
        "noop": 0,
        "cancelled": 0,
        "partial": 1,
        "all_failed": 3,
        "interrupted": 130,
    }
