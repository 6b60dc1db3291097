"""What every command keeps of the contract, wherever its flags stand and whatever goes wrong (issue 9; `cli.md` section 1)."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from types import FrameType

import pytest
from cyclopts import ArgumentCollection

from osmosis import __version__
from osmosis.pure.errors import ErrorCode
from osmosis.pure.finding import AuditStatus
from osmosis.pure.report import RunStatus
from osmosis.shell.cli.exit_codes import AUDIT_EXIT_CODES, RUN_EXIT_CODES, ExitCode
from osmosis.shell.cli.main import main
from osmosis.shell.cli.output import Output
from tests.strategies.cli_tree import COMMANDS, GROUPS, TREE

Capture = pytest.CaptureFixture[str]

NEEDED = {
    "completion": "tcsh",
    "eval run": "absent.toml",
    "eval info": "absent",
    "eval logs": "absent",
    "eval open": "absent",
    "eval verify": "absent",
    "eval compare": "absent other",
    "eval gate": "absent --baseline other",
    "eval export": "absent --format junit",
    "eval report": "absent",
    "eval regrade": "absent --dataset-file absent.jsonl --name again",
    "eval rubric": "--data absent.jsonl --rubric fair? --model openai/m",
    "rollout init": "Wrong_Name",
    "rollout validate": "absent",
    "rollout serve-loop": "--module absent_module:loop --local",
    "rollout validate-loop": "--module absent_module:loop",
    "cassette inspect": "absent.jsonl",
    "cassette prune": "absent.jsonl",
    "cassette diff": "absent.jsonl other.jsonl",
    "eval list": "",
    "doctor": ".",
}
"""The words after each command that parse and then fail in a directory that is no workspace."""
WITHOUT_WORKSPACE = ("eval rubric", "completion", "rollout serve-loop", "rollout validate-loop", "doctor")
"""Commands that look for no workspace: something else is wrong with those lines."""


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("OSMOSIS_DEBUG", raising=False)
    return tmp_path


def line(command: str) -> list[str]:
    """A whole command line that fails in an empty directory."""
    return [*COMMANDS[command], *NEEDED[command].split()]


def parsed_line(command: str) -> list[str]:
    """The same line, made right for the one command whose only fault is in its words."""
    return [word if word != "tcsh" else "bash" for word in line(command)]


def arguments_of(command: str) -> ArgumentCollection:
    """The arguments and options of a command, as the whole tree sets them up."""
    found = TREE[COMMANDS[command]].assemble_argument_collection(
        default_parameter=TREE[()].default_parameter, parse_docstring=False
    )
    return ArgumentCollection(argument for argument in found if argument.parse)


def envelope(capsys: Capture, words: list[str], code: int) -> dict[str, object]:
    """The one JSON line on standard error of a command that ends with `code`; nothing on standard output."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    document: dict[str, object] = json.loads(err)
    assert list(document) == ["schema_version", "command", "cli_version", "error"]
    assert (document["schema_version"], document["cli_version"]) == (1, __version__)
    error = document["error"]
    assert isinstance(error, dict)
    assert list(error) == ["code", "message", "details", "hint"]
    assert error["code"] in set(ErrorCode)
    assert error["message"]
    assert error["hint"]
    return document


