"""Promises of the judge's prompt and of the reading of its reply (issue 7, must-show 3; contract `legacy_api.md` 4.5, 4.7)."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from osmosis.pure.canonical import canonical_json, well_formed
from osmosis.pure.judge_request import Form, ReplyFormat, all_forms, first_form, judge_body, reply_text, weaker_form
from osmosis.pure.rubric import (
    Prompt,
    Question,
    UnusableReply,
    block_code,
    build_prompt,
    check_range,
    clamp,
    metadata_text,
    read_blocks,
    read_judgement,
)
from tests.strategies.judge import hostile_texts, json_values, questions


def expected_blocks(question: Question) -> dict[str, str]:
    """The blocks that a question must show, exactly."""
    texts = {
        "ORIGINAL_INPUT": question.original_input,
        "CANDIDATE_OUTPUT": question.solution_str,
        "GROUND_TRUTH": question.ground_truth,
        "METADATA": metadata_text(question.metadata) if question.metadata else None,
    }
    return {
        name: well_formed(text)
        for name, text in texts.items()
        if text is not None and (text.strip() or name == "CANDIDATE_OUTPUT")
    }


def skeleton(prompt: Prompt, question: Question) -> str:
    """The user message with the code and the quoted texts taken out: its structure and nothing else."""
    code = re.search(r"is ([0-9a-f]{32})\.", prompt.user)
    assert code is not None
    rest = prompt.user
    for name, text in expected_blocks(question).items():
        begin, end = f"<<<BEGIN_{name} {code[1]}>>>\n", f"\n<<<END_{name} {code[1]}>>>"
        assert rest.count(begin) == rest.count(end) == 1
        before, _, tail = rest.partition(begin)
        assert tail.startswith(text + end)
        rest = f"{before}[{name}]{tail[len(text + end) :]}"
    return rest.replace(code[1], "CODE")


@given(questions)
def test_no_text_changes_the_structure_of_the_prompt(question):
    """Whatever the quoted texts hold, the prompt around them is that of harmless texts, and they are quoted exactly."""
    prompt = build_prompt(question)
    shown = expected_blocks(question)
    harmless = Question(
        rubric=question.rubric,
        solution_str="x",
        ground_truth="x" if "GROUND_TRUTH" in shown else None,
        original_input="x" if "ORIGINAL_INPUT" in shown else None,
        metadata={"k": 1} if "METADATA" in shown else None,
        score_min=question.score_min,
        score_max=question.score_max,
        system_prompt=question.system_prompt,
    )
    other = build_prompt(harmless)
    assert skeleton(prompt, question) == skeleton(other, harmless)
    assert prompt.system == other.system
    assert read_blocks(prompt.user) == expected_blocks(question)


@given(questions)
def test_a_candidate_that_quotes_the_prompt_it_is_judged_with(question):
    """A candidate that holds the whole prompt of an earlier judgement, code included, still stands in its one block."""
    earlier = build_prompt(question)
    guessing = Question(rubric=question.rubric, solution_str=earlier.user, ground_truth="t")
    assert read_blocks(build_prompt(guessing).user) == {"CANDIDATE_OUTPUT": earlier.user, "GROUND_TRUTH": "t"}


@given(st.lists(hostile_texts, max_size=4))
def test_the_code_is_in_none_of_its_texts(texts):
    """A code never occurs in what it marks off, and depends on nothing but the texts and their borders."""
    code = block_code(texts)
    assert re.fullmatch("[0-9a-f]{32}", code)
    assert not any(code in text for text in texts)
    assert block_code(texts) == code
    assert block_code([*texts, ""]) != code


def test_a_text_that_holds_the_first_code_gets_another(monkeypatch):
    """Should a text ever hold its own digest, the next digest is taken. The digest is narrowed so that this can be seen."""
    monkeypatch.setattr("osmosis.pure.rubric._CODE_LENGTH", 1)
    for text in ("0123456789abcde", "ABCDEF012345678", "13579bdf"):
        assert block_code([text]) not in text.lower()


@given(questions)
def test_the_prompt_is_deterministic_and_can_be_sent(question):
    """The same question gives the same bytes, which are UTF-8 JSON with exactly two messages."""
    form = first_form("gpt-4.1", None)
    body = judge_body(build_prompt(question), "m", form)
    assert body == judge_body(build_prompt(question), "m", form)
    messages = json.loads(body.decode())["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert all(set(message) == {"role", "content"} for message in messages)


def test_calls_with_one_rubric_share_a_prefix():
    """System message, rubric and range come before anything that differs, so that providers can cache them."""
    first, second = (build_prompt(Question("Long rubric.", text)) for text in ("a", "b"))
    assert first.system == second.system
    shared = "Rubric:\nLong rubric.\n\nScore range: 0.0 to 1.0, both included.\n\nThe code of the quoted blocks is "
    assert first.user.startswith(shared)
    assert second.user.startswith(shared)


def test_metadata_is_sorted_readable_json():
    """Characters as they are, keys sorted; what JSON cannot say is shown by its text; too deep nesting is an error."""
    assert metadata_text({"b": "é", "a": [1]}) == '{\n  "a": [\n    1\n  ],\n  "b": "é"\n}'
    assert json.loads(metadata_text({"1": {2}, "x": "y"})) == {"1": "{2}", "x": "y"}
    circular: dict[str, object] = {"a": 1}
    circular["self"] = circular
    assert "self" in metadata_text(circular)
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"d": deep}
    with pytest.raises(ValueError, match="too deep"):
        metadata_text(deep)


def test_an_explanation_may_quote_a_candidates_thinking():
    """What stands inside the reply is the judge's text; only when the reply cannot be read otherwise is it taken out."""
    reply = json.dumps({"score": 1, "explanation": "it said <think>no</think>"})
    assert read_judgement(f"<think>hm</think>{reply}", 0.0, 1.0).explanation == "it said <think>no</think>"
    assert read_judgement('{"score": 1, <think>hm</think>"explanation": "x"}', 0.0, 1.0).explanation == "x"


