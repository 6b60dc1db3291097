"""`osmosis eval rubric` without its command line: read the records, judge what is missing, keep it, report (E41, issue 7)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from osmosis.pure.canonical import decode_utf8, pretty_json
from osmosis.pure.errors import ErrorCode, OsmosisError, Problem
from osmosis.pure.judge_errors import MissingAPIKeyError, ProviderRequestError
from osmosis.pure.judge_model import JudgeModel, read_model_id
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.rubric import Question, check_range
from osmosis.pure.rubric_journal import Recorded, RubricHeader
from osmosis.pure.rubric_records import RubricRecord, read_records
from osmosis.pure.rubric_report import Made, RubricReport, output_document, report
from osmosis.shell.judge.batch import Outcome, Task, judge_all
from osmosis.shell.judge.call import BATCH_PATIENCE_SECONDS, Answer, open_judge
from osmosis.shell.judge.journal_file import JudgementJournal, journal_file, output_file, write_output
from osmosis.shell.judge.request import RubricRequest, RubricStep

NO_KEY_PROBLEMS = (MissingAPIKeyError, ProviderRequestError)


def run_rubric(request: RubricRequest, on_step: Callable[[RubricStep], object]) -> RubricReport:
    """Judge everything that is asked for. An interrupt ends it early; what was judged until then is reported.

    Raises OsmosisError for input that cannot be judged and for a disk that refuses. Failures of single judgements, a missing
    key among them, stand in the report (contract `cli.md` section 8).
    """
    session = _Session(request, on_step)
    try:
        asyncio.run(session.judge())
    except KeyboardInterrupt:
        session.interrupted = True
    return session.finish()


class _Session:
    def __init__(self, request: RubricRequest, on_step: Callable[[RubricStep], object]) -> None:
        self.interrupted = False
        self._request = request
        self._on_step = on_step
        self._range = _range(request)
        data = _read(request.data)
        self._rubric = _rubric_text(request.rubric)
        self._records = read_records(data, str(request.data))
        self._model = _model(request)
        self._made: dict[tuple[int, int], Made] = {}
        self._failed = 0
        self._usage = JudgeUsage()
        self._output = None if request.output is None else output_file(request.output)
        self._header = RubricHeader(
            data=hashlib.sha256(data).hexdigest(),
            rubric=hashlib.sha256(self._rubric.encode()).hexdigest(),
            model=request.model if isinstance(self._model, Exception) else self._model.path,
            score_min=self._range[0],
            score_max=self._range[1],
        )
        self._journal: JudgementJournal | None = None
        self._resumed = 0

    async def judge(self) -> None:
        """Make every judgement that the journal does not hold."""
        if self._output is not None:
            self._journal = JudgementJournal(journal_file(self._output), self._header, resume=self._request.resume)
            self._carry_over()
        try:
            if isinstance(self._model, Exception):
                self._fail_all(self._model)
                return
            await self._judge_with(self._model)
        finally:
            if self._journal is not None:
                self._journal.close()

    def finish(self) -> RubricReport:
        """The report, also written to the output file unless judging was interrupted."""
        finished = report(
            self._records,
            self._made,
            model=self._request.model,
            rubric=self._rubric,
            data_path=str(self._request.data),
            number=self._request.number,
            usage=self._usage,
            resumed=self._resumed,
            interrupted=self.interrupted,
            output_path=None if self._output is None else str(self._output),
        )
        if self._output is not None and not self.interrupted:
            generated_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            write_output(self._output, pretty_json(output_document(finished, generated_at)))
        return finished

    async def _judge_with(self, model: JudgeModel) -> None:
        request = self._request
        try:
            async with open_judge(
                model, record=request.record, replay=request.replay, patience=BATCH_PATIENCE_SECONDS
            ) as judge:
                try:
                    await judge_all(
                        judge,
                        self._tasks(),
                        lambda task, outcome: self._keep(task, outcome, judge.usage),
                        max_in_flight=request.max_in_flight,
                    )
                finally:
                    self._usage = judge.usage
        except NO_KEY_PROBLEMS as error:
            self._fail_all(error)

    def _carry_over(self) -> None:
        assert self._journal is not None  # the caller has just opened it
        wanted = {(record.index, run) for record in self._records for run in range(self._request.number)}
        for key, held in self._journal.judgements.items():
            if key in wanted:
                self._made[key] = Made(held.score, held.explanation)
        self._resumed = len(self._made)

    def _tasks(self) -> Iterator[Task]:
        for record in self._records:
            for run in range(self._request.number):
                if (record.index, run) not in self._made:
                    yield Task(record.index - 1, run, self._question(record))

    def _question(self, record: RubricRecord) -> Question:
        return Question(
            rubric=self._rubric,
            solution_str=record.solution_str,
            ground_truth=record.ground_truth,
            original_input=record.original_input,
            metadata=record.metadata,
            score_min=self._range[0],
            score_max=self._range[1],
        )

    async def _keep(self, task: Task, outcome: Outcome, usage: JudgeUsage) -> None:
        key = (task.row + 1, task.run)
        if isinstance(outcome, Answer):
            judgement = outcome.judgement
            # First, since an interrupt during the write ends this coroutine and not the write.
            self._made[key] = Made(judgement.score, judgement.explanation)
            if self._journal is not None:
                await self._journal.append(Recorded(*key, judgement.score, judgement.explanation))
        else:
            self._failed += 1
            self._made[key] = Made(error=str(outcome))
        self._report_step(key, usage)

    def _fail_all(self, error: Exception) -> None:
        for task in self._tasks():
            self._failed += 1
            self._made[task.row + 1, task.run] = Made(error=str(error))
            self._report_step((task.row + 1, task.run), self._usage)

    def _report_step(self, key: tuple[int, int], usage: JudgeUsage) -> None:
        made = self._made[key]
        total = len(self._records) * self._request.number
        label = self._records[key[0] - 1].label
        self._on_step(
            RubricStep(label, key[1], made.score, made.error, len(self._made), self._failed, total, usage.total_tokens)
        )


def _range(request: RubricRequest) -> tuple[float, float]:
    try:
        return check_range(request.score_min, request.score_max)
    except ValueError as error:
        raise OsmosisError(f"{error}.", hint="Give --score-min and --score-max such that the second is the greater.") from None


def _model(request: RubricRequest) -> JudgeModel | Exception:
    try:
        return read_model_id(request.model, api_key=request.api_key, timeout=request.timeout)
    except NO_KEY_PROBLEMS as error:
        return error
    except (TypeError, ValueError) as error:
        raise OsmosisError(f"{error}.", hint="Name the judge as --model provider/model, and --timeout in seconds.") from None


def _rubric_text(given: str) -> str:
    text = given
    if given.startswith("@"):
        path = Path(given[1:])
        text = decode_utf8(_read(path), str(path))
    if not text.strip():
        raise OsmosisError("The rubric is blank.", hint="Pass --rubric TEXT, or --rubric @FILE.")
    return text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise OsmosisError(
            f"{path} cannot be read.",
            code=ErrorCode.NOT_FOUND if missing else ErrorCode.VALIDATION,
            problems=[Problem(str(path), error.strerror or str(error))],
            hint="Correct the path, or check the file's permissions.",
        ) from None
