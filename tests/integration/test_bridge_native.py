"""Native providers through LiteLLM against servers that keep bodies (E32): nothing dropped, everything counted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

from osmosis.pure.providers import Wire
from osmosis.pure.usage import read_usage
from tests.integration.stub_provider import KEY, answers, bridged, serving, streams

# LiteLLM and what it brings warn of their own future, and leave their own logging task to the loop.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CLAUDE = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-2.5-flash"
SAID_BY_CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "four"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 0},
}
SAID_BY_GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "four"}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
    "modelVersion": "g",
    "responseId": "r",
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
QUESTION = {"model": "asked", "messages": [{"role": "user", "content": [{"type": "text", "text": "2+2?"}, IMAGE]}]}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}},
}


def claude(stub, **options):
    """A bridge to the stub as Anthropic's API."""
    return bridged(stub.url.removesuffix("/v1"), model_path=CLAUDE, wire=Wire.NATIVE, **options)


def gemini(stub, **options):
    """A bridge to the stub as Gemini's API."""
    return bridged(stub.url, model_path=GEMINI, wire=Wire.NATIVE, **options)


@pytest.mark.parametrize("place", ["top level", "extra_body"])
async def test_what_anthropic_takes_arrives(place):
    """Thinking, tools, images, sampling and fields nobody knows arrive at Anthropic, from both places."""
    fields = {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2000,
        "stop": ["x"],
        "top_k": 3,
        "tools": [TOOL],
        "new_in_2027": {"a": [1]},
        "reasoning": {"effort": "low"},
        "metadata": {"user_id": "u-1"},
    }
    body = {**QUESTION, **fields} if place == "top level" else {**QUESTION, "extra_body": fields}
    async with serving(answers(SAID_BY_CLAUDE)) as stub, claude(stub) as front:
        status, _ = await front.ask(body)
    assert status == 200
    sent = stub.seen[0].json
    assert stub.seen[0].path == "/v1/messages"
    assert {name.lower(): value for name, value in stub.seen[0].headers.items()}["x-api-key"] == KEY
    assert sent["model"] == "claude-sonnet-4-5"
    assert sent["thinking"] == fields["thinking"]
    assert sent["max_tokens"] == 2000
    assert sent["stop_sequences"] == ["x"]
    assert sent["top_k"] == 3
    assert sent["tools"][0]["name"] == "add"
    assert sent["new_in_2027"] == {"a": [1]}
    assert sent["reasoning"] == {"effort": "low"}
    assert sent["metadata"] == {"user_id": "u-1"}
    assert sent["messages"][0]["content"][1]["source"]["data"] == "AAAA"


@pytest.mark.parametrize("place", ["top level", "extra_body"])
async def test_what_gemini_takes_arrives(place):
    """The same for Gemini, whose translation would drop unknown fields without a word."""
    fields = {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "seed": 7,
        "stop": ["x"],
        "top_k": 3,
        "tools": [TOOL],
        "new_in_2027": {"a": [1]},
        "response_format": {"type": "json_object"},
    }
    body = {**QUESTION, **fields} if place == "top level" else {**QUESTION, "extra_body": fields}
    async with serving(answers(SAID_BY_GEMINI)) as stub, gemini(stub) as front:
        status, _ = await front.ask(body)
    assert status == 200
    sent = stub.seen[0].json
    generation = sent["generationConfig"]
    assert generation["thinkingConfig"]["thinkingBudget"] == 1024
    assert generation["seed"] == 7
    assert generation["stop_sequences"] == ["x"]
    assert generation["top_k"] == 3
    assert generation["response_mime_type"] == "application/json"
    assert sent["tools"][0]["function_declarations"][0]["name"] == "add"
    assert sent["new_in_2027"] == {"a": [1]}
    assert "AAAA" in json.dumps(sent["contents"])


@pytest.mark.parametrize(
    ("connect", "fields", "named"),
    [
        (claude, {"seed": 1, "logit_bias": {"1": 1}}, ["seed", "logit_bias"]),
        (claude, {"extra_body": {"logprobs": True, "top_logprobs": 2}}, ["logprobs", "top_logprobs"]),
        (claude, {"frequency_penalty": 0.5}, ["frequency_penalty"]),
        (claude, {"store": True, "prompt_cache_key": "x"}, ["store", "prompt_cache_key"]),
        (claude, {"metadata": {"user_id": "u", "team": "a"}}, ["metadata"]),
        (claude, {"user": "ada@example.org"}, ["user"]),
        (claude, {"metadata": {"user_id": "ada@example.org"}}, ["metadata.user_id"]),
        (gemini, {"user": "u"}, ["user"]),
        (gemini, {"parallel_tool_calls": False, "tools": [TOOL]}, ["parallel_tool_calls"]),
        (gemini, {"logit_bias": {"1": 1}, "store": True}, ["logit_bias", "store"]),
        (gemini, {"metadata": {"user_id": "u"}}, ["metadata"]),
        (claude, {"api_base": "http://evil.test"}, ["api_base"]),
    ],
)
async def test_what_a_provider_does_not_take_is_refused_by_name(connect, fields, named):
    """Every field that would be lost is named in a 400, and no call is made."""
    answer = SAID_BY_CLAUDE if connect is claude else SAID_BY_GEMINI
    async with serving(answers(answer)) as stub, connect(stub) as front:
        status, body = await front.ask({**QUESTION, **fields})
    detail = json.loads(body)["detail"]
    assert status == 400, detail
    assert [name for name in named if name not in detail] == []
    assert "drop_params" not in detail
    assert stub.seen == []


