"""One error family for the whole product (requirement D1; contract `cli.md` section 1).

An error tells a person what happened (`message`), where (`problems`, each with its file, line or row) and what to do next
(`hint`). `code` and `details` are for programs: they travel unchanged into the JSON error envelope. Whoever detects several
problems in one input raises one error that carries them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgspec


class ErrorCode(StrEnum):
    """The closed set of machine-readable error codes that local commands use."""

    VALIDATION = "VALIDATION"
    """An input is not what it must be: the command line, a config, a dataset, a file of a run."""
    NOT_FOUND = "NOT_FOUND"
    """There is no such file, run or row."""
    CONFLICT = "CONFLICT"
    """It is there already, belongs to other inputs, or somebody else works on it."""
    WORKSPACE_REQUIRED = "WORKSPACE_REQUIRED"
    """The command was not run inside a workspace."""
    INTERACTIVE_REQUIRED = "INTERACTIVE_REQUIRED"
    """A question would have to be asked, and nobody can be asked."""
    AUTH_REQUIRED = "AUTH_REQUIRED"
    """A key is missing, or was rejected."""
    RATE_LIMITED = "RATE_LIMITED"
    """A provider takes no more requests now."""
    NETWORK = "NETWORK"
    """A host does not answer."""
    PLATFORM_ERROR = "PLATFORM_ERROR"
    """A provider or a platform answered with an error of its own."""
    INTERRUPTED = "INTERRUPTED"
    """Ctrl-C or a termination signal ended the command before it had a result."""
    INTERNAL = "INTERNAL"
    """A fault of Osmosis itself."""


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with an input.

    `where` locates it for a person (`configs/eval/x.toml:12`, `data.csv:7`, `row 3`); `key` names the offending field for a
    program (`experiment.dataset`) where there is one.
    """

    where: str
    message: str
    key: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class OsmosisError(Exception):
    """Something a person can act on. Never shown with a traceback.

    `message` is one sentence without a trailing list; `problems` are listed below it; `hint` is the next step.
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.VALIDATION,
        problems: Iterable[Problem] = (),
        hint: str | None = None,
        details: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.problems = tuple(problems)
        self.hint = hint
        self.details = dict(details)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"  {problem}" for problem in self.problems)])