def test_every_command_is_tried() -> None:
    """A command that joins the tree joins this walk."""
    assert set(NEEDED) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_mode_may_stand_anywhere(command: str, nowhere: Path, capsys: Capture) -> None:
    """Before, between and behind the words, `--json` makes the same envelope, and `--plain` the same lines."""
    words = line(command)
    code = main([*words, "--plain"])
    wanted = (code, *capsys.readouterr())
    assert code == (ExitCode.USAGE if command == "completion" else ExitCode.ERROR)
    said = set()
    for place in range(len(words) + 1):
        assert (main([*words[:place], "--plain", *words[place:]]), *capsys.readouterr()) == wanted
        document = envelope(capsys, [*words[:place], "--json", *words[place:]], code)
        assert document["command"] == command
        said.add(json.dumps(document))
    assert len(said) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_is_the_same_in_every_mode(command: str, nowhere: Path, capsys: Capture) -> None:
    """Message and hint for people are those of the envelope; standard output stays empty."""
    code = main([*line(command), "--plain"])
    out, plain = capsys.readouterr()
    error = envelope(capsys, [*line(command), "--json"], code)["error"]
    assert out == ""
    assert f"Error: {error['message'].splitlines()[0]}" in plain.splitlines()  # type: ignore[index]
    assert f"Hint: {error['hint'].splitlines()[0]}" in plain.splitlines()  # type: ignore[index]
    assert "Traceback" not in plain


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in WITHOUT_WORKSPACE])
def test_a_missing_workspace_is_told(command: str, nowhere: Path, capsys: Capture) -> None:
    """Where a command looks for a workspace, or for a file, in vain, the error says which, with exit code 1."""
    code = envelope(capsys, [*line(command), "--json"], ExitCode.ERROR)["error"]["code"]  # type: ignore[index]
    assert code in (ErrorCode.WORKSPACE_REQUIRED, ErrorCode.NOT_FOUND)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "completion"])
def test_a_directory_that_is_gone(command: str, nowhere: Path, capsys: Capture) -> None:
    """Somebody removed the directory in which the shell stands: an error in words, from every command that looks at files."""
    nowhere.rmdir()
    document = envelope(capsys, [*line(command), "--json"], ExitCode.ERROR)
    assert document["error"]["code"] == ErrorCode.NOT_FOUND  # type: ignore[index]


def options(command: str) -> list[tuple[str, bool]]:
    """The long options of a command, and whether each is a flag."""
    return [
        (name, argument.hint is bool) for argument in arguments_of(command) for name in argument.names if name.startswith("--")
    ]


def slip(option: str) -> str:
    """The option with its last two letters swapped, or one of two equal ones left out."""
    return option[:-2] + option[-1] + option[-2] if option[-1] != option[-2] else option[:-1]


OPTIONS = [(command, option) for command in COMMANDS for option, _ in options(command)]
WITH_VALUE = [(command, option) for command in COMMANDS for option, flag in options(command) if not flag]


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_a_slip_in_any_option_is_noticed(command: str, option: str, nowhere: Path, capsys: Capture) -> None:
    """Did-you-mean on every level, options too: usage error, and the option that was meant."""
    document = envelope(capsys, [*line(command), slip(option), "--json"], ExitCode.USAGE)
    message = document["error"]["message"]  # type: ignore[index]
    assert message == f'Unknown option "{slip(option)}". Did you mean "{option}"?'
    assert document["command"] == command


@pytest.mark.parametrize(("command", "option"), WITH_VALUE)
def test_an_option_without_its_value(command: str, option: str, nowhere: Path, capsys: Capture) -> None:
    """The option stands at the end of the line: usage error that names it."""
    document = envelope(capsys, [*COMMANDS[command], option, "--json"], ExitCode.USAGE)
    assert document["error"]["message"] == f"Option {option} needs a value."  # type: ignore[index]


NUMBERS = [
    (command, argument.name)
    for command in COMMANDS
    for argument in arguments_of(command)
    if argument.name.startswith("--") and any(kind in str(argument.hint) for kind in ("int", "float"))
]


@pytest.mark.parametrize(("command", "option"), NUMBERS)
def test_a_value_of_the_wrong_type(command: str, option: str, nowhere: Path, capsys: Capture) -> None:
    """A word where a number belongs: usage error that names the option, the type and the word."""
    document = envelope(capsys, [*line(command), option, "many", "--json"], ExitCode.USAGE)
    assert re.fullmatch(f'{option} must be a (whole )?number, not "many".', document["error"]["message"])  # type: ignore[index]


def required(command: str) -> list[str]:
    """The arguments and options that a command cannot do without."""
    return [argument.name for argument in arguments_of(command) if argument.required]


