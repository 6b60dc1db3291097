"""The result of `osmosis eval rubric`: the contract's records and statistics, and agreement (`cli.md` section 8; issue 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from osmosis.pure.agreement import Agreement, Calibration, Spread, agreement, calibration, spread
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.rubric_records import RubricRecord

OUTPUT_NAME = "rubric_eval_result.json"


class RubricStatus(StrEnum):
    """How the command ended."""

    SUCCESS = "success"
    PARTIAL = "partial"
    INTERRUPTED = "interrupted"


class Made(msgspec.Struct, frozen=True):
    """What became of one judgement: a score with its explanation, or an error."""

    score: float | None = None
    explanation: str | None = None
    error: str | None = None


class RecordResult(msgspec.Struct, frozen=True):
    """One record's judgements, in the order of their numbers."""

    index: int
    label: str
    scores: tuple[float, ...]
    explanations: tuple[str, ...]
    errors: tuple[str, ...]
    statistics: Spread


class RubricReport(msgspec.Struct, frozen=True):
    """Everything that the command shows. `pending` judgements were not made; `resumed` ones come from the journal."""

    status: RubricStatus
    model: str
    rubric: str
    data_path: str
    number: int
    records: tuple[RecordResult, ...]
    statistics: Spread
    agreement: Agreement
    calibration: Calibration | None
    usage: JudgeUsage
    error_count: int
    pending: int
    resumed: int
    output_path: str | None = None

    @property
    def judged(self) -> int:
        """How many judgements there are."""
        return sum(len(record.scores) for record in self.records)


def report(
    records: Sequence[RubricRecord],
    made: Mapping[tuple[int, int], Made],
    *,
    model: str,
    rubric: str,
    data_path: str,
    number: int,
    usage: JudgeUsage,
    resumed: int,
    interrupted: bool = False,
    output_path: str | None = None,
) -> RubricReport:
    """The report over `made`: what became of each (record index from 1, run from 0)."""
    results = tuple(_record_result(record, made, number) for record in records)
    every = [score for result in results for score in result.scores]
    errors = sum(len(result.errors) for result in results)
    labelled = [
        (result.statistics.average, record.human_score)
        for record, result in zip(records, results, strict=True)
        if record.human_score is not None and result.scores
    ]
    return RubricReport(
        status=RubricStatus.INTERRUPTED if interrupted else RubricStatus.PARTIAL if errors else RubricStatus.SUCCESS,
        model=model,
        rubric=rubric,
        data_path=data_path,
        number=number,
        records=results,
        statistics=spread(every),
        agreement=agreement(result.scores for result in results),
        calibration=calibration(labelled),
        usage=usage,
        error_count=errors,
        pending=len(records) * number - len(every) - errors,
        resumed=resumed,
        output_path=output_path,
    )


def _record_result(record: RubricRecord, made: Mapping[tuple[int, int], Made], number: int) -> RecordResult:
    own = [one for run in range(number) if (one := made.get((record.index, run))) is not None]
    scores = tuple(one.score for one in own if one.score is not None)
    return RecordResult(
        index=record.index,
        label=record.label,
        scores=scores,
        explanations=tuple(one.explanation for one in own if one.explanation is not None),
        errors=tuple(one.error for one in own if one.error is not None),
        statistics=spread(scores),
    )


def output_document(finished: RubricReport, generated_at: str) -> dict[str, Any]:
    """The object that `--output` holds: the contract's members first, then ours."""
    return {
        "generated_at": generated_at,
        "model": finished.model,
        "rubric": finished.rubric,
        "data_path": finished.data_path,
        "number": finished.number,
        "overall_statistics": msgspec.to_builtins(finished.statistics),
        "records": [msgspec.to_builtins(record) for record in finished.records],
        "agreement": msgspec.to_builtins(finished.agreement),
        "calibration": msgspec.to_builtins(finished.calibration),
        "usage": msgspec.to_builtins(finished.usage),
    }