async def test_an_answer_of_anthropic_keeps_its_thinking_and_its_details():
    """Thinking blocks with their signatures, cached-token details and the client's model name come back; usage is counted."""
    async with serving(answers(SAID_BY_CLAUDE)) as stub, claude(stub) as front:
        _, body = await front.ask(QUESTION)
        counted = front.bridge.take_usage("r")
    answer = json.loads(body)
    message = answer["choices"][0]["message"]
    assert (answer["model"], message["content"], answer["choices"][0]["finish_reason"]) == ("asked", "four", "stop")
    assert message["thinking_blocks"] == [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 1
    assert "cost" not in answer["usage"]
    assert counted == (read_usage(answer["usage"]),)
    assert (counted[0].prompt_tokens, counted[0].completion_tokens) == (4, 2)


async def test_an_answer_that_cannot_be_understood_is_a_bad_gateway():
    """What the translation chokes on is the provider's fault, not the rollout's: 502 with the reason."""
    async with serving(answers({"candidates": "none"})) as stub, gemini(stub) as front:
        status, body = await front.ask(QUESTION)
    assert status == 502
    assert "Traceback" not in json.loads(body)["detail"]


EVENTS = (
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "c",
            "content": [],
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "fo"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ur"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "add", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
)


async def test_a_native_stream_passes_as_it_arrives():
    """The first words reach the client while the provider still holds back the rest; usage counts without being asked for."""
    go_on = asyncio.Event()

    async def before(index):
        if index == 4:
            await go_on.wait()

    pieces = [b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), json.dumps(event).encode()) for event in EVENTS]
    async with serving(streams(*pieces, before=before)) as stub, claude(stub) as front:
        received = b""
        async with asyncio.timeout(90), front.post({**QUESTION, "stream": True}) as response:
            async for chunk in response.content.iter_any():
                received += chunk
                if b"fo" in received:
                    go_on.set()
        counted = front.bridge.take_usage("r")
    chunks = [json.loads(line[6:]) for line in received.splitlines() if line.startswith(b"data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "four"
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or ()]
    assert "".join(call.get("arguments") or "" for call in calls) == '{"a":1}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert {chunk["model"] for chunk in chunks} == {"asked"}
    assert received.endswith(b"data: [DONE]\n\n")
    assert [(call.prompt_tokens, call.completion_tokens) for call in counted] == [(3, 9)]


@pytest.mark.parametrize(("connect", "status"), [(claude, 400), (claude, 429), (gemini, 404), (gemini, 429), (gemini, 503)])
async def test_errors_keep_status_words_and_patience(connect, status):
    """4xx comes back as it is with `Retry-After`, 5xx as 502; the provider's words are there, the key is not."""
    refusal = {"type": "error", "error": {"type": "x", "message": f"the reason, and {KEY}"}}
    async with (
        serving(answers(refusal, status, {"Retry-After": "17"})) as stub,
        connect(stub) as front,
        front.post(QUESTION) as response,
    ):
        error = await response.json()
        assert response.status == (status if status < 500 else 502)
        assert response.headers["Retry-After"] == "17"
        assert "the reason" in error["detail"]
        assert KEY not in json.dumps(error)
        assert "litellm" not in error["detail"]


async def test_a_rejected_key_is_told_to_the_run():
    """401 from a native provider reaches the run's supervisor as well."""
    async with serving(answers({"error": {"message": "no"}}, 401)) as stub, claude(stub) as front:
        status, _ = await front.ask(QUESTION)
        assert status == 401
        assert len(front.rejected) == 1


async def test_nobody_there_is_a_bad_gateway():
    """A refused connection is 502 with the reason, without a traceback."""
    async with bridged("http://127.0.0.1:1", model_path=CLAUDE, wire=Wire.NATIVE) as front:
        status, body = await front.ask(QUESTION)
    assert status == 502
    assert "Traceback" not in json.loads(body)["detail"]


def test_only_a_native_model_brings_litellm():
    """A bridge to an OpenAI-compatible endpoint never imports LiteLLM (E7: it costs seconds and much memory)."""
    question = (
        "import asyncio, sys\n"
        "from osmosis.pure.providers import Endpoint\n"
        "from osmosis.pure.redaction import Redactor\n"
        "from osmosis.shell.bridge import Bridge\n"
        "async def main():\n"
        "    bridge = Bridge(Endpoint('openai', 'm', 'http://127.0.0.1:1/v1', None, None), token='t', redactor=Redactor())\n"
        "    await bridge.start()\n"
        "    await bridge.stop()\n"
        "asyncio.run(main())\n"
        "print('litellm' in sys.modules)\n"
    )
    asked = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True, timeout=600)
    assert asked.stdout.strip() == "False"
    assert os.environ.get("LITELLM_LOCAL_MODEL_COST_MAP") in (None, "True")


async def test_thinking_that_a_client_leaves_out_goes_back():
    """Anthropic wants its thinking back with the tool call that it led to; a client that dropped it need not know."""
    thought = {"type": "thinking", "thinking": "add", "signature": "s"}
    use = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2}}
    calling = {**SAID_BY_CLAUDE, "content": [thought, use], "stop_reason": "tool_use"}
    fields = {"tools": [TOOL], "thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    async with serving(answers(calling)) as stub, claude(stub) as front:
        _, body = await front.ask({**QUESTION, **fields})
        call = json.loads(body)["choices"][0]["message"]["tool_calls"][0]
        bare = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "t1", "content": "4"}
        stub.answer = answers(SAID_BY_CLAUDE)
        status, _ = await front.ask({**QUESTION, **fields, "messages": [*QUESTION["messages"], bare, result]})
    assert status == 200
    assert stub.seen[1].json["messages"][1]["content"][0] == thought
