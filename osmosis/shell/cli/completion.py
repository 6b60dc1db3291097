"""`osmosis completion SHELL`: a script that completes commands and options on Tab (issue 9).

The command framework writes the script from the tree of commands; `adapted` adds the options that may stand anywhere, which the
framework does not know, and takes away `--version` where only the root has it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.modes import MODE_FLAGS
from osmosis.shell.cli.result import OperationResult, Script

OPERATION = "completion"

Shell = Literal["bash", "zsh", "fish"]
ShellArgument = Annotated[Shell, Parameter(help="bash, zsh or fish.")]

_MODE_HELP = {"--json": "Write JSON, one object a line.", "--plain": "Write plain lines."}


class CompletionResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    shell: str
    script: str


def completion(shell: ShellArgument, /) -> OperationResult:
    """Print a completion script. The help text stands in `app`, where it needs no import of this module."""
    return completion_result(shell, adapted(build_app().generate_completion(shell=shell), shell))


def completion_result(shell: str, script: str) -> OperationResult:
    """The script, written as it is in rich and plain output: it is meant for `eval`."""
    return OperationResult(
        operation=OPERATION,
        status="success",
        resource=CompletionResource(shell, script),
        message="",
        blocks=(Script(script),),
    )


def adapted(script: str, shell: Shell) -> str:
    """The framework's script with our options that may stand anywhere."""
    return _ADAPT[shell](script)


def _bash(script: str) -> str:
    modes = " ".join(f'"{flag}"' for flag in MODE_FLAGS)
    head, version, rest = script.partition(' "--version" "-V"')
    return f"{head}{version}{rest.replace(version, '')}".replace('"--help" "-h"', f'"--help" "-h" {modes}')


def _zsh(script: str) -> str:
    lines: list[str] = []
    versions = 0
    for line in script.splitlines():
        if line.lstrip().startswith(("'--version[", "'-V[")):
            versions += 1
            if versions > 2:
                continue
        lines.append(line)
        if line.lstrip().startswith("'-h["):
            indent = line[: len(line) - len(line.lstrip())]
            lines.extend(f"{indent}'{flag}[{_MODE_HELP[flag]}]' \\" for flag in MODE_FLAGS)
    return "\n".join(lines) + "\n"


def _fish(script: str) -> str:
    lines: list[str] = []
    for line in script.splitlines():
        if re.search(r" -(?:l version|s V) ", line) and "__fish_use_subcommand" not in line:
            continue
        lines.append(line)
        if " -l help " in line:
            condition = line.partition(" -l help ")[0]
            lines.extend(f"{condition} -l {flag.removeprefix('--')} -d '{_MODE_HELP[flag]}'" for flag in MODE_FLAGS)
    return "\n".join(lines) + "\n"


_ADAPT = {"bash": _bash, "zsh": _zsh, "fish": _fish}
