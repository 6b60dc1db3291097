"""`evaluate_rubric` as documented, against a server on loopback (A3-A5; seed 004; contract `legacy_api.md` 4 and 9)."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import pickle
import threading
from typing import Any, get_type_hints

import pytest
from aiohttp import web

import osmosis_ai
from osmosis.pure.cassette import request_digest
from osmosis.pure.errors import OsmosisError
from osmosis.pure.judge_request import first_form, judge_body
from osmosis.pure.model_prices import price_of
from osmosis.pure.providers import resolve
from osmosis.pure.rubric import Question, build_prompt, read_blocks
from osmosis_ai import (
    MissingAPIKeyError,
    ModelNotFoundError,
    ProviderRequestError,
    RubricItem,
    RubricProgress,
    evaluate_rubric,
    evaluate_rubric_async,
    evaluate_rubrics,
)
from osmosis_ai.rubric_types import ModelInfo, RewardRubricRunResult
from tests.integration.stub_judge import StubJudge, judging, says, verdict
from tests.integration.stub_provider import completion, serving

KEY = "sk-judge-0123456789/abcdef"
MODEL: ModelInfo = {"provider": "openai", "model": "gpt-5.2"}


@pytest.fixture
def judge(monkeypatch):
    """A judge that gives 0.85, found through the usual variables."""
    with judging(says(verdict())) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield stub


def user_message(stub: StubJudge, number: int = -1) -> str:
    """The user message of a request that the judge got."""
    return stub.asked[number]["messages"][1]["content"]


def test_the_complete_example_of_the_document(judge):
    """The example at the end of the documented API runs as it stands, and scores as its comments say."""
    judge.reply = says(verdict(1.0))

    from osmosis_ai import evaluate_rubric, osmosis_reward, osmosis_rubric

    # Local reward function
    @osmosis_reward
    def exact_match(solution_str: str, ground_truth: str, extra_info: dict = None, **kwargs) -> float:  # type: ignore[assignment]  # noqa: RUF013
        return 1.0 if solution_str.strip() == ground_truth.strip() else 0.0

    # Remote rubric evaluator
    @osmosis_rubric
    def semantic_eval(solution_str: str, ground_truth: str | None, extra_info: dict, **kwargs) -> float:
        return evaluate_rubric(
            rubric="Compare semantic similarity (0-1 scale)",
            solution_str=solution_str,
            ground_truth=ground_truth,
            model_info={"provider": "openai", "model": "gpt-5.2"},
        )

    # Usage
    solution = "The capital of France is Paris"
    truth = "Paris is France's capital"

    local_score = exact_match(solution, truth)
    semantic_score = semantic_eval(solution, truth, {})

    assert local_score == 0.0
    assert semantic_score == 1.0
    assert read_blocks(user_message(judge)) == {"CANDIDATE_OUTPUT": solution, "GROUND_TRUTH": truth}
    assert judge.paths == ["/v1/chat/completions"]
    assert judge.keys == [f"Bearer {KEY}"]
    assert judge.asked[0]["model"] == "gpt-5.2"


def test_the_documented_signature():
    """Names, order and defaults of the documented parameters; what is new comes after them, by keyword only."""
    parameters = inspect.signature(evaluate_rubric).parameters
    documented = list(parameters.values())[:10]
    assert [parameter.name for parameter in documented] == [
        "rubric", "solution_str", "model_info", "ground_truth", "original_input", "metadata", "score_min", "score_max",
        "timeout", "return_details",
    ]  # fmt: skip
    assert all(parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for parameter in documented)
    assert [parameter.default for parameter in documented[3:]] == [None, None, None, 0.0, 1.0, None, False]
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in list(parameters.values())[10:])


def test_everything_may_be_positional(judge):
    """All ten documented arguments in their documented order."""
    judge.reply = says(verdict(9))
    result = evaluate_rubric("r", "s", MODEL, "truth", "question", {"k": 1}, 2.0, 10.0, 7, True)
    assert result["score"] == 9.0
    blocks = read_blocks(user_message(judge))
    assert blocks == {
        "ORIGINAL_INPUT": "question",
        "CANDIDATE_OUTPUT": "s",
        "GROUND_TRUTH": "truth",
        "METADATA": '{\n  "k": 1\n}',
    }
    assert "2.0 to 10.0" in user_message(judge)


def test_details_hold_score_explanation_and_the_whole_answer(judge):
    """`return_details` gives the documented dictionary, whose `raw` is what the provider sent."""
    result = evaluate_rubric("r", "s", MODEL, return_details=True)
    assert result == {"score": 0.85, "explanation": "because", "raw": completion(verdict())}
    assert type(evaluate_rubric("r", "s", MODEL)) is float


def test_the_documented_types():
    """Members of the two documented TypedDicts."""
    assert set(get_type_hints(ModelInfo)) == {
        "provider", "model", "api_key", "api_key_env", "timeout", "score_min", "score_max", "system_prompt", "original_input",
        "reasoning_effort",
    }  # fmt: skip
    assert ModelInfo.__required_keys__ == {"provider", "model"}
    assert set(get_type_hints(RewardRubricRunResult)) == {"score", "explanation", "raw"}


@pytest.mark.parametrize(
    ("info", "arguments", "expected"),
    [
        ({}, {}, (0.0, 1.0)),
        ({"score_min": -1.0, "score_max": 5.0}, {}, (-1.0, 5.0)),
        ({"score_min": -1.0, "score_max": 5.0}, {"score_min": 0.0, "score_max": 1.0}, (0.0, 1.0)),
        ({"score_max": 5}, {"score_min": 2}, (2.0, 5.0)),
    ],
)
def test_where_the_score_range_comes_from(judge, info, arguments, expected):
    """The argument, else `model_info`, else 0.0 and 1.0; the judge hears it, and its score is clamped to it."""
    judge.reply = says(verdict(1e9))
    assert evaluate_rubric("r", "s", {**MODEL, **info}, **arguments) == expected[1]
    judge.reply = says(verdict(-1e9))
    assert evaluate_rubric("r", "s", {**MODEL, **info}, **arguments) == expected[0]
    assert f"Score range: {expected[0]!r} to {expected[1]!r}" in user_message(judge)


def test_model_info_carries_prompt_input_and_effort(judge):
    """`system_prompt`, `original_input` and `reasoning_effort` of model_info reach the judge; an argument wins over them."""
    info: ModelInfo = {**MODEL, "system_prompt": "Be kind.", "original_input": "from info", "reasoning_effort": "low"}
    evaluate_rubric("r", "s", info)
    assert judge.asked[0]["messages"][0]["content"].startswith("Be kind.\n\n")
    assert read_blocks(user_message(judge))["ORIGINAL_INPUT"] == "from info"
    assert judge.asked[0]["reasoning_effort"] == "low"
    evaluate_rubric("r", "s", info, original_input="argument")
    assert read_blocks(user_message(judge))["ORIGINAL_INPUT"] == "argument"


@pytest.mark.parametrize(
    ("info", "variables", "expected"),
    [
        ({"api_key": "given-key"}, {"OPENAI_API_KEY": "usual-key"}, "given-key"),
        ({"api_key_env": "MY_KEY"}, {"OPENAI_API_KEY": "usual-key", "MY_KEY": "my-key"}, "my-key"),
        ({"api_key": "given-key", "api_key_env": "MY_KEY"}, {"MY_KEY": "my-key"}, "given-key"),
        ({}, {"OPENAI_API_KEY": "usual-key"}, "usual-key"),
        ({"api_key": " ", "api_key_env": None}, {"OPENAI_API_KEY": "usual-key"}, "usual-key"),
    ],
)
def test_where_the_key_comes_from(judge, monkeypatch, info, variables, expected):
    """The key itself, else the named variable, else the provider's usual one."""
    monkeypatch.delenv("OPENAI_API_KEY")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    evaluate_rubric("r", "s", {**MODEL, **info})
    assert judge.keys == [f"Bearer {expected}"]


