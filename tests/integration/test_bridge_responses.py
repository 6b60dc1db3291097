"""Models that answer on the Responses API alone, asked through chat completions (ruling 20)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from aiohttp import web

from osmosis.pure.providers import Wire
from osmosis.pure.usage import read_usage
from tests.integration.stub_provider import TOKEN, answers, bridged, compact, serving

USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 10},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 50,
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "four", "annotations": [], "logprobs": [{"token": "four", "logprob": -0.1}]}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": '{"a":2}',
    "status": "completed",
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 7,
    "model": "gpt-5-pro-2025-10-06",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": [REASONING, TEXT],
    "usage": USAGE,
    "service_tier": "default",
}
SCHEMA = {"name": "sum", "schema": {"type": "object"}, "strict": True}
QUESTION = {"model": "asked", "messages": [{"role": "user", "content": "2+2?"}]}


def at_responses(stub, **options):
    """A bridge to the stub as OpenAI's endpoint of a model that needs the Responses API."""
    return bridged(stub.url, model_path="openai/gpt-5-pro", wire=Wire.RESPONSES, **options)


def only_responses(answer=RESPONSE):
    """A provider that refuses chat completions for this model, as OpenAI does."""
    right = answers(answer)
    wrong = answers({"error": {"message": "This is not a chat model", "code": None}}, 404)

    async def choose(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        return await (right if request.path == "/v1/responses" else wrong)(request, body)

    return choose


async def test_every_field_arrives_in_its_new_shape():
    """Messages, images, tools, formats, limits and reasoning stand where the Responses API wants them; the rest as sent."""
    body = {
        "model": "asked",
        "messages": [
            {"role": "system", "content": "add"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "2+2?"},
                    {"type": "image_url", "image_url": {"url": "data:,x", "detail": "low"}},
                    {"type": "file", "file": {"file_id": "f1"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "reasoning_items": [REASONING],
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "4"},
        ],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {"type": "json_schema", "json_schema": SCHEMA},
        "max_tokens": 100,
        "temperature": 1.50,
        "logprobs": True,
        "top_logprobs": 2,
        "metadata": {"a": "b"},
        "extra_body": {"reasoning_effort": "low", "new_in_2027": {"x": [1]}, "verbosity": "low"},
    }
    async with serving(only_responses()) as stub, at_responses(stub) as front:
        status, _ = await front.ask(body)
    assert status == 200
    assert stub.seen[0].json == {
        "model": "gpt-5-pro",
        "temperature": 1.5,
        "top_logprobs": 2,
        "metadata": {"a": "b"},
        "new_in_2027": {"x": [1]},
        "input": [
            {"role": "system", "content": "add"},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "2+2?"},
                    {"type": "input_image", "image_url": "data:,x", "detail": "low"},
                    {"type": "input_file", "file_id": "f1"},
                ],
            },
            REASONING,
            {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":2}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "4"},
        ],
        "max_output_tokens": 100,
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", **SCHEMA}},
        "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}],
        "tool_choice": {"type": "function", "name": "add"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "store": False,
    }
    assert b'"temperature":1.5' in stub.seen[0].body


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"stop": ["x"], "seed": 1, "logit_bias": {}}, ["stop", "seed", "logit_bias"]),
        ({"extra_body": {"presence_penalty": 1}}, ["presence_penalty"]),
        ({"max_tokens": 1, "max_completion_tokens": 2}, ["max_tokens", "max_completion_tokens"]),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, ["reasoning_effort", "reasoning.effort"]),
        (
            {"response_format": {"type": "text"}, "text": {"format": {"type": "json_object"}}},
            ["response_format", "text.format"],
        ),
        ({"messages": [{"role": "function", "content": "x"}]}, ["messages[0]"]),
    ],
)
async def test_what_has_no_equal_is_refused_by_name(fields, named):
    """A chat parameter that the Responses API lacks, and a contradiction, is a 400 that names it; no call is made."""
    async with serving(only_responses()) as stub, at_responses(stub) as front:
        status, body = await front.ask({**QUESTION, **fields})
    assert status == 400
    assert [name for name in named if name not in json.loads(body)["detail"]] == []
    assert stub.seen == []


async def test_an_answer_is_a_chat_completion_with_all_its_details():
    """Text, logprobs, reasoning and usage with its details come back in the chat shape; the usage is counted."""
    async with serving(only_responses({**RESPONSE, "output": [REASONING, TEXT, CALL]})) as stub, at_responses(stub) as front:
        _, body = await front.ask(QUESTION)
        counted = front.bridge.take_usage("r")
    answer = json.loads(body)
    choice = answer["choices"][0]
    assert (answer["object"], answer["model"], answer["created"], answer["service_tier"]) == (
        *("chat.completion", "asked", 7),
        "default",
    )
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "four"
    assert choice["message"]["reasoning_content"] == "hm"
    assert choice["message"]["reasoning_items"] == [REASONING]
    assert choice["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}}
    ]
    assert choice["logprobs"]["content"] == [{"token": "four", "logprob": -0.1}]
    assert answer["usage"] == {
        "prompt_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 10},
        "completion_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 15},
        "total_tokens": 50,
    }
    assert counted == (read_usage(answer["usage"]),)


