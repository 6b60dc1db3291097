"""`osmosis eval export`: one run written down for somebody else's tool (issue 8). The run itself is only read."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.github_report import step_summary, workflow_annotations
from osmosis.pure.journal import WorkItem
from osmosis.pure.junit_report import encode_junit
from osmosis.pure.metrics import summarize
from osmosis.pure.sample_details import SampleDetails, metric_means
from osmosis.pure.sample_table import detailed_table, encode_csv, encode_jsonl, sample_table
from osmosis.pure.stored_run import StoredRun, samples_frame
from osmosis.pure.uncertainty import bootstrap_seed
from osmosis.shell.evaluation.file_layer import FileLayer
from osmosis.shell.evaluation.run_reader import locate_run, read_run
from osmosis.shell.evaluation.trial_files import details_of

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Names the file to which a step of GitHub Actions appends its summary."""


class ExportFormat(StrEnum):
    """What is written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    JUNIT = "junit"
    GITHUB = "github"


class ExportRequest(msgspec.Struct, frozen=True):
    """`target` is None for the default: the summary file of GitHub Actions where there is one, else `<run>.<suffix>` in the
    working directory."""

    working_directory: Path
    run: str
    format: ExportFormat
    target: Path | None = None
    output: Path | None = None
    overwrite: bool = False


class Exported(msgspec.Struct, frozen=True):
    """What was written where. `annotations` are workflow commands, which belong on standard output."""

    run_name: str
    format: ExportFormat
    path: str
    bytes: int
    samples: int
    annotations: tuple[str, ...] = ()


def export(request: ExportRequest, environment: Mapping[str, str]) -> Exported:
    """Write the export and say what it is. Raises OsmosisError for a run or a target that will not do."""
    directory = locate_run(request.run, request.working_directory, request.output)
    run = read_run(directory)
    encode, suffix = _FORMATS[request.format]
    summary_file = environment.get(SUMMARY_VARIABLE)
    data = encode(run, details_of(directory, run.index))
    if request.format is ExportFormat.GITHUB and request.target is None and summary_file:
        path = Path(summary_file)
        _append(path, data)
    else:
        path = (request.working_directory / (request.target or Path(f"{run.name}.{suffix}")).expanduser()).resolve()
        _write(path, data, overwrite=request.overwrite)
    annotations = workflow_annotations(run) if request.format is ExportFormat.GITHUB else ()
    return Exported(run.name, request.format, str(path), len(data), len(run.index), annotations)


Details = Mapping[WorkItem, SampleDetails]


def _parquet(run: StoredRun, details: Details) -> bytes:
    buffer = io.BytesIO()
    detailed_table(run, details).write_parquet(buffer)
    return buffer.getvalue()


def _github(run: StoredRun, details: Details) -> bytes:
    summary = summarize(samples_frame(run), run.pass_threshold, seed=bootstrap_seed(run.manifest), planned=run.planned)
    return step_summary(run, summary, metric_means(tuple(details.values())))


_FORMATS: dict[ExportFormat, tuple[Callable[[StoredRun, Details], bytes], str]] = {
    ExportFormat.PARQUET: (_parquet, "parquet"),
    ExportFormat.CSV: (lambda run, details: encode_csv(detailed_table(run, details)), "csv"),
    ExportFormat.JSONL: (lambda run, details: b"".join(encode_jsonl(sample_table(run), details)), "jsonl"),
    ExportFormat.JUNIT: (encode_junit, "xml"),
    ExportFormat.GITHUB: (_github, "md"),
}


def _write(path: Path, data: bytes, *, overwrite: bool) -> None:
    if path.exists() and not (overwrite and path.is_file()):
        raise OsmosisError(
            f"{path} exists.",
            code=ErrorCode.CONFLICT,
            hint="Name another file with --to." if path.is_dir() else "Name another file with --to, or add --overwrite.",
        )
    try:
        FileLayer().replace(path, data, step="export")
        path.chmod(0o666 & ~_umask())
    except OSError as error:
        raise _unwritable(path, error) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> OsmosisError:
    return OsmosisError(
        f"{path} cannot be written: {error.strerror or error}.",
        problems=[Problem(str(path), error.strerror or str(error))],
        hint="Check the directory, its permissions and the space on the disk, or name another file with --to.",
    )
