"""The OpenAI Agents SDK and LiteLLM, unchanged, as clients of the bridge (issue "bridge", must show 3)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.stub_provider import STREAM, TOKEN, Answer, answers, bridged, chunk, completion, serving, streams
from tests.interop import bridge_clients

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CALL = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}


def asks_a_tool_first() -> Answer:
    """A model that calls the tool, and answers once it has the result; streamed if it is asked to."""
    wants = completion()
    wants["choices"][0] |= {
        "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
    }
    usage = chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
    calling = (chunk({"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}), chunk({}, "tool_calls"), usage)

    async def answer(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        fields = json.loads(body)
        done = fields["messages"][-1]["role"] == "tool"
        if fields.get("stream"):
            return await streams(*(STREAM if done else (*calling, b"data: [DONE]\n\n")))(request, body)
        return await answers(completion("4") if done else wants)(request, body)

    return answer


async def talk(python: str, client: str, front) -> dict:
    """What that client understood."""
    process = await asyncio.create_subprocess_exec(
        python,
        str(Path(bridge_clients.__file__)),
        *(client, front.bridge.chat_completions_url("r"), TOKEN),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": os.environ.get("HOME", "")},
    )
    async with asyncio.timeout(600):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("client", ["agents", "agents-stream"])
async def test_the_agents_sdk_runs_a_whole_agent(integrations_python, client):
    """Its agent calls the tool and answers, whole and streamed; the bridge counts what the SDK counts."""
    async with serving(asks_a_tool_first()) as stub, bridged(stub.url) as front:
        found = await talk(integrations_python, client, front)
        calls = front.bridge.take_usage("r")
    expected = "4" if client == "agents" else "four teen"
    assert (found["output"], found["called"], found["requests"]) == (expected, [4.0], 2)
    assert found["deltas"] == ("" if client == "agents" else expected)
    assert calls is not None
    assert sum(call.total_tokens for call in calls) == 10
    # It asks for usage only where it is told to when it streams.
    assert found["tokens"] in (10, 0) if client == "agents-stream" else found["tokens"] == 10
    assert [tool["function"]["name"] for tool in stub.seen[0].json["tools"]] == ["add"]
    assert stub.seen[1].json["messages"][-1]["content"] in ("4", "4.0")


async def test_litellm_as_a_client(integrations_python):
    """Its fields and its unknown ones arrive, its answer is whole, and a refused control field is a BadRequestError by name."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        found = await talk(integrations_python, "litellm", front)
        calls = front.bridge.take_usage("r")
    assert (found["output"], found["tokens"]) == ("4", 5)
    assert "api_base" in found["refused"]
    assert len(stub.seen) == 1
    sent = stub.seen[0].json
    assert (sent["temperature"], sent["new_in_2027"], sent["tools"][0]["function"]["name"]) == (0.5, [1], "add")
    assert calls is not None
    assert len(calls) == 1


async def test_litellm_as_a_streaming_client(integrations_python):
    """A stream through both translations of it is the same text, with usage."""
    async with serving(streams(*STREAM)) as stub, bridged(stub.url) as front:
        found = await talk(integrations_python, "litellm-stream", front)
    assert (found["output"], found["tokens"]) == ("four teen", 5)
