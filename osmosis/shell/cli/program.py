"""From a command line to an exit code: parse, run one command, present its result or its error (contract `cli.md` section 1).

Whatever goes wrong ends as one message or one JSON envelope on standard error. A traceback is shown for defects of ours
alone, and only under `OSMOSIS_DEBUG=1`.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cyclopts import App, CycloptsError

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.exit_codes import ExitCode
from osmosis.shell.cli.help_page import HELP_FLAGS, Page, page_asked_for, write_page
from osmosis.shell.cli.modes import Mode, UsageError, conflicting_modes, take_mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import CommandResult
from osmosis.shell.cli.usage import ROOT, command_path, usage_error

DEBUG_VARIABLE = "OSMOSIS_DEBUG"


def run_program(arguments: list[str], build: Callable[[], App] = build_app) -> int:
    """Run one command line of the command tree that `build` gives, in this process, and return its exit code."""
    mode, words = take_mode(arguments)
    debug = os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    if not debug and not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries are for us; standard error is the user's
    output = Output.of_process(mode, os.environ)
    command = [ROOT]
    try:
        if conflict := conflicting_modes(arguments):
            raise conflict
        result = _run_command(build, words, output, command.append)
        return _present(result, output) if result is not None else ExitCode.SUCCESS
    except KeyboardInterrupt:
        output.interruption(command[-1])
        return ExitCode.INTERRUPTED
    except OsmosisError as error:
        output.failure(command[-1], error)
        return ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.ERROR
    except Exception as error:  # noqa: BLE001 - the outermost frame: whatever is left is a defect, and is reported as one
        output.failure(command[-1], _defect(error, debug=debug))
        return ExitCode.ERROR


def _run_command(
    build: Callable[[], App], words: list[str], output: Output, entered: Callable[[str], None]
) -> CommandResult | None:
    """Parse and run one command. None if it was a request for help, which is written already.

    `entered` learns the path of the command as soon as it is known, for the error envelope.
    """
    app = build()
    entered(command_path(app, words))
    try:
        function, bound, injected = app.parse_args(words, exit_on_error=False, print_error=False, help_on_error=False)
    except CycloptsError as error:
        raise usage_error(error) from None
    if getattr(function, "__func__", None) is App.help_print:
        _show_help(build(), words, output)
        return None
    result = function(*bound.args, **bound.kwargs, **_injected(injected, output))
    if not isinstance(result, CommandResult):
        raise TypeError("the command returned no result")
    return result


def _injected(parameters: Mapping[str, Any], output: Output) -> dict[str, Any]:
    return dict.fromkeys(parameters, output)


def _show_help(app: App, words: list[str], output: Output) -> None:
    """Help that was asked for in another way than `main` looks for: the flag behind an argument, say."""
    path, _, _ = app.parse_commands([word for word in words if word not in HELP_FLAGS])
    page = page_asked_for([*path, HELP_FLAGS[0]]) or _drawn_page(app, path)
    write_page(page, output.stdout, plain=output.mode is not Mode.RICH, environment=os.environ)


def _drawn_page(app: App, path: Sequence[str]) -> Page:
    """The page of a command for which none lies ready."""
    from osmosis.shell.cli.help_capture import page_of  # noqa: PLC0415 - brings rich

    return page_of(app, path)


def _present(result: CommandResult, output: Output) -> int:
    output.result(result)
    fault = output.stdout.fault
    if fault is not None and fault.errno != errno.EPIPE:
        # A reader that went away had enough; a full disk did not get the result.
        output.failure(result.operation.replace(".", " "), _unwritten(fault))
        return ExitCode.ERROR if result.exit_code is ExitCode.SUCCESS else result.exit_code
    return result.exit_code


def tell_interruption(arguments: list[str]) -> None:
    """Say that a command line was interrupted before `run_program` had it, or after."""
    mode, _ = take_mode(arguments)
    Output.of_process(mode, os.environ).interruption(ROOT)


def tell_loss(arguments: list[str], fault: OSError) -> int:
    """The exit code of a text that did not get out, which is told where it was more than a reader who went away."""
    if fault.errno == errno.EPIPE:
        return ExitCode.SUCCESS
    mode, _ = take_mode(arguments)
    Output.of_process(mode, os.environ).failure(ROOT, _unwritten(fault, "Check what standard output leads to."))
    return ExitCode.ERROR


def _unwritten(fault: OSError, hint: str = "The run itself is not affected; its files are complete.") -> OsmosisError:
    reason = os.strerror(fault.errno) if fault.errno else str(fault)
    return OsmosisError(f"The result could not be written to standard output: {reason}.", code=ErrorCode.INTERNAL, hint=hint)


def _defect(error: Exception, *, debug: bool) -> OsmosisError:
    trace = "".join(traceback.format_exception(error)) if debug else ""
    message = f"Unexpected {type(error).__name__}: {error}".rstrip(": ")
    details = {"exception_type": type(error).__name__, **({"traceback": trace} if debug else {})}
    hint = f"This is a defect in osmosis. Set {DEBUG_VARIABLE}=1 to see the traceback, and report it with the command you ran."
    return OsmosisError(
        f"{message}\n{trace}".rstrip() if debug else message, code=ErrorCode.INTERNAL, hint=hint, details=details
    )
