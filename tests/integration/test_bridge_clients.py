"""The `openai` client, unchanged, through the bridge: what users' rollouts really run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from aiohttp import web

from osmosis.pure.usage import CallUsage
from tests.integration.stub_provider import STREAM, TOKEN, USAGE, Front, answers, bridged, chunk, completion, serving, streams

MESSAGES: Any = [{"role": "user", "content": "2+2?"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}},
}
CALL: Any = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


def connected(front: Front, **options: Any) -> Any:
    """The asynchronous client, pointed at the bridge; used as an async context."""
    return openai.AsyncOpenAI(base_url=front.bridge.chat_completions_url("r"), api_key=TOKEN, **options)


async def test_the_asynchronous_client():
    """A plain call: content, usage, the model that was asked for, and unknown fields from `extra_body` upstream."""
    async with serving(answers()) as stub, bridged(stub.url) as front, connected(front) as client:
        reply = await client.chat.completions.create(
            model="asked", messages=MESSAGES, temperature=0.5, extra_body={"reasoning": {"effort": "low"}}
        )
        assert reply.choices[0].message.content == "4"
        assert reply.model == "asked"
        assert reply.usage is not None
        assert reply.usage.total_tokens == 5
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),)
    assert stub.seen[0].json["reasoning"] == {"effort": "low"}
    assert stub.seen[0].json["temperature"] == 0.5


async def test_the_synchronous_client():
    """The same from a thread, streamed and not, on one kept connection."""

    async def answer(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        kind = streams(*STREAM) if json.loads(body).get("stream") else answers()
        return await kind(request, body)

    def talk(url: str) -> tuple[str | None, str]:
        client: Any
        with openai.OpenAI(base_url=url, api_key=TOKEN) as client:
            whole = client.chat.completions.create(model="asked", messages=MESSAGES)
            parts = client.chat.completions.create(model="asked", messages=MESSAGES, stream=True)
            return whole.choices[0].message.content, "".join(part.choices[0].delta.content or "" for part in parts)

    async with serving(answer) as stub, bridged(stub.url) as front:
        assert await asyncio.to_thread(talk, front.bridge.chat_completions_url("r")) == ("4", "four teen")
        assert front.bridge.take_usage("r") == (CallUsage(3, 2, 5),) * 2


@pytest.mark.parametrize("wants_usage", [False, True])
async def test_streaming(wants_usage):
    """Chunks come as objects; the usage chunk comes to those who ask and to nobody else."""
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front, connected(front) as client:
        parts = [
            part
            async for part in await client.chat.completions.create(model="asked", messages=MESSAGES, stream=True, **options)
        ]
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == "four teen"
    assert {part.model for part in parts} == {"asked"}
    assert [part.usage.model_dump(exclude_none=True) for part in parts if part.usage] == ([USAGE] if wants_usage else [])


async def test_a_tool_using_conversation():
    """Tool definitions go up, tool calls come down whole and in fragments, and the result goes up again."""
    first = completion()
    first["choices"][0] |= {
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        "finish_reason": "tool_calls",
    }
    fragments = [
        chunk({"tool_calls": [{"index": 0, **CALL, "function": {"name": "add", "arguments": '{"a"'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ": 2}"}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]

    async def answer(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        asked = json.loads(body)
        if asked.get("stream"):
            return await streams(*fragments)(request, body)
        return await answers(first if asked["messages"][-1]["role"] == "user" else completion())(request, body)

    async with serving(answer) as stub, bridged(stub.url) as front, connected(front) as client:
        reply = await client.chat.completions.create(model="m", messages=MESSAGES, tools=[TOOL], tool_choice="auto")
        said = reply.choices[0].message
        assert said.tool_calls is not None
        assert said.tool_calls[0].function.arguments == '{"a": 2}'
        result = {"role": "tool", "tool_call_id": "t1", "content": "4"}
        again = [*MESSAGES, said.model_dump(exclude_none=True), result]
        final = await client.chat.completions.create(model="m", messages=again, tools=[TOOL])
        assert final.choices[0].message.content == "4"
        arguments = ""
        async with await client.chat.completions.create(model="m", messages=MESSAGES, tools=[TOOL], stream=True) as parts:
            async for part in parts:
                for call in part.choices[0].delta.tool_calls or ():
                    arguments += call.function.arguments or ""
        assert arguments == '{"a": 2}'
    assert stub.seen[0].json["tools"] == [TOOL]
    assert stub.seen[1].json["messages"][-1] == result


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_are_the_clients_own(status, error, stream):
    """Each provider error is raised as the client's own exception for it, with the provider's words, streamed or not."""
    refusal = answers({"error": {"message": "the reason"}}, status)
    async with serving(refusal) as stub, bridged(stub.url) as front, connected(front, max_retries=0) as client:
        with pytest.raises(error, match="the reason"):
            await client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)


async def test_a_stream_that_breaks_off_raises():
    """A rollout never mistakes half an answer for a whole one: the client raises."""
    async with serving(streams(*STREAM[:2])) as stub, bridged(stub.url) as front, connected(front) as client:
        parts = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="ended before"):
            async for _ in parts:
                pass
