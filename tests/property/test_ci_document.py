"""The commands of `docs/ci.md` are commands that this version understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.modes import take_mode

DOCUMENT = Path(__file__).parents[2] / "docs" / "ci.md"
COMMANDS = [line.strip() for line in DOCUMENT.read_text().splitlines() if re.match(r"\s*osmosis ", line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    """No unknown command, option or value; flags of the output mode stand where they like."""
    _, words = take_mode(shlex.split(command)[1:])
    function, bound, _ = build_app().parse_args(words, exit_on_error=False, print_error=False)
    assert function.__name__ == f"eval_{words[1]}"
    assert bound.arguments


def test_the_whole_recipe_is_there():
    """Record, replay, export twice, gate."""
    assert [command.split()[2] for command in COMMANDS] == ["run", "run", "run", "export", "export", "gate"]
