"""The whole tree of commands against the contract: each help text, each error, each envelope (issue 9; `cli.md` section 1)."""

from __future__ import annotations

import json
import re

import pytest

from osmosis import __version__
from osmosis.pure.errors import ErrorCode
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.main import main
from tests.strategies.cli_tree import COMMANDS, GROUPS, TREE, walk

LABELS = {" ".join(path) or "osmosis": path for path in TREE}


def test_the_tree_has_the_commands_of_the_issue() -> None:
    """The walk below reaches what it is meant to reach."""
    wanted = "doctor, completion, eval run, eval list, eval info, eval logs, eval open, eval verify, eval compare, eval export"
    assert set(wanted.split(", ")) <= set(COMMANDS)
    assert {(), ("eval",), ("rollout",)} <= set(GROUPS)


@pytest.mark.parametrize("mode", [[], ["--plain"]])
@pytest.mark.parametrize("label", LABELS)
def test_help(label: str, mode: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Help goes to standard output alone and exits with 0: usage, one sentence of what it does, then more, in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    path = LABELS[label]
    assert main([*path, "--help", *mode]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    usage, _, body = out.partition("\n\n")
    assert usage.startswith(f"Usage: {' '.join(('osmosis', *path))}")
    summary = body.partition("\n\n")[0].replace("\n", " ")
    assert re.fullmatch(r"[A-Z].*[.?!]", summary), summary
    assert len(summary) <= 80
    assert "--json" in out
    assert "--plain" in out
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert "\x1b" not in out


@pytest.mark.parametrize("label", COMMANDS)
def test_every_parameter_is_explained(label: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No argument and no option stands there without a sentence about it."""
    monkeypatch.setenv("COLUMNS", "200")
    main([*label.split(), "--help", "--plain"])
    lines = capsys.readouterr().out.splitlines()
    parameters = [
        line for line in lines if re.match(r"  (?:[A-Z][A-Z]+ --|[A-Z]+:|--?[a-z])", line) and not line.startswith("  --json ")
    ]
    assert all(": " in line and len(line.partition(": ")[2]) > 3 for line in parameters if not line.startswith("  --plain "))


def envelope(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The error of a wrong command line: exit code 2, one JSON line on standard error, nothing on standard output."""
    assert main([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    document = json.loads(err)
    assert list(document) == ["schema_version", "command", "cli_version", "error"]
    assert (document["schema_version"], document["cli_version"]) == (1, __version__)
    assert list(document["error"]) == ["code", "message", "details", "hint"]
    assert document["error"]["code"] == ErrorCode.VALIDATION
    assert document["error"]["hint"].startswith("See `osmosis")
    return document


def required(label: str) -> list[str]:
    """Some value for each option that the command cannot do without."""
    app = TREE[LABELS[label]]
    if app.default_command is None:
        return []
    options = [
        argument for argument in app.assemble_argument_collection(parse_docstring=False) if argument.required and argument.parse
    ]
    return [word for argument in options if argument.name.startswith("-") for word in (argument.name, "jsonl")]


@pytest.mark.parametrize("label", LABELS)
def test_an_unknown_option_is_a_usage_error(label: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At every place of the tree, the envelope names the command and the message the option."""
    path = LABELS[label]
    document = envelope([*path, *required(label), "--no-such-option"], capsys)
    assert document["command"] == (" ".join(path) or "<root>")
    assert '"--no-such-option"' in document["error"]["message"]  # type: ignore[index]


@pytest.mark.parametrize("path", [path for path in LABELS.values() if path])
def test_a_slip_in_any_word_is_noticed(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Did-you-mean on every level: the last word with its last two letters swapped, or one of two equal ones left out."""
    word = path[-1]
    slip = word[:-2] + word[-1] + word[-2] if word[-1] != word[-2] else word[:-1]
    document = envelope([*path[:-1], slip], capsys)
    assert document["command"] == " ".join((*path[:-1], slip))
    assert document["error"]["message"] == f'Unknown command "{slip}". Did you mean "{word}"?'  # type: ignore[index]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_shows_its_help(group: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command there is nothing wrong yet: the help, and exit code 0."""
    assert main(list(group)) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: ")
    assert err == ""


def test_every_command_is_an_import_of_its_own() -> None:
    """Building the tree imports no command: `--help` of one command does not pay for the others."""
    unresolved = [path for path, app in walk(build_app()) if path and path not in GROUPS]
    assert unresolved == list(COMMANDS.values())
