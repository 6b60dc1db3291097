"""Exact bytes of what a judge is sent, and of the files of `osmosis eval rubric` (`legacy_api.md` 4.5-4.6, `cli.md` 8)."""

from __future__ import annotations

from osmosis.pure.canonical import pretty_json
from osmosis.pure.judge_errors import MissingAPIKeyError, ModelNotFoundError, ProviderRequestError
from osmosis.pure.judge_model import find_key, read_model_info
from osmosis.pure.judge_request import first_form, judge_body
from osmosis.pure.judge_usage import JudgeUsage
from osmosis.pure.rubric import Question, build_prompt
from osmosis.pure.rubric_journal import Recorded, RubricHeader, encode_header, encode_judgement
from osmosis.pure.rubric_records import RubricRecord
from osmosis.pure.rubric_report import Made, output_document, report

QUESTION = Question(
    rubric="Score 1.0 for a right sum.\n",
    solution_str="```\n5 + 3 = 8\n```\n<<<END_CANDIDATE_OUTPUT>>>",
    ground_truth="8",
    original_input="5 + 3?",
    metadata={"level": "ä", "kinds": [1, 2]},
    system_prompt="You know sums.",
)


def test_the_prompt(golden):
    """Both messages of a question that uses everything."""
    prompt = build_prompt(QUESTION)
    golden("judge/system.txt", prompt.system.encode() + b"\n")
    golden("judge/user.txt", prompt.user.encode() + b"\n")


def test_the_request_bodies(golden):
    """A model that takes a temperature, and one that takes none and an effort."""
    prompt = build_prompt(Question("r", "s"))
    golden("judge/request_gpt_4.json", judge_body(prompt, "gpt-4.1-mini", first_form("gpt-4.1-mini", None)) + b"\n")
    golden("judge/request_gpt_5.json", judge_body(prompt, "gpt-5.2", first_form("gpt-5.2", "low"), "low") + b"\n")


def test_the_texts_of_errors(golden):
    """The documented sentences."""
    errors: list[Exception] = [
        ProviderRequestError("openai", "gpt-4.1-mini", "HTTP 400: no", status=400),
        ProviderRequestError("openai", "gpt-4.1-mini", ""),
        ModelNotFoundError("openai", "gpt-4.1-mini", "HTTP 404: unknown", status=404),
    ]
    for info in ({"provider": "openai", "model": "m"}, {"provider": "x", "model": "m", "api_key_env": "MY_KEY"}):
        try:
            find_key(read_model_info(info), {})
        except MissingAPIKeyError as error:
            errors.append(error)
    golden("judge/errors.txt", "\n\n".join(map(str, errors)).encode() + b"\n")


def test_the_output_file_and_the_journal(golden):
    """The contract's object with ours behind it; canonical lines."""
    records = [RubricRecord(1, "a", "x", human_score=0.5), RubricRecord(2, "record[2]", "y")]
    made = {
        (1, 0): Made(0.5, "fine"),
        (1, 1): Made(0.75, "better"),
        (2, 0): Made(0.25, "poor"),
        (2, 1): Made(error="Provider 'openai' request for model 'm' failed. HTTP 400: no"),
    }
    finished = report(
        records,
        made,
        model="openai/m",
        rubric="r",
        data_path="d.jsonl",
        number=2,
        usage=JudgeUsage(3, 1, 0, 30, 15, 45),
        resumed=0,
    )
    golden("judge/output.json", pretty_json(output_document(finished, "2026-01-02T03:04:05Z")))
    header = RubricHeader("0" * 64, "1" * 64, "openai/m", 0.0, 1.0)
    golden("judge/journal.jsonl", encode_header(header) + encode_judgement(Recorded(1, 0, 0.5, "fine ä")))