@pytest.mark.parametrize(
    ("info", "named"),
    [
        ({"provider": "openai"}, "OPENAI_API_KEY"),
        ({"provider": " OpenAI "}, "OPENAI_API_KEY"),
        ({"provider": "openai", "api_key_env": "MY_KEY"}, "MY_KEY"),
        ({"provider": "anthropic"}, "ANTHROPIC_API_KEY"),
        ({"provider": "gemini"}, "GEMINI_API_KEY"),
        ({"provider": "xai"}, "XAI_API_KEY"),
        ({"provider": "openrouter"}, "OPENROUTER_API_KEY"),
        ({"provider": "cerebras"}, "CEREBRAS_API_KEY"),
        ({"provider": "azure"}, "AZURE_API_KEY"),
        ({"provider": "bedrock"}, "AWS_ACCESS_KEY_ID"),
        ({"provider": "vertex_ai"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"provider": "unheard"}, "UNHEARD_API_KEY"),
    ],
)
def test_a_missing_key_names_the_provider_and_its_variable(monkeypatch, info, named):
    """MissingAPIKeyError, before the rubric is looked at; a key that is not the one that was named is never used."""
    monkeypatch.setenv("MY_OTHER_KEY", KEY)
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "XAI", "OPENROUTER", "OR", "CEREBRAS", "AZURE", "UNHEARD"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    if "api_key_env" in info:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(MissingAPIKeyError, match=named) as caught:
        evaluate_rubric("", "", {"model": "m", **info})
    assert f"provider '{info['provider'].strip().lower()}'" in str(caught.value)
    assert f"export {named}=" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"model_info": None}, TypeError, "'model_info' must be a dict"),
        ({"model_info": {"model": "m"}}, TypeError, "must include a 'provider' string"),
        ({"model_info": {"provider": "openai", "model": " "}}, TypeError, "must include a 'model' string"),
        ({"model_info": {**MODEL, "api_kee": "x"}}, TypeError, "unknown members: api_kee"),
        ({"model_info": {**MODEL, "api_key": 5}}, TypeError, "'model_info.api_key' must be a string"),
        ({"rubric": " "}, TypeError, "'rubric' must be a non-empty string"),
        ({"rubric": None}, TypeError, "'rubric' must be a non-empty string"),
        ({"solution_str": ""}, TypeError, "'solution_str' must be a non-empty string"),
        ({"solution_str": ["s"]}, TypeError, "'solution_str' must be a non-empty string"),
        ({"ground_truth": 5}, TypeError, "'ground_truth' must be a str or None"),
        ({"original_input": b"x"}, TypeError, "'original_input' must be a str or None"),
        ({"metadata": "x"}, TypeError, "'metadata' must be a dict or None"),
        ({"score_min": 1.0, "score_max": 1.0}, ValueError, "'score_max' must be greater than 'score_min'"),
        ({"score_max": float("inf")}, ValueError, "must be finite"),
        ({"score_max": True}, TypeError, "'score_max' must be a number"),
        ({"timeout": 0}, ValueError, "'timeout' must be a positive number"),
        ({"timeout": "30"}, TypeError, "'timeout' must be a number"),
        ({"model": "openai/m"}, TypeError, "'model' excludes 'model_info'"),
        ({"api_key": "k"}, TypeError, "go into 'model_info'"),
    ],
)
def test_arguments_that_make_no_sense_reach_no_provider(judge, arguments, kind, message):
    """Each is a TypeError or ValueError that names the argument, raised before any call."""
    given = {"rubric": "r", "solution_str": "s", "model_info": MODEL, **arguments}
    with pytest.raises(kind, match=message):
        evaluate_rubric(**given)
    assert judge.asked == []


