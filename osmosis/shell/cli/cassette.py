"""`osmosis cassette inspect|prune|diff`: look at recorded model calls, keep a part of them, compare two recordings.

No workspace, no key and no model is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from osmosis.pure.cassette import Cassette
from osmosis.pure.cassette_report import compare, pruned
from osmosis.pure.selection import parse_rows
from osmosis.shell.cli.cassette_result import diff_result, inspect_result, prune_result
from osmosis.shell.cli.result import OperationResult
from osmosis.shell.cli.surroundings import needs_extra, working_directory

FileArgument = Annotated[Path, Parameter(help="A cassette file.")]


def cassette_inspect(file: FileArgument, /) -> OperationResult:
    """Show what a cassette holds. The help text stands in `app`, where it needs no import of this module."""
    path = working_directory() / file.expanduser()
    return inspect_result(str(path), _load(path, "cassette inspect"))


def cassette_prune(
    file: FileArgument,
    /,
    *,
    rows: Annotated[str | None, Parameter(help="Dataset rows to keep, from 0: 3,7,10-20.")] = None,
    runs: Annotated[
        int | None, Parameter(help="How many runs of each row to keep.", validator=validators.Number(gte=1))
    ] = None,
    drop_refusals: Annotated[bool, Parameter(help="Drop recorded refusals of the model (4xx).")] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write the result here instead of replacing FILE.")
    ] = None,
) -> OperationResult:
    """Keep a part of a cassette, in its normal form. The help text stands in `app`."""
    directory = working_directory()
    path = directory / file.expanduser()
    target = path if output is None else directory / output.expanduser()
    selection = parse_rows(rows) if rows else None
    with needs_extra("cassette prune"):
        from osmosis.shell.bridge.cassette_file import load_cassette, open_locked, write_cassette  # noqa: PLC0415 - aiohttp

        whole = load_cassette(path)
        part = pruned(
            whole, rows=selection.__contains__ if selection else lambda _: True, runs=runs, refusals=not drop_refusals
        )
        with open(open_locked(target), "wb", buffering=0):
            write_cassette(target, part)
    return prune_result(str(path), str(target), part, len(whole.calls) - len(part.calls), str(directory))


def cassette_diff(
    first: FileArgument,
    second: Annotated[Path, Parameter(help="The cassette file to compare it with.")],
    /,
) -> OperationResult:
    """Say which recorded calls differ. The help text stands in `app`."""
    directory = working_directory()
    paths = [directory / file.expanduser() for file in (first, second)]
    return diff_result(str(paths[0]), str(paths[1]), compare(*(_load(path, "cassette diff") for path in paths)))


def _load(path: Path, command: str) -> Cassette:
    with needs_extra(command):
        from osmosis.shell.bridge.cassette_file import load_cassette  # noqa: PLC0415 - brings aiohttp

        return load_cassette(path)
