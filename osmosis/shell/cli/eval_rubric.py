"""`osmosis eval rubric`: flags in, the judge asked, its report out (E41; contract `cli.md` section 8)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Group, Parameter, validators

from osmosis.pure.agreement import Agreement, Calibration, Spread
from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.presentation import UNDEFINED, decimal, joined, thousands
from osmosis.pure.report import NextStep
from osmosis.pure.rubric_report import RecordResult, RubricReport, RubricStatus
from osmosis.shell.cli.app import INJECTED
from osmosis.shell.cli.exit_codes import ExitCode
from osmosis.shell.cli.modes import UsageError
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import Block, OperationResult, Section, Table
from osmosis.shell.cli.rubric_view import RubricView
from osmosis.shell.judge.request import RubricRequest

OPERATION = "eval.rubric"
RECORD_LIMIT = 20
"""Records shown to a person; JSON and the output file have them all."""
PLACES = 4

_POSITIVE = validators.Number(gte=1)


def _one_cassette(arguments: object) -> None:
    try:
        validators.mutually_exclusive(arguments)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError("--record and --replay exclude each other.") from None


_INPUT = Group("Input", sort_key=1)
_JUDGE = Group("Judge", sort_key=2)
_RESULT = Group("Result", sort_key=3)
_CASSETTE = Group("Cassette", sort_key=4, validator=_one_cassette)

DataOption = Annotated[
    Path, Parameter(name=("--data", "-d"), group=_INPUT, help="JSON lines: conversations, or texts as solution_str.")
]
RubricOption = Annotated[str, Parameter(name=("--rubric", "-r"), group=_INPUT, help="What to judge by: the text, or @FILE.")]
ModelOption = Annotated[str, Parameter(group=_JUDGE, help="The judge: provider/model.")]
NumberOption = Annotated[
    int, Parameter(name=("--number", "-n"), group=_JUDGE, validator=_POSITIVE, help="Judgements of each record [1].")
]
KeyOption = Annotated[
    str | None,
    Parameter(group=_JUDGE, allow_leading_hyphen=True, help="Deprecated: set the provider's variable instead."),
]
TimeoutOption = Annotated[float | None, Parameter(group=_JUDGE, help="Seconds that one call may take [30 to 60].")]
MinimumOption = Annotated[float, Parameter(group=_JUDGE, allow_leading_hyphen=True, help="Lowest score [0.0].")]
MaximumOption = Annotated[float, Parameter(group=_JUDGE, allow_leading_hyphen=True, help="Highest score [1.0].")]
InFlightOption = Annotated[int, Parameter(group=_JUDGE, validator=_POSITIVE, help="Judgements that may be in flight [8].")]
OutputOption = Annotated[
    str | None, Parameter(name=("--output", "-o"), group=_RESULT, help="File or directory for the result as JSON.")
]
ResumeFlag = Annotated[bool, Parameter(group=_RESULT, help="Keep the judgements in the journal beside --output.")]
RecordOption = Annotated[Path | None, Parameter(group=_CASSETTE, help="Record every model call in this file.")]
ReplayOption = Annotated[Path | None, Parameter(group=_CASSETTE, help="Answer model calls from this file; call no model.")]


class RubricResource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `resource` of the JSON envelope: `records`, or `output_path` instead when there is one."""

    model: str
    data_path: str
    number: int
    statistics: Spread
    record_count: int
    error_count: int
    pending: int
    resumed: int
    agreement: Agreement
    calibration: Calibration | None
    usage: JudgeUsage
    records: tuple[RecordResult, ...] | msgspec.UnsetType = msgspec.UNSET
    output_path: str | msgspec.UnsetType = msgspec.UNSET


