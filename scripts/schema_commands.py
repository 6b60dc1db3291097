"""What each command writes under `--json`: its envelope around the record of its result, and how it may end.

`generate_schemas.py` draws a schema of each, `generate_reference.py` a page. A command of the tree that is missing here fails
`tests/golden/test_schemas.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import GenericAlias, MappingProxyType
from typing import Any, Literal, NamedTuple

from osmosis.pure.errors import ErrorCode
from osmosis.pure.gate import GateReport
from osmosis.pure.log_page import LogEntry
from osmosis.pure.metrics_file import Metrics, Summary
from osmosis.pure.plan import RunInputs
from osmosis.pure.regrading import Regraded
from osmosis.pure.report import Counts, NextStep, Planned, RunStatus
from osmosis.pure.rubric_report import RubricStatus
from osmosis.shell.cli.audit_result import AuditResource
from osmosis.shell.cli.cassette_result import DiffResource, InspectResource, PruneResource
from osmosis.shell.cli.comparison_result import GATE_EXIT_CODES, ComparisonResource
from osmosis.shell.cli.completion import CompletionResource
from osmosis.shell.cli.doctor_result import DoctorResource
from osmosis.shell.cli.eval_open import OpenResource
from osmosis.shell.cli.eval_rubric import RubricResource
from osmosis.shell.cli.exit_codes import AUDIT_EXIT_CODES, RUN_EXIT_CODES, ExitCode
from osmosis.shell.cli.logs_result import END, LINE, LogEnd, LogExtra
from osmosis.shell.cli.present import SCHEMA_VERSION
from osmosis.shell.cli.rollout_init import ScaffoldResource
from osmosis.shell.cli.rollout_serve_loop import ServeLoopResource
from osmosis.shell.cli.rollout_validate import RolloutCheckResource
from osmosis.shell.cli.rollout_validate_loop import ValidateLoopResource
from osmosis.shell.cli.run_events import (
    ITEM_FINISHED,
    MILESTONE,
    PLANNED,
    PROGRESS,
    Finished,
    Milestone,
)
from osmosis.shell.cli.run_info_result import RunInfo
from osmosis.shell.cli.run_list_result import ListExtra, RunItem
from osmosis.shell.cli.run_result import RunResource
from osmosis.shell.evaluation.run_export import Exported
from osmosis.shell.evaluation.run_report import Reported
from scripts.schema_formats import Format, Nothing, Record, document, said


class Operation(NamedTuple):
    """A command that does something: the record under `resource`, and each `status` with the exit code that it means.

    `idle` is the record under `resource` where nothing was done, and with which statuses that may be.
    """

    resource: Record
    endings: Mapping[Any, ExitCode] = MappingProxyType({"success": ExitCode.SUCCESS})
    idle: tuple[Record, tuple[Any, ...]] | None = None


class Detail(NamedTuple):
    """A command that shows one thing: the record under `data`."""

    data: Record


class Listing(NamedTuple):
    """A command that shows many: the record of an item, and of the keys that the list has besides."""

    item: Record
    extra: Record


COMMANDS: Mapping[str, Operation | Detail | Listing] = {
    "doctor": Operation(DoctorResource),
    "completion": Operation(CompletionResource),
    "eval run": Operation(
        said(RunResource, metrics=Summary),
        RUN_EXIT_CODES,
        (said(RunResource, "IdleRunResource", metrics=Nothing), (RunStatus.CANCELLED, RunStatus.INTERRUPTED)),
    ),
    "eval list": Listing(RunItem, ListExtra),
    "eval info": Detail(
        said(RunInfo, config=RunInputs, env_config=dict[str, str], results=Summary | None, metrics=Metrics | None)
    ),
    "eval logs": Listing(LogEntry, LogExtra),
    "eval open": Operation(OpenResource, dict.fromkeys(("success", "noop"), ExitCode.SUCCESS)),
    "eval rubric": Operation(
        RubricResource,
        dict.fromkeys(RubricStatus, ExitCode.SUCCESS) | {RubricStatus.INTERRUPTED: ExitCode.INTERRUPTED},
    ),
    "eval verify": Operation(AuditResource, AUDIT_EXIT_CODES),
    "eval compare": Operation(ComparisonResource),
    "eval gate": Operation(GateReport, GATE_EXIT_CODES),
    "eval export": Operation(Exported),
    "eval report": Operation(Reported),
    "eval regrade": Operation(Regraded),
    "rollout init": Operation(ScaffoldResource),
    "rollout validate": Operation(RolloutCheckResource, {"success": ExitCode.SUCCESS, "failed": ExitCode.ERROR}),
    "rollout serve-loop": Operation(ServeLoopResource),
    "rollout validate-loop": Operation(ValidateLoopResource),
    "cassette inspect": Operation(InspectResource),
    "cassette prune": Operation(PruneResource),
    "cassette diff": Operation(DiffResource, dict.fromkeys(("same", "different"), ExitCode.SUCCESS)),
}
EVENTS: Mapping[str, Record] = {PLANNED: Planned, MILESTONE: Milestone, ITEM_FINISHED: Finished, PROGRESS: Counts}

FOLLOWED: Mapping[str, Record] = {LINE: LogEntry, END: LogEnd}
"""What `osmosis eval logs --follow --json` writes to standard output."""

_VERSION = {"schema_version": Literal[SCHEMA_VERSION]}


def envelope(command: str) -> Format:
    """The format of the one line that `osmosis COMMAND --json` writes to standard output."""
    title = f"osmosis {command} --json"
    made: tuple[Record, ...]
    match COMMANDS[command]:
        case Operation(resource, endings, idle):
            made = (_operation("Operation", f"What `osmosis {command}` did.", command, resource, endings),)
            if idle is not None:
                made += (_operation("IdleOperation", f"`osmosis {command}` did nothing.", command, *idle),)
        case Detail(data):
            made = (document("Detail", f"What `osmosis {command}` shows.", _VERSION, {"data": data}),)
        case Listing(item, extra):
            items = {"items": GenericAlias(tuple, (item, ...)), "total_count": int, "has_more": bool, "next_offset": int | None}
            made = (document("List", f"What `osmosis {command}` lists.", _VERSION, items, extra),)
    return Format(operation_name(command), title, made, "line")


def _operation(name: str, about: str, command: str, resource: Record, statuses: Iterable[Any]) -> Record:
    names = {
        "status": Literal[tuple(map(str, statuses))],
        "operation": Literal[operation_name(command)],
        "resource": resource,
    }
    return document(name, about, _VERSION, names, {"message": str, "next_steps_structured": tuple[NextStep, ...]})


def operation_name(command: str) -> str:
    """`eval.run`: the `operation` of the envelope, and the name of the schema."""
    return command.replace(" ", ".")


_WARNING = document("Text", "What is worth knowing.", {"code": str, "message": str})
_ERROR = document(
    "Fault",
    "What happened, and what to do next. `details.issues` lists every problem of an input: `key`, `where`, `message`.",
    {"code": ErrorCode, "message": str, "details": dict[str, Any], "hint": str | None},
)


def _event(name: str, data: Record) -> Record:
    fields = {"event": Literal[name], "at": str, "data": data}
    return document(f"Event_{name.replace('.', '_')}", f"`{name}`.", _VERSION, fields)


STREAM: tuple[Format, ...] = (
    Format(
        "warning",
        "A warning on standard error under --json",
        (document("Warning", "A warning.", _VERSION, {"cli_version": str, "warning": _WARNING}),),
        "line",
    ),
    Format(
        "error",
        "An error on standard error under --json",
        (document("Error", "An error.", _VERSION, {"command": str, "cli_version": str, "error": _ERROR}),),
        "line",
    ),
    Format(
        "event",
        "An event on standard error under osmosis eval run --json --events",
        tuple(_event(name, data) for name, data in EVENTS.items()),
        "line",
    ),
    Format(
        "log_event",
        "A line of osmosis eval logs --follow --json",
        tuple(_event(name, data) for name, data in FOLLOWED.items()),
        "line",
    ),
)
"""Lines of standard error, and of a log that is followed."""