@pytest.mark.parametrize(
    ("status", "kind"), [(400, ProviderRequestError), (401, ProviderRequestError), (404, ModelNotFoundError)]
)
def test_a_refused_call_is_the_documented_error(judge, status, kind):
    """Provider, model and detail stand in the error; 404 is the model's absence; the key shows nowhere."""
    judge.reply = says({"error": {"message": f"no, {KEY}!"}}, status)
    with pytest.raises(ProviderRequestError) as caught:
        evaluate_rubric("r", "s", {"provider": "openai", "model": "gpt-4.1-mini"})
    error = caught.value
    assert type(error) is kind
    assert (error.provider, error.model, error.status) == ("openai", "gpt-4.1-mini", status)
    assert str(error).startswith("Provider 'openai' request for model 'gpt-4.1-mini' failed. ")
    assert "no, [REDACTED]!" in error.detail
    assert KEY not in str(error)
    assert len(judge.asked) == 1
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.detail, copy.status) == (kind, str(error), error.detail, status)


def test_the_errors_are_related_as_documented():
    """ModelNotFoundError is a ProviderRequestError; all are RuntimeErrors and errors of the house."""
    assert issubclass(ModelNotFoundError, ProviderRequestError)
    for kind in (MissingAPIKeyError, ProviderRequestError):
        assert issubclass(kind, RuntimeError)
        assert issubclass(kind, OsmosisError)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "did not include any content"),
        ("yes", "not JSON"),
        ("[1]", "not a JSON object"),
        (verdict("0.5"), "no numeric 'score'"),
        (verdict(True), "no numeric 'score'"),
        (verdict(explanation=" "), "no 'explanation' text"),
        ({"choices": [{"message": {"content": None}}]}, "did not include any content"),
        ({"choices": []}, "did not include any content"),
        ({"x": 1}, "no choices"),
    ],
)
def test_a_reply_that_is_no_judgement(judge, content, reason):
    """It is a ProviderRequestError that says why, and is not asked for again."""
    judge.reply = says(content)
    with pytest.raises(ProviderRequestError, match=reason):
        evaluate_rubric("r", "s", MODEL)
    assert len(judge.asked) == 1