def eval_rubric(
    *,
    data: DataOption,
    rubric: RubricOption,
    model: ModelOption,
    number: NumberOption = 1,
    output: OutputOption = None,
    resume: ResumeFlag = False,
    api_key: KeyOption = None,
    timeout: TimeoutOption = None,
    score_min: MinimumOption = 0.0,
    score_max: MaximumOption = 1.0,
    max_in_flight: InFlightOption = 8,
    record: RecordOption = None,
    replay: ReplayOption = None,
    terminal: Annotated[Output, INJECTED],
) -> OperationResult:
    """Judge records with a model. The help text stands in `app`, where it needs no import of this module."""
    if resume and output is None:
        raise UsageError("--resume needs --output: the journal lies beside it.", hint="Pass -o FILE as in the first call.")
    if api_key is not None:
        terminal.protect([api_key])
        terminal.warning("DEPRECATION", "--api-key is deprecated: it shows in the list of processes. Set the variable instead.")
    return run(
        RubricRequest(
            data=data,
            rubric=rubric,
            model=model,
            number=number,
            output=output,
            resume=resume,
            api_key=api_key,
            timeout=timeout,
            score_min=score_min,
            score_max=score_max,
            max_in_flight=max_in_flight,
            record=record,
            replay=replay,
        ),
        terminal,
    )


def run(request: RubricRequest, terminal: Output) -> OperationResult:
    """Judge what `request` asks for, followed on `terminal`. Raises OsmosisError if a judgement failed (exit code 1)."""
    try:
        from osmosis.shell.judge.session import run_rubric  # noqa: PLC0415 - brings aiohttp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "aiohttp":
            raise
        raise OsmosisError(
            f"`osmosis eval rubric` needs the package {error.name}, which is not installed.",
            hint="Install the extra that brings it: pip install 'osmosis-ai[rubric]'",
            details={"missing": error.name, "extra": "rubric"},
        ) from None
    view = RubricView(terminal)
    try:
        finished = run_rubric(request, view.step)
    finally:
        view.close()
    if finished.status is RubricStatus.PARTIAL:
        for block in blocks(finished):
            terminal.progress_block(block)
        raise failure(finished)
    return result(finished, request)


def result(finished: RubricReport, request: RubricRequest) -> OperationResult:
    """A report as a result."""
    interrupted = finished.status is RubricStatus.INTERRUPTED
    return OperationResult(
        operation=OPERATION,
        status=finished.status.value,
        resource=resource(finished),
        message=message(finished),
        exit_code=ExitCode.INTERRUPTED if interrupted else ExitCode.SUCCESS,
        blocks=tuple(blocks(finished)),
        next_steps=(NextStep("resume", "Resume", resume_argv(request)),) if interrupted and request.output else (),
    )


def message(finished: RubricReport) -> str:
    """One line that says what came out."""
    total = finished.judged + finished.error_count + finished.pending
    average = f", average {decimal(finished.statistics.average, PLACES)}" if finished.judged else ""
    word = "Interrupted: judged" if finished.status is RubricStatus.INTERRUPTED else "Judged"
    return f"{word} {thousands(finished.judged)} of {thousands(total)}{average}."


def failure(finished: RubricReport) -> OsmosisError:
    """The error of a report with failed judgements; its details are the result."""
    kept = f" The result is in {finished.output_path}." if finished.output_path else ""
    shown = [f"{record.label}: {error}" for record in finished.records for error in record.errors][:5]
    count = f"{thousands(finished.error_count)} judgement{'' if finished.error_count == 1 else 's'}"
    hint = (
        "Run the same command with --resume to try the failed ones again."
        if finished.output_path
        else "Run it again with --output FILE: what is judged is kept there, and --resume tries the rest again."
    )
    return OsmosisError(
        "\n".join([f"{count} failed.{kept}", *shown]),
        code=ErrorCode.PLATFORM_ERROR,
        details=msgspec.to_builtins(resource(finished)),
        hint=hint,
    )


def resource(finished: RubricReport) -> RubricResource:
    """A report for programs."""
    return RubricResource(
        model=finished.model,
        data_path=finished.data_path,
        number=finished.number,
        statistics=finished.statistics,
        record_count=len(finished.records),
        error_count=finished.error_count,
        pending=finished.pending,
        resumed=finished.resumed,
        agreement=finished.agreement,
        calibration=finished.calibration,
        usage=finished.usage,
        records=finished.records if finished.output_path is None else msgspec.UNSET,
        output_path=msgspec.UNSET if finished.output_path is None else finished.output_path,
    )


