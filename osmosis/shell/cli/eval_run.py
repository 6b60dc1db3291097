"""`osmosis eval run CONFIG`: flags in, the runner called, its report out (contract `eval_local.md` section 12)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Group, Parameter, validators

from osmosis.pure.report import RunReport
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.invocation import Invocation, next_steps
from osmosis.shell.cli.modes import Mode, UsageError
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.run_result import run_result
from osmosis.shell.cli.run_view import TerminalRunView
from osmosis.shell.cli.surroundings import needs_extra, working_directory
from osmosis.shell.evaluation.request import RunRequest
from osmosis.shell.evaluation.view import RunView


def _not_an_option(_type: object, value: str | None) -> None:
    if value is not None and value.startswith("-") and value != "-":
        raise ValueError("Must not start with a dash; write ./NAME for such a file.")


def _one_cassette(arguments: object) -> None:
    try:
        validators.mutually_exclusive(arguments)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError("The cassette options exclude each other.") from None


_RUN = Group("Run", sort_key=1)
_INPUT = Group("Input", sort_key=2)
_CASSETTE = Group("Cassette", sort_key=3, validator=_one_cassette)
_ADVANCED = Group("Advanced", sort_key=4)
_PORT = validators.Number(gte=1, lte=65535)

NameOption = Annotated[str | None, Parameter(group=_RUN, help="Name of the run. An existing name resumes that run.")]
OutputOption = Annotated[
    Path | None, Parameter(name=("--output", "-o"), group=_RUN, help="Directory for run directories [.osmosis/evals].")
]
FreshFlag = Annotated[bool, Parameter(group=_RUN, help="Archive the run of this name and start over.")]
RetryFlag = Annotated[bool, Parameter(group=_RUN, help="Run failed and skipped items again; keep every success.")]
YesFlag = Annotated[bool, Parameter(name=("--yes", "-y"), group=_RUN, help="Go ahead without asking.")]
DatasetOption = Annotated[Path | None, Parameter(group=_INPUT, help="Dataset file: .jsonl, .csv or .parquet.")]
RowsOption = Annotated[str | None, Parameter(group=_INPUT, help="Rows to run, from 0: 3,7,10-20.")]
SecretsOption = Annotated[
    str | None,
    Parameter(
        group=_INPUT,
        help="File with NAME=value lines; - reads standard input.",
        allow_leading_hyphen=True,
        validator=_not_an_option,
    ),
]
RecordOption = Annotated[Path | None, Parameter(group=_CASSETTE, help="Record every model call in this file.")]
ReplayOption = Annotated[Path | None, Parameter(group=_CASSETTE, help="Answer model calls from this file; call no model.")]
ReplayOrRecordOption = Annotated[
    Path | None,
    Parameter(group=_CASSETTE, help="Answer from this file what it holds; record the rest in it."),
]
InFlightOption = Annotated[
    int | None, Parameter(group=_ADVANCED, validator=validators.Number(gte=1), help="Rollouts that may run at once.")
]
RolloutPortOption = Annotated[int | None, Parameter(group=_ADVANCED, validator=_PORT, help="Port of the rollout server.")]
ListenerPortOption = Annotated[int | None, Parameter(group=_ADVANCED, validator=_PORT, help="Port of the model bridge.")]
TunnelOption = Annotated[
    Literal["cloudflared"] | None,
    Parameter(group=_ADVANCED, help="Reach the model through a managed tunnel; chosen by itself where a sandbox needs one."),
]
AdvertiseOption = Annotated[
    str | None, Parameter(group=_ADVANCED, help="Public URL of a tunnel of your own to --listener-port.")
]
ListenerHostOption = Annotated[
    str | None,
    Parameter(
        group=_ADVANCED,
        help="Let docker or podman sandboxes reach the model: auto, or this machine's address in their network.",
    ),
]
EventsFlag = Annotated[bool, Parameter(group=_RUN, help="With --json: write events to standard error as they happen.")]
VerboseFlag = Annotated[bool, Parameter(group=_ADVANCED, help="Echo the log of the run.")]


def eval_run(
    config: Annotated[Path, Parameter(help="Eval config: configs/eval/NAME.toml.")],
    /,
    *,
    name: NameOption = None,
    output: OutputOption = None,
    fresh: FreshFlag = False,
    retry_failed: RetryFlag = False,
    yes: YesFlag = False,
    events: EventsFlag = False,
    dataset_file: DatasetOption = None,
    rows: RowsOption = None,
    secrets_file: SecretsOption = None,
    record: RecordOption = None,
    replay: ReplayOption = None,
    replay_or_record: ReplayOrRecordOption = None,
    max_in_flight: InFlightOption = None,
    rollout_port: RolloutPortOption = None,
    listener_port: ListenerPortOption = None,
    tunnel: TunnelOption = None,
    advertise_url: AdvertiseOption = None,
    listener_host: ListenerHostOption = None,
    verbose: VerboseFlag = False,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Run an evaluation on this machine. The help text stands in `app`, where it needs no import of this module."""
    if events and terminal.mode is not Mode.JSON:
        raise UsageError("--events needs --json.", hint="Pass both, or neither.")
    request = RunRequest(
        config_path=config,
        working_directory=working_directory(),
        name=name or None,
        output=output,
        dataset_file=dataset_file,
        secrets_file=secrets_file,
        rows=rows,
        fresh=fresh,
        retry_failed=retry_failed,
        max_in_flight=max_in_flight,
        record=record,
        replay=replay,
        rollout_port=rollout_port,
        listener_port=listener_port,
        tunnel=tunnel,
        advertise_url=advertise_url,
        listener_host=listener_host,
        replay_or_record=replay_or_record,
    )
    return run(Invocation(request, yes=yes, verbose=verbose, events=events, mode=terminal.mode), terminal)


def run(invocation: Invocation, terminal: Output) -> OperationResult:
    """Run what `invocation` asks for, watched on `terminal`."""
    directory = str(invocation.request.working_directory)
    with TerminalRunView(
        terminal,
        working_directory=directory,
        yes=invocation.yes,
        verbose=invocation.verbose,
        stdin=sys.stdin,
        stdin_taken=invocation.request.secrets_file == "-",
        events=invocation.events,
    ) as view:
        report = _evaluate(invocation.request, view)
    if not report.next_steps:
        report = msgspec.structs.replace(report, next_steps=next_steps(invocation, report))
    return run_result(report, directory)


def _evaluate(request: RunRequest, view: RunView) -> RunReport:
    with needs_extra("eval run"):
        from osmosis.shell.evaluation.run import run_evaluation  # noqa: PLC0415 - brings polars and aiohttp, when needed

        return run_evaluation(request, view)