def test_a_failing_provider_is_tried_three_times(judge):
    """Twice more after a 500, then it is an error; a judge that recovers is not one."""
    judge.reply = says({"error": {"message": "down"}}, 500)
    with pytest.raises(ProviderRequestError, match="HTTP 500"):
        evaluate_rubric("r", "s", MODEL)
    assert len(judge.asked) == 3


def test_a_rate_limit_is_waited_out(judge):
    """A 429 is tried again after what its Retry-After asks for."""
    judge.reply = lambda _: (
        (429, {"error": {"message": "busy"}}, {"Retry-After": "0"})
        if len(judge.asked) < 3
        else (200, completion(verdict()), {})
    )
    assert evaluate_rubric("r", "s", MODEL) == 0.85
    assert len(judge.asked) == 3


def test_a_silent_judge_is_given_up_after_the_timeout(judge):
    """`timeout` ends the wait for an answer with a ProviderRequestError."""
    released = threading.Event()
    judge.reply = lambda _: (released.wait(90), completion(verdict()), {})
    try:
        with pytest.raises(ProviderRequestError, match=r"no answer within 0\.2 s"):
            evaluate_rubric("r", "s", MODEL, timeout=0.2)
    finally:
        released.set()


def test_settings_that_a_model_refuses_are_taken_back_one_at_a_time(judge):
    """Schema, then JSON object, then nothing; a refused temperature alone costs the temperature alone."""

    def reply(body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if "temperature" in body:
            return 400, {"error": {"message": "Unsupported value: 'temperature'"}}, {}
        if "response_format" in body:
            return 400, {"error": {"message": "response_format is not supported"}}, {}
        return 200, completion(verdict()), {}

    judge.reply = reply
    assert evaluate_rubric("r", "s", {"provider": "openai", "model": "odd"}) == 0.85
    forms = [(body.get("temperature"), body.get("response_format", {}).get("type")) for body in judge.asked]
    assert forms == [(0, "json_schema"), (None, "json_schema"), (None, "json_object"), (None, None)]


async def test_inside_a_running_event_loop(judge):
    """The synchronous function works where a loop is running already, as in a notebook cell or an async grader."""
    assert asyncio.get_running_loop().is_running()
    assert evaluate_rubric("r", "s", MODEL) == 0.85
    assert await evaluate_rubric_async("r", "s", MODEL) == 0.85
    assert await evaluate_rubric_async("r", "s", MODEL, return_details=True) == {
        "score": 0.85,
        "explanation": "because",
        "raw": completion(verdict()),
    }


def test_the_callers_own_event_loop_is_left_alone(judge):
    """A loop that the caller has set stays the current one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        evaluate_rubric("r", "s", MODEL)
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_many_threads_may_judge_at_once(judge):
    """Reward functions are called from the threads of a trainer."""
    barrier = threading.Barrier(8)
    scores: list[float] = []

    def judge_once() -> None:
        barrier.wait(90)
        scores.append(evaluate_rubric("r", "s", MODEL))

    threads = [threading.Thread(target=judge_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scores == [0.85] * 8


def _judge_in_child(results: Any) -> None:
    results.put(evaluate_rubric("r", "s", MODEL))


def test_a_forked_child_can_judge(judge):
    """A child of a process that has judged already has a loop of its own."""
    assert evaluate_rubric("r", "s", MODEL) == 0.85
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_judge_in_child, args=(results,))
    child.start()
    try:
        assert results.get(timeout=90) == 0.85
    finally:
        child.join(90)
    assert child.exitcode == 0


async def test_the_awaitable_form_of_the_current_package(judge):
    """With `model=` and no model_info it is the current public function: awaitable, keyword arguments, no raw answer."""
    awaitable = evaluate_rubric(rubric="r", solution_str="s", model="openai/gpt-5.2", api_key="k-123", system_prompt="Hi.")
    assert inspect.isawaitable(awaitable)
    result = await awaitable
    assert (result.score, result.explanation) == (0.85, "because")
    assert judge.keys == ["Bearer k-123"]
    assert judge.asked[0]["messages"][0]["content"].startswith("Hi.\n\n")
    bare = await evaluate_rubric(rubric="r", solution_str="s", model="gpt-5.2")
    assert bare.score == 0.85
    with pytest.raises(ProviderRequestError, match="names no provider"):
        await evaluate_rubric(rubric="r", solution_str="s", model="llama-3")


def test_an_unknown_provider_says_what_to_do():
    """A provider that nobody knows is refused with a way around it, not with a traceback."""
    with pytest.raises(ProviderRequestError, match="OPENAI_BASE_URL"):
        evaluate_rubric("r", "s", {"provider": "unheard", "model": "m", "api_key": KEY})


@pytest.mark.slow
def test_a_native_provider_is_asked_through_its_own_protocol(judge, monkeypatch):
    """Anthropic gets its own message format, with the judge's prompt and key in it."""
    monkeypatch.setenv("ANTHROPIC_API_BASE", judge.url.removesuffix("/v1"))
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn"}
    judge.reply = says(
        {**message, "content": [{"type": "text", "text": verdict()}], "usage": {"input_tokens": 3, "output_tokens": 2}}
    )
    assert evaluate_rubric("r", "s", {"provider": "anthropic", "model": "claude-x", "api_key": KEY}) == 0.85
    assert judge.paths[-1] == "/v1/messages"
    assert "s" in json.dumps(judge.asked[-1]["messages"])


async def test_a_batch_keeps_order_counts_and_failures(judge):
    """Outcomes stand in the order of the candidates; a candidate that fails does not stop the others; sums are exact."""
    seen: list[RubricProgress] = []

    def reply(body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        candidate = read_blocks(body["messages"][1]["content"])["CANDIDATE_OUTPUT"]
        if candidate == "bad":
            return 400, {"error": {"message": "no"}}, {}
        return 200, completion(verdict(float(candidate))), {}

    judge.reply = reply
    candidates: list[str | RubricItem] = ["0.25", "bad", "", RubricItem("0.5", ground_truth="t", metadata={"a": 1}), "1"]
    batch = await evaluate_rubrics("r", candidates, MODEL, max_in_flight=2, on_progress=seen.append)
    assert batch.scores == [0.25, None, None, 0.5, 1.0]
    assert [(outcome.index, type(outcome.error)) for outcome in batch.errors] == [(1, ProviderRequestError), (2, TypeError)]
    assert (batch.usage.calls, batch.usage.refused, batch.usage.total_tokens) == (3, 1, 15)
    assert [(progress.done, progress.total) for progress in seen] == [(number, 5) for number in range(1, 6)]
    assert seen[-1].failed == 2


async def test_what_a_batch_costs(tmp_path, monkeypatch):
    """At the provider's own endpoint, calls are priced by the bundled table; a server that lends the name has no price."""
    header = {"cassette": 1, "model": "openai/gpt-4.1-mini", "created_at": "2026-01-01T00:00:00Z"}
    model: ModelInfo = {"provider": "openai", "model": "gpt-4.1-mini"}
    body = json.loads(judge_body(build_prompt(Question("r", "a")), "gpt-4.1-mini", first_form("gpt-4.1-mini", None)))
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    call = {"row": 0, "run": 0, "digest": request_digest(body), "ordinal": 0, "request": body, "status": 200}
    costs = []
    for recorded_from in ("https://api.openai.com/v1", "http://127.0.0.1:1/v1"):
        lines = [{**header, "recorded_from": recorded_from}, {**call, "body": completion(verdict(), usage=usage)}]
        path = tmp_path / "c.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        batch = await evaluate_rubrics("r", ["a"], model, replay=path)
        assert batch.scores == [0.85]
        costs.append(batch.usage.cost_usd)
    price = price_of(resolve("openai/gpt-4.1-mini", {"OPENAI_API_KEY": KEY}))
    assert price is not None
    assert costs == [price.input, None]


async def test_a_batch_never_exceeds_its_bound_and_draws_as_it_goes(monkeypatch):
    """`max_in_flight` are asked at once, never more, and no more candidates are drawn than are asked."""
    in_flight = most = drawn = finished = furthest = 0
    full = asyncio.Event()

    async def answer(_: web.BaseRequest, __: bytes) -> web.Response:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        if in_flight == 5:
            full.set()
        # The bound is reached once; nobody is answered before.
        await asyncio.wait_for(full.wait(), 90)
        in_flight -= 1
        return web.json_response(completion(verdict()))

    def candidates():
        nonlocal drawn, furthest
        for number in range(200):
            drawn += 1
            furthest = max(furthest, drawn - finished)
            yield f"candidate {number}"

    def note(_: object) -> None:
        nonlocal finished
        finished += 1

    async with serving(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        info: ModelInfo = {**MODEL, "api_key": KEY}
        batch = await evaluate_rubrics("r", candidates(), info, max_in_flight=5, on_progress=note)
    assert batch.usage.calls == len(batch.outcomes) == 200
    assert most == 5
    assert furthest <= 5


async def test_a_rejected_key_is_not_tried_again(judge):
    """After a 401 the rest of a batch fails with the same error and makes no call."""
    judge.reply = says({"error": {"message": "bad key"}}, 401)
    batch = await evaluate_rubrics("r", [str(number) for number in range(50)], MODEL, max_in_flight=1)
    assert len(judge.asked) == 1
    assert len(batch.errors) == 50


async def test_a_cassette_answers_without_key_or_network(judge, tmp_path, monkeypatch):
    """What was recorded is replayed with the same scores and usage, no key, no server; the key is not in the file."""
    cassette = tmp_path / "judge.jsonl"

    def reply(body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        if body.get("response_format", {}).get("type") == "json_schema":
            return 400, {"error": {"message": f"response_format json_schema: no, {KEY}"}}, {}
        return 200, completion(verdict(0.5)), {}

    judge.reply = reply
    recorded = await evaluate_rubrics("r", ["a", "a", "b"], MODEL, record=cassette)
    assert KEY not in cassette.read_text()
    calls = len(judge.asked)
    monkeypatch.delenv("OPENAI_API_KEY")
    replayed = await evaluate_rubrics("r", ["a", "a", "b"], MODEL, replay=cassette)
    assert replayed.outcomes == recorded.outcomes
    assert replayed.usage.total_tokens == recorded.usage.total_tokens
    assert len(judge.asked) == calls
    missing = await evaluate_rubrics("r", ["a", "a", "c"], MODEL, replay=cassette)
    assert missing.scores == [0.5, 0.5, None]
    assert "the cassette has no answer" in str(missing.outcomes[2].error)
    with pytest.raises(ValueError, match="exclude each other"):
        await evaluate_rubrics("r", ["a"], {**MODEL, "api_key": "k"}, record=cassette, replay=cassette)


def test_every_documented_name_is_at_the_top():
    """`from osmosis_ai import ...` for every name of the document's first half."""
    for name in (
        "osmosis_reward", "osmosis_rubric", "evaluate_rubric", "MissingAPIKeyError", "ProviderRequestError",
        "ModelNotFoundError",
    ):  # fmt: skip
        assert name in dir(osmosis_ai)
        assert getattr(osmosis_ai, name) is not None
    with pytest.raises(AttributeError):
        _ = osmosis_ai.no_such_name


def test_the_wire_body_is_the_contracts(judge):
    """Two messages, a strict schema by its public name, temperature 0 for models that take one."""
    evaluate_rubric("r", "s", {"provider": "openai", "model": "gpt-4.1-mini"})
    body = judge.asked[0]
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["temperature"] == 0
    assert body["response_format"]["json_schema"]["name"] == "reward_rubric_response"
    assert body["response_format"]["json_schema"]["strict"] is True
    evaluate_rubric("r", "s", MODEL)
    assert "temperature" not in judge.asked[1]
    assert json.dumps(body).count("0.0 and 1.0") == 1