scores = st.floats(-5, 5) | st.integers(-5, 5)
decorations = st.sampled_from(
    ["{}", " {}\n", "```json\n{}\n```", "```\n{}```", "<think>let {{me}} see</think>{}", "<THINK>\n</THINK>\n```JSON\n{}\n```"]
)


@given(
    scores, st.text(min_size=1).filter(lambda text: text.strip() != ""), decorations, st.dictionaries(st.text(), json_values)
)
def test_a_judgement_survives_its_wrapping(score, explanation, decoration, extra):
    """Thinking and fences come off, extra members are ignored, the score is clamped, the explanation stripped."""
    extra = {key: value for key, value in extra.items() if key not in ("score", "explanation")}
    reply = json.dumps({**extra, "score": score, "explanation": explanation})
    judgement = read_judgement(decoration.replace("{}", reply), 0.0, 1.0)
    assert judgement.score == min(max(float(score), 0.0), 1.0)
    assert type(judgement.score) is float
    assert judgement.explanation == explanation.strip()


@given(st.one_of(json_values, st.text(), hostile_texts, st.binary()))
@example("NaN")
@example('{"score": NaN, "explanation": "x"}')
@example('{"score": Infinity, "explanation": "x"}')
@example('{"score": 1e999, "explanation": "x"}')
@example('{"score": true, "explanation": "x"}')
@example('{"score": "1", "explanation": "x"}')
@example('{"score": null, "explanation": "x"}')
@example('{"score": 0, "score": 1, "explanation": "x"}')
@example('{"score": 1, "explanation": ["x"]}')
@example('{"score": ' + "9" * 400 + ', "explanation": "x"}')
@example("[" * 100_000)
@example("```json\n```")
@example("<think>" * 100_000)
@example("```" + " " * 100_000)
def test_whatever_a_judge_says_is_a_judgement_or_refused(reply):
    """No reply crashes the reader; what it accepts is a finite float within the range and a text."""
    for content in (reply, json.dumps(reply, default=str)):
        try:
            judgement = read_judgement(content, 0.0, 1.0)
        except UnusableReply:
            continue
        else:
            assert 0.0 <= judgement.score <= 1.0
            assert judgement.explanation.strip()


@pytest.mark.parametrize("score", ["true", "false", '"1"', "null", "[1]", "{}", "NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_score(score):
    """Booleans, strings and non-finite numbers are refused."""
    with pytest.raises(UnusableReply):
        read_judgement(f'{{"score": {score}, "explanation": "x"}}', 0.0, 1.0)


@given(st.floats(allow_nan=False), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_clamping_stays_within_and_changes_nothing_inside(score, low, high):
    """A clamped score lies in the range, and is the score if that did."""
    low, high = min(low, high), max(low, high)
    clamped = clamp(score, low, high)
    assert low <= clamped <= high
    assert clamped == score or not low <= score <= high


@given(st.one_of(st.floats(), st.integers(), st.booleans(), st.text()), st.one_of(st.floats(), st.integers(), st.none()))
def test_a_range_is_two_finite_numbers_in_order(low, high):
    """Anything else is TypeError or ValueError."""
    try:
        checked = check_range(low, high)
    except (TypeError, ValueError):
        return
    assert checked == (float(low), float(high))
    assert math.isfinite(checked[0])
    assert checked[0] < checked[1]
    assert not isinstance(low, bool)


@given(st.sampled_from(["gpt-5.2", "openai/o3-mini", "gpt-4.1", "x"]), st.none() | st.just("low"), st.text())
def test_forms_only_ever_get_weaker_and_replay_knows_them_all(model, effort, message):
    """Every chain of refusals ends, and each form on it is one that a replay looks for."""
    form: Form | None = first_form(model, effort)
    known = set(all_forms(first_form(model, effort)))
    steps = 0
    while form is not None:
        assert form in known
        form = weaker_form(form, 400, f"{message} reasoning_effort temperature response_format")
        steps += 1
    assert steps <= 5


def test_a_refusal_about_something_else_stands():
    """Only 400 and 422, and only those that name a setting of the judge's own, are answered by a weaker form."""
    form = Form()
    assert weaker_form(form, 400, "context length exceeded") is None
    assert weaker_form(form, 500, "temperature") is None
    assert weaker_form(form, None, "temperature") is None
    assert weaker_form(Form(ReplyFormat.TEXT, temperature=False, effort=False), 400, "temperature response_format") is None


@given(st.one_of(json_values, st.lists(st.fixed_dictionaries({"message": json_values}))))
def test_the_text_of_any_choices(choices):
    """Whatever stands in `choices`, its text is found or there is none."""
    text = reply_text(canonical_json(choices))
    assert text is None or isinstance(text, str)


def test_the_text_of_the_first_choice():
    """It is the first choice's that counts; other members do not matter."""
    choices = [{"index": 0, "message": {"role": "assistant", "content": "one"}}, {"message": {"content": "two"}}]
    assert reply_text(canonical_json(choices)) == "one"
    assert reply_text(b'[{"message": {"content": null}}]') is None
    assert reply_text(b"[]") is None
