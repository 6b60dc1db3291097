"""A new rollout's files: which ones, where, and what they say (requirement E21; contract: rollout_protocol section 18).

Unlike the public scaffold's stubs, the rollout works as it is: it asks the model and scores the answer, and a small dataset
lies beside it. Templates are text with one placeholder; reading them and writing the files is the shell's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from osmosis.pure.errors import OsmosisError, Problem

PLACEHOLDER: Final = "<your-rollout>"
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_RESERVED: Final = frozenset({"default"})

ROLLOUT_DIRECTORY: Final = f"rollouts/{PLACEHOLDER}"
TEMPLATES: Final[Mapping[str, str]] = {
    "main.py.txt": f"{ROLLOUT_DIRECTORY}/main.py",
    "pyproject.toml.txt": f"{ROLLOUT_DIRECTORY}/pyproject.toml",
    "README.md.txt": f"{ROLLOUT_DIRECTORY}/README.md",
    "eval.toml.txt": f"configs/eval/{PLACEHOLDER}.toml",
    "training.toml.txt": f"configs/training/{PLACEHOLDER}.toml",
    "dataset.jsonl.txt": f"data/{PLACEHOLDER}.jsonl",
}
"""Each template, and where in the workspace its file goes."""


class ScaffoldFile(msgspec.Struct, frozen=True):
    """One file: its path in the workspace, with `/` between segments, and its text."""

    path: str
    text: str


class Scaffold(msgspec.Struct, frozen=True):
    """A rollout to write: its directory, the files in it, and those outside."""

    name: str
    rollout_directory: str
    files: tuple[ScaffoldFile, ...]

    @property
    def inside(self) -> tuple[ScaffoldFile, ...]:
        """The files of the rollout's own directory."""
        return tuple(file for file in self.files if file.path.startswith(self.rollout_directory + "/"))

    @property
    def outside(self) -> tuple[ScaffoldFile, ...]:
        """The configs and the dataset."""
        return tuple(file for file in self.files if file not in self.inside)


class ScaffoldReport(msgspec.Struct, frozen=True):
    """What was written. Paths are absolute; `replaced` are the targets that were there before."""

    name: str
    workspace_directory: str
    rollout_directory: str
    configs: Mapping[str, str]
    dataset: str
    files: tuple[str, ...]
    replaced: tuple[str, ...] = ()


def check_name(name: str) -> None:
    """Raise OsmosisError unless a rollout may have this name: lower-case letters, digits and hyphens, a letter first."""
    if not _NAME.fullmatch(name):
        problem = "must hold lower-case letters, digits and hyphens only, and begin with a letter"
    elif name in _RESERVED:
        problem = "is a reserved name"
    else:
        return
    raise OsmosisError(
        f"{name!r} cannot be the name of a rollout.",
        problems=[Problem("NAME", problem, "name")],
        hint="Choose another name, such as word-problems.",
    )


def scaffold(name: str, templates: Mapping[str, str], sdk_checkout: str | None) -> Scaffold:
    """The files of a new rollout. `templates` are the texts of `TEMPLATES`; `sdk_checkout` is the path of a source checkout of
    this package that uv is to take it from, seen from the rollout's directory or absolute (E21)."""
    check_name(name)
    files = [
        ScaffoldFile(path.replace(PLACEHOLDER, name), _filled(template, templates[template], name, sdk_checkout))
        for template, path in TEMPLATES.items()
    ]
    return Scaffold(name, ROLLOUT_DIRECTORY.replace(PLACEHOLDER, name), tuple(files))


def _filled(template: str, text: str, name: str, sdk_checkout: str | None) -> str:
    text = text.replace(PLACEHOLDER, name)
    if template != "pyproject.toml.txt" or sdk_checkout is None:
        return text
    # A JSON string is a TOML string too, but for two things: TOML knows no surrogate pairs, and wants DEL escaped.
    path = json.dumps(sdk_checkout, ensure_ascii=False).replace("\x7f", "\\u007f")
    source = f"osmosis-ai = {{ path = {path}, editable = true }}"
    return f"{text}\n# The source checkout that made this rollout.\n[tool.uv.sources]\n{source}\n"
