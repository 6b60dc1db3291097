"""From flags back to a command line: next steps that work when pasted, because they repeat every flag that matters.

A step keeps what decides *what* is run and *where* (dataset, rows, output, secrets, cassette, ports, concurrency) and how the
caller reads the answer (`--yes`, `--json`, `--plain`). It sets anew what decides *which run*: name, `--fresh`,
`--retry-failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from osmosis.pure.report import NextStep, RunReport, RunStatus
from osmosis.shell.cli.modes import Mode
from osmosis.shell.evaluation.request import RunRequest

PROGRAM = "osmosis"


class Invocation(msgspec.Struct, frozen=True):
    """An `osmosis eval run` with everything that was said on the command line."""

    request: RunRequest
    yes: bool = False
    verbose: bool = False
    events: bool = False
    mode: Mode = Mode.RICH


_VALUES: tuple[tuple[str, Callable[[RunRequest], object]], ...] = (
    ("--name", lambda request: request.name),
    ("--output", lambda request: request.output),
    ("--dataset-file", lambda request: request.dataset_file),
    ("--secrets-file", lambda request: request.secrets_file),
    ("--rows", lambda request: request.rows),
    ("--max-in-flight", lambda request: request.max_in_flight),
    ("--record", lambda request: request.record),
    ("--replay", lambda request: request.replay),
    ("--replay-or-record", lambda request: request.replay_or_record),
    ("--rollout-port", lambda request: request.rollout_port),
    ("--listener-port", lambda request: request.listener_port),
    ("--tunnel", lambda request: request.tunnel),
    ("--advertise-url", lambda request: request.advertise_url),
    ("--listener-host", lambda request: request.listener_host),
)
_FLAGS: tuple[tuple[str, Callable[[Invocation], bool]], ...] = (
    ("--fresh", lambda invocation: invocation.request.fresh),
    ("--retry-failed", lambda invocation: invocation.request.retry_failed),
    ("--yes", lambda invocation: invocation.yes),
    ("--verbose", lambda invocation: invocation.verbose),
    ("--events", lambda invocation: invocation.events),
    ("--json", lambda invocation: invocation.mode is Mode.JSON),
    ("--plain", lambda invocation: invocation.mode is Mode.PLAIN),
)


def eval_run_argv(invocation: Invocation) -> tuple[str, ...]:
    """The command line of `invocation`, program name first. Parsing it gives `invocation` back, run in the same directory."""
    return (PROGRAM, "eval", "run", _positional(invocation.request.config_path), *_options(invocation))


def _positional(path: Path) -> str:
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def _options(invocation: Invocation) -> Iterator[str]:
    for flag, read in _VALUES:
        value = read(invocation.request)
        if value is None:
            continue
        if (text := str(value)).startswith("-") and text != "-":
            yield f"{flag}={text}"  # otherwise it would read as the next option
        else:
            yield from (flag, text)
    yield from (flag for flag, read in _FLAGS if read(invocation))


def next_steps(invocation: Invocation, report: RunReport) -> tuple[NextStep, ...]:
    """What to do after `report` (E19; `eval_local.md` section 12).

    Incomplete: resume (with `--retry-failed` if that was going on, for the retries that are still to come). Complete with
    failures: retry them. Finished before this call: also a new run, or starting over under the same name. Skipped items alone
    ask for nothing.
    """
    match report.status:
        case RunStatus.CANCELLED:
            return ()
        case RunStatus.PARTIAL | RunStatus.INTERRUPTED:
            retrying = invocation.request.retry_failed
            return (_step("resume", "Resume", invocation, report.run_name, retry_failed=retrying),)
        case RunStatus.SUCCESS | RunStatus.ALL_FAILED:
            return _retry(invocation, report)
        case RunStatus.NOOP:
            return (
                *_retry(invocation, report),
                _step("new_run", "Start a new run", invocation, None),
                _step("fresh", "Archive this run and start over", invocation, report.run_name, fresh=True),
            )


def _retry(invocation: Invocation, report: RunReport) -> tuple[NextStep, ...]:
    if not report.failed:
        return ()
    return (_step("retry", "Retry the failed items", invocation, report.run_name, retry_failed=True),)


def _step(
    action: str, label: str, invocation: Invocation, name: str | None, *, fresh: bool = False, retry_failed: bool = False
) -> NextStep:
    request = msgspec.structs.replace(invocation.request, name=name, fresh=fresh, retry_failed=retry_failed)
    return NextStep(action, label, eval_run_argv(msgspec.structs.replace(invocation, request=request)))
