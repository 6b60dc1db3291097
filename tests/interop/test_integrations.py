"""Agents of the OpenAI Agents SDK and of Strands on a rollout's endpoint, with the real packages (rollout_protocol section 12).

A stub model on loopback streams a tool call, then an answer; the rollout server runs in the frameworks' environment.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from osmosis.pure.trajectory import decode_trajectory
from tests.integration.rollout_server_process import rollout_server
from tests.integration.stub_provider import USAGE, chunk, serving, streams

pytestmark = pytest.mark.interop

ENTRYPOINT = Path(__file__).with_name("integration_entrypoint.py")
KEY = "one-rollouts-key"


def tool_call(name):
    """A streamed call of the multiplication tool."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"a": 6, "b": 7}'}}
    return streams(
        chunk({"role": "assistant", "tool_calls": [call]}),
        chunk({}, "tool_calls"),
        chunk(choices=[], usage=USAGE),
        b"data: [DONE]\n\n",
    )


ANSWER = streams(
    chunk({"role": "assistant", "content": "forty"}),
    chunk({"content": "-two"}),
    chunk({}, "stop"),
    chunk(choices=[], usage=USAGE),
    b"data: [DONE]\n\n",
)
TOOLS = {"mul": tool_call("mul"), "times": tool_call("times")}


async def model(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Call the tool that is offered, and answer once it was used."""
    asked = json.loads(body)
    if asked["messages"][-1]["role"] == "tool":
        return await ANSWER(request, body)
    return await TOOLS[asked["tools"][0]["function"]["name"]](request, body)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where the rollouts leave their files."""
    return tmp_path_factory.mktemp("trials")


@pytest.fixture(scope="module")
def server(integrations_python, root):
    """The rollout server in the frameworks' environment."""
    with rollout_server(root, python=integrations_python, entrypoint=ENTRYPOINT) as running:
        yield running


async def rolled_out(server, name):
    """What the rollout `name` ends with, and the requests that the model got."""
    async with serving(model) as stub:
        result = await asyncio.to_thread(
            server.run,
            name,
            {"run": name},
            initial_messages=[{"role": "user", "content": "first"}, {"role": "user", "content": "6*7?"}],
            chat_completions_url=f"{stub.url}/rollouts/{name}",
            llm_api_key=KEY,
        )
    return result, stub.seen


def trajectory(root, name):
    """The trajectory's steps: who, what text, which tools with which answers."""
    document = decode_trajectory((root / name / "trajectory.json").read_bytes(), "trajectory.json")
    return [
        (
            step.source,
            step.message,
            [(call.function_name, call.arguments) for call in step.tool_calls or ()],
            [result.content for result in step.observation.results] if step.observation else [],
        )
        for step in document.steps
    ]


async def test_openai_agents(server, root):
    """Requests, sample and trajectory of an agent that uses a tool."""
    result, seen = await rolled_out(server, "openai")
    assert result["status"] == "success", result
    assert [request.path for request in seen] == ["/v1/rollouts/openai/chat/completions"] * 2
    assert {request.headers["Authorization"] for request in seen} == {f"Bearer {KEY}"}
    first, second = (request.json for request in seen)
    assert {"model": "osmosis-rollout", "stream": True, "temperature": 0.5, "top_k": 7}.items() <= first.items()
    assert "stream_options" not in first
    assert first["messages"] == [{"role": "system", "content": "Use the tool."}, {"role": "user", "content": "6*7?"}]
    called, answered = second["messages"][-2:]
    assert called["role"] == "assistant"
    assert called["tool_calls"][0]["function"] == {"name": "mul", "arguments": '{"a": 6, "b": 7}'}
    assert not called.get("content")
    assert answered == {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    messages = result["sample"]["messages"]
    assert [item.get("type") or item["role"] for item in messages] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert messages[2] == {"call_id": "call_1", "output": "42", "type": "function_call_output"}
    assert [part["text"] for part in messages[3]["content"]] == ["forty-two"]
    assert result["sample"]["reward"] == 4.0
    assert trajectory(root, "openai") == [
        ("user", "6*7?", [], []),
        ("agent", "", [("mul", {"a": 6, "b": 7})], ["42"]),
        ("agent", "forty-two", [], []),
    ]


async def test_strands(server, root):
    """Requests, sample and trajectory of an agent that uses a tool."""
    result, seen = await rolled_out(server, "strands")
    assert result["status"] == "success", result
    assert [request.path for request in seen] == ["/v1/rollouts/strands/chat/completions"] * 2
    assert {request.headers["Authorization"] for request in seen} == {f"Bearer {KEY}"}
    first = seen[0].json
    assert {"model": "osmosis-rollout", "stream": True, "temperature": 0.5}.items() <= first.items()
    assert first["stream_options"] == {"include_usage": True}
    assert [message["role"] for message in first["messages"]] == ["system", "user", "user"]
    messages = result["sample"]["messages"]
    assert [message["role"] for message in messages] == ["user", "user", "assistant", "user", "assistant"]
    assert messages[0]["content"] == [{"text": "first"}]
    assert messages[2]["content"][0]["toolUse"]["input"] == {"a": 6, "b": 7}
    assert messages[3]["content"][0]["toolResult"]["content"] == [{"text": "42"}]
    assert messages[4]["content"] == [{"text": "forty-two"}]
    assert result["sample"]["reward"] == 5.0
    assert trajectory(root, "strands") == [
        ("user", "first", [], []),
        ("user", "6*7?", [], []),
        ("agent", "", [("times", {"a": 6, "b": 7})], ["42"]),
        ("agent", "forty-two", [], []),
    ]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("no session", "session=OsmosisMemorySession()"),
        ("placeholder", "OsmosisRolloutModel is a placeholder"),
        ("foreign session", "belongs to another rollout"),
        ("two sessions", "already registered"),
        ("strands placeholder", "OsmosisRolloutModel is a placeholder"),
    ],
)
async def test_mistakes_are_told(server, name, word):
    """What an author gets wrong fails the rollout with words that help, and asks no model."""
    result, seen = await rolled_out(server, name)
    assert result["status"] == "failure"
    assert word in result["err_message"]
    assert not seen