@pytest.mark.parametrize("command", [name for name in COMMANDS if required(name)])
def test_a_missing_argument(command: str, nowhere: Path, capsys: Capture) -> None:
    """The command alone: usage error that names what is missing."""
    document = envelope(capsys, [*COMMANDS[command], "--json"], ExitCode.USAGE)
    assert document["error"]["message"] in [  # type: ignore[index]
        f"Missing {'option' if name.startswith('-') else 'argument'} {name}." for name in required(command)
    ]


def takes_many(command: str) -> bool:
    """Whether a command takes as many words as one likes."""
    return any(argument.field_info.kind is Parameter.VAR_POSITIONAL for argument in arguments_of(command))


@pytest.mark.parametrize("command", [name for name in COMMANDS if not takes_many(name)])
def test_one_argument_too_many(command: str, nowhere: Path, capsys: Capture) -> None:
    """A word that belongs nowhere: usage error that shows it."""
    document = envelope(capsys, [*parsed_line(command), "surplus", "--json"], ExitCode.USAGE)
    assert document["error"]["message"] == "Unexpected argument: surplus."  # type: ignore[index]


@contextmanager
def interrupted_in(function: Callable[..., object], number: signal.Signals) -> Iterator[None]:
    """Send this process a real signal the moment `function` is entered."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            sys.setprofile(None)
            signal.raise_signal(number)

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("mode", [[], ["--plain"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_in_any_command(command: str, mode: list[str], nowhere: Path, capsys: Capture) -> None:
    """Ctrl-C while a command works: 130, standard output empty, one word for people."""
    function = TREE[COMMANDS[command]].default_command
    assert function is not None
    with interrupted_in(function, signal.SIGINT):
        code = main([*parsed_line(command), *mode])
    assert (code, *capsys.readouterr()) == (130, "", "Interrupted.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_in_any_command_told_to_a_program(
    command: str, number: signal.Signals, nowhere: Path, capsys: Capture
) -> None:
    """Ctrl-C, SIGTERM and SIGHUP alike are an error to a program: an envelope of one line that names the command."""
    function = TREE[COMMANDS[command]].default_command
    assert function is not None
    with interrupted_in(function, number):
        document = envelope(capsys, [*parsed_line(command), "--json"], ExitCode.INTERRUPTED)
    assert (document["command"], document["error"]["code"]) == (command, "INTERRUPTED")  # type: ignore[index]


def test_an_interrupt_while_a_result_is_shown(nowhere: Path, capsys: Capture) -> None:
    """The command has done its work; that it did not get to show it is told all the same."""
    with interrupted_in(Output.result, signal.SIGTERM):
        assert main(["completion", "bash", "--json"]) == ExitCode.INTERRUPTED
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "INTERRUPTED"


@pytest.mark.parametrize("group", [" ".join(group) for group in GROUPS])
@pytest.mark.parametrize("mode", [[], ["--plain"]])
def test_a_word_that_is_no_command(group: str, mode: list[str], capsys: Capture) -> None:
    """Nothing like it in this group: the commands that there are; `help` is no exception."""
    assert main([*group.split(), "xyzzy", *mode]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    names = sorted(name for name in TREE[tuple(group.split())] if not name.startswith("-"))
    assert out == ""
    assert err.splitlines()[0] == f'Error: Unknown command "xyzzy". Commands: {", ".join(names)}.'


def test_every_ending_has_its_exit_code() -> None:
    """Ruling 12 as a table: 0 done, nothing to do or declined; 1 incomplete or unsound; 3 all failed; 130 interrupted."""
    assert {status: int(code) for status, code in RUN_EXIT_CODES.items()} == {
        RunStatus.SUCCESS: 0,
        RunStatus.NOOP: 0,
        RunStatus.CANCELLED: 0,
        RunStatus.PARTIAL: 1,
        RunStatus.ALL_FAILED: 3,
        RunStatus.INTERRUPTED: 130,
    }
    assert set(RUN_EXIT_CODES) == set(RunStatus)
    assert set(AUDIT_EXIT_CODES) == set(AuditStatus)
    assert {int(code) for code in ExitCode} == {0, 1, 2, 3, 4, 5, 130}