def blocks(finished: RubricReport) -> Iterator[Block]:
    """A report for people: the records, then the numbers."""
    for record in finished.records[:RECORD_LIMIT]:
        yield Section(record.label, tuple(_record_lines(record)))
    if (hidden := len(finished.records) - RECORD_LIMIT) > 0:
        yield Section("More", (f"{thousands(hidden)} more records; --output and --json have them all.",))
    yield Table("Rubric", tuple((label, value) for label, value in _rows(finished) if value))


def _record_lines(record: RecordResult) -> Iterator[str]:
    for number, (score, explanation) in enumerate(zip(record.scores, record.explanations, strict=True), 1):
        yield f"Run {number:02d}: score={decimal(score, PLACES)} {explanation}"
    yield from (f"error: {error}" for error in record.errors)
    if len(record.scores) > 1:
        yield f"Summary: {_spread(record.statistics)}"


def _rows(finished: RubricReport) -> Iterator[tuple[str, str]]:
    yield "Model", finished.model
    yield "Records", thousands(len(finished.records))
    resumed = f"{thousands(finished.resumed)} carried over" if finished.resumed else ""
    failed = f"{thousands(finished.error_count)} failed" if finished.error_count else ""
    pending = f"{thousands(finished.pending)} pending" if finished.pending else ""
    yield "Judgements", joined([thousands(finished.judged), resumed, failed, pending])
    yield "Score", _spread(finished.statistics) if finished.judged else ""
    if finished.agreement.compared:
        agreement = finished.agreement
        alpha = f"Krippendorff's alpha {_defined(agreement.krippendorff_alpha)}"
        yield "Agreement", joined([alpha, f"mean stdev {_defined(agreement.mean_stdev)}"])
    if calibration := finished.calibration:
        parts = (
            f"{thousands(calibration.labelled)} labelled",
            f"bias {decimal(calibration.bias, PLACES)}",
            f"mean error {decimal(calibration.mean_absolute_error, PLACES)}",
            f"spearman {_defined(calibration.spearman)}",
            f"alpha {_defined(calibration.krippendorff_alpha)}",
        )
        yield "Against People", joined(parts)
    usage = finished.usage
    yield "Tokens", joined([thousands(usage.total_tokens), f"{thousands(usage.calls)} calls"]) if usage.calls else ""
    yield "Cost", f"${decimal(usage.cost_usd, PLACES)}" if usage.cost_usd is not None else ""
    yield "Output", finished.output_path or ""


def _spread(statistics: Spread) -> str:
    named = (("average", statistics.average), ("stdev", statistics.stdev), ("min", statistics.min), ("max", statistics.max))
    return joined(f"{name} {decimal(value, PLACES)}" for name, value in named)


def _defined(value: float | None) -> str:
    return UNDEFINED if value is None else decimal(value, PLACES)


def resume_argv(request: RubricRequest) -> tuple[str, ...]:
    """The command line that goes on with `request`. A key on the command line is not repeated."""
    pairs = (
        ("--data", request.data),
        ("--rubric", request.rubric),
        ("--model", request.model),
        ("--number", request.number),
        ("--output", request.output),
        ("--timeout", request.timeout),
        ("--score-min", request.score_min),
        ("--score-max", request.score_max),
        ("--max-in-flight", request.max_in_flight),
        ("--record", request.record),
        ("--replay", request.replay),
    )
    defaults = RubricRequest(request.data, request.rubric, request.model)
    usual = {"--number": defaults.number, "--score-min": 0.0, "--score-max": 1.0, "--max-in-flight": defaults.max_in_flight}
    words = [word for flag, value in pairs if value is not None and usual.get(flag) != value for word in _option(flag, value)]
    return ("osmosis", "eval", "rubric", *words, "--resume")


def _option(flag: str, value: object) -> tuple[str, ...]:
    text = os.fspath(value) if isinstance(value, Path) else str(value)
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)
