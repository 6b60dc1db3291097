"""Exit codes, in one place (ruling 12)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from osmosis.pure.finding import AuditStatus
from osmosis.pure.report import RunStatus


class ExitCode(IntEnum):
    """What a script learns without reading a word."""

    SUCCESS = 0
    """Success, nothing to do, or declined."""
    ERROR = 1
    """An error, a refusal, or a run that is not complete."""
    USAGE = 2
    """The command line itself is wrong."""
    ALL_FAILED = 3
    """The run finished and every item failed."""
    GATE_FAILED = 4
    """`eval gate`: the run fell behind its baseline by more than is allowed."""
    GATE_INCONCLUSIVE = 5
    """`eval gate`: the data cannot tell."""
    INTERRUPTED = 130
    """Ctrl-C or a termination signal (128 + SIGINT, as shells report it)."""


RUN_EXIT_CODES: Mapping[RunStatus, ExitCode] = MappingProxyType(
    {
        RunStatus.SUCCESS: ExitCode.SUCCESS,
        RunStatus.NOOP: ExitCode.SUCCESS,
        RunStatus.CANCELLED: ExitCode.SUCCESS,
        RunStatus.PARTIAL: ExitCode.ERROR,
        RunStatus.ALL_FAILED: ExitCode.ALL_FAILED,
        RunStatus.INTERRUPTED: ExitCode.INTERRUPTED,
    }
)

AUDIT_EXIT_CODES: Mapping[AuditStatus, ExitCode] = MappingProxyType(
    {
        AuditStatus.SOUND: ExitCode.SUCCESS,
        AuditStatus.REPAIRED: ExitCode.SUCCESS,
        AuditStatus.UNSOUND: ExitCode.ERROR,
    }
)
"""From the end of an audit to the exit code."""