@pytest.mark.parametrize(
    ("changes", "status", "finish"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, 200, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, 200, "content_filter"),
        ({"status": "failed", "error": {"code": "server_error", "message": "oops"}}, 502, None),
        ({"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "oops"}}, 429, None),
        ({"status": "cancelled"}, 502, None),
    ],
)
async def test_endings(changes, status, finish):
    """An answer that was cut says why; one that failed is an error and never half an answer."""
    async with serving(only_responses({**RESPONSE, **changes})) as stub, at_responses(stub) as front:
        got, body = await front.ask(QUESTION)
    assert got == status
    if finish:
        assert json.loads(body)["choices"][0]["finish_reason"] == finish


async def test_a_provider_that_refuses_keeps_its_status():
    """A 4xx of the Responses API comes back as it is."""
    async with serving(answers({"error": {"message": "no such model"}}, 404)) as stub, at_responses(stub) as front:
        status, body = await front.ask(QUESTION)
    assert status == 404
    assert "no such model" in json.loads(body)["detail"]


EVENTS = (
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**REASONING, "summary": []}},
    {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {"type": "response.output_item.added", "output_index": 1, "item": {**TEXT, "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "fo"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "ur"},
    {"type": "response.output_item.done", "output_index": 1, "item": TEXT},
    {"type": "response.output_item.added", "output_index": 2, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ":2}"},
    {"type": "response.output_item.done", "output_index": 2, "item": CALL},
    {"type": "response.completed", "response": {**RESPONSE, "output": [REASONING, TEXT, CALL]}},
)


def streamed(events, before=None, size=None):
    """The events as OpenAI streams them, in pieces of `size` bytes if given."""

    async def answer(request: web.BaseRequest, _: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for event in events:
            if before is not None:
                await before(event)
            data = b"event: %b\ndata: %b\n\n" % (event["type"].encode(), compact(event))
            for start in range(0, len(data), size or len(data)):
                await response.write(data[start : start + (size or len(data))])
        await response.write_eof()
        return response

    return answer


@pytest.mark.parametrize("size", [None, 1, 7])
async def test_the_openai_client_reads_a_translated_stream(size):
    """However the bytes are cut, the real client puts text, reasoning, tool call, usage and ending together."""
    async with serving(streamed(EVENTS, size=size)) as stub, at_responses(stub) as front:
        async with openai.AsyncOpenAI(base_url=front.bridge.chat_completions_url("r"), api_key=TOKEN) as client:
            stream: Any = await client.chat.completions.create(
                model="asked",
                messages=[{"role": "user", "content": "2+2?"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks: list[Any] = [chunk async for chunk in stream]
        counted = front.bridge.take_usage("r")
    assert stub.seen[0].json["stream"] is True
    assert "stream_options" not in stub.seen[0].json
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "four"
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "hm"
    assert [items for delta in deltas if (items := getattr(delta, "reasoning_items", None))] == [[REASONING]]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert (calls[0].id, calls[0].function.name) == ("call_1", "add")
    assert "".join(call.function.arguments for call in calls) == '{"a":2}'
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 10
    assert [call.total_tokens for call in counted] == [50]


async def test_a_translated_stream_is_a_true_stream():
    """The first words are there before the provider has said the last."""
    go_on = asyncio.Event()

    async def before(event):
        if event["type"] == "response.completed":
            await go_on.wait()

    async with serving(streamed(EVENTS, before)) as stub, at_responses(stub) as front:
        received = b""
        async with asyncio.timeout(90), front.post({**QUESTION, "stream": True}) as response:
            async for chunk in response.content.iter_any():
                received += chunk
                if b"ur" in received:
                    go_on.set()
    assert received.endswith(b"data: [DONE]\n\n")
    assert b'"choices":[]' not in received


@pytest.mark.parametrize(
    "last",
    [
        {"type": "response.failed", "response": {**RESPONSE, "status": "failed", "error": {"code": "x", "message": "oops"}}},
        {"type": "error", "code": "server_error", "message": "oops"},
        {"type": "response.output_text.done", "text": "oops"},
    ],
)
async def test_half_a_stream_is_an_error(last):
    """A stream that fails or ends early is told to the client and counts nothing."""
    async with serving(streamed((*EVENTS[:7], last))) as stub, at_responses(stub) as front:
        status, body = await front.ask({**QUESTION, "stream": True})
        assert front.bridge.take_usage("r") is None
    assert status == 502 or b"event: error" in body
    assert b"[DONE]" not in body.partition(b"event: error")[0]


async def test_arguments_without_deltas_are_not_lost():
    """A server that sends a call's arguments only as a whole loses none of them, and one that sends both sends them once."""
    events = [event for event in EVENTS if "arguments.delta" not in str(event["type"])]
    async with serving(streamed(events)) as stub, at_responses(stub) as front:
        _, body = await front.ask({**QUESTION, "stream": True})
    chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert "".join(call["function"]["arguments"] for call in calls) == '{"a":2}'
