"""`osmosis rollout serve-loop -m MODULE:ATTRIBUTE`: serve an agent loop to a trainer (contract `legacy_api.md` section 8).

Nothing is registered anywhere. A trainer needs the key; without one on the command line or in OSMOSIS_ROLLOUT_API_KEY a new one
is made and shown once. `--local` asks for none and listens on this machine alone.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter, validators

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.modes import Mode, UsageError
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.rollout_validate_loop import ModuleOption, issue_text, load, missing_extra, validated

OPERATION = "rollout.serve-loop"
KEY_VARIABLE = "OSMOSIS_ROLLOUT_API_KEY"

PortOption = Annotated[
    int,
    Parameter(name=("--port", "-p"), validator=validators.Number(gte=0, lte=65535), help="Port; 0 takes a free one [9000]."),
]
HostOption = Annotated[
    str | None, Parameter(name=("--host", "-H"), help="Address to listen on [0.0.0.0; with --local 127.0.0.1].")
]
LocalFlag = Annotated[bool, Parameter(name=("--local", "--local-debug"), help="Ask for no key; listen on this machine alone.")]
NoValidateFlag = Annotated[bool, Parameter(help="Serve without validating first.")]
KeyOption = Annotated[
    str | None, Parameter(help=f"Key that trainers must send; better in {KEY_VARIABLE}.", allow_leading_hyphen=True)
]
LevelOption = Annotated[
    Literal["critical", "error", "warning", "info", "debug", "trace"], Parameter(help="What the server logs [info].")
]
LogOption = Annotated[str | None, Parameter(name="--log", help="Directory for the events of ctx.log_event.")]


class ServeLoopResource(msgspec.Struct, frozen=True):
    """The `resource` of the JSON envelope."""

    module: str
    agent_loop: str
    host: str
    port: int


def rollout_serve_loop(
    *,
    module: ModuleOption,
    port: PortOption = 9000,
    host: HostOption = None,
    local: LocalFlag = False,
    no_validate: NoValidateFlag = False,
    api_key: KeyOption = None,
    log_level: LevelOption = "info",
    log: LogOption = None,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Serve an agent loop. The help text stands in `app`."""
    if local and api_key is not None:
        raise UsageError("--local and --api-key exclude each other.", hint="--local asks trainers for no key.")
    key = None if local else api_key or os.environ.get(KEY_VARIABLE) or None
    if key is None and not local and terminal.mode is Mode.JSON:
        raise UsageError("--json shows no new key.", hint=f"Set {KEY_VARIABLE}, or pass --local.")
    loop = load(module)
    if not no_validate:
        for warning in validated(loop, module).warnings:
            terminal.warning(warning.code, issue_text(warning))
    try:
        from osmosis.shell.remote_rollout import serve  # noqa: PLC0415 - brings FastAPI
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    address = host or (serve.LOCAL_HOST if local else serve.DEFAULT_HOST)
    if local and address != serve.LOCAL_HOST:
        terminal.warning("INSECURE_ADVERTISE_URL", f"Whoever reaches {address} can run this agent loop: no key is asked for.")
    try:
        listener = serve.bind(address, port)
        bound = listener.getsockname()[1]
        terminal.milestone(f"Serving {loop.name} on http://{address}:{bound}")
        if key is not None:
            terminal.protect([key])
        serve.serve_agent_loop(
            loop, validate=False, log_level=log_level, api_key=key, local_debug=local, debug_dir=log, listener=listener
        )
    except serve.ServeError as error:
        raise OsmosisError(f"{error}.", code=ErrorCode.CONFLICT, hint="Choose another --port or --host.") from None
    return serve_loop_result(ServeLoopResource(module, loop.name, address, bound))


def serve_loop_result(resource: ServeLoopResource) -> OperationResult:
    """The loop was served until it was told to stop."""
    return OperationResult(OPERATION, "success", resource, "Stopped.")
