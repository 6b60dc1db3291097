"""Agent loops for tests of the remote rollout API, and a way to serve them on a real port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from osmosis.shell.remote_rollout.serve import bind
from osmosis_ai import (
    OpenAIFunctionParametersSchema,
    OpenAIFunctionPropertySchema,
    OpenAIFunctionSchema,
    OpenAIFunctionToolSchema,
    RolloutAgentLoop,
    RolloutContext,
    RolloutRequest,
    RolloutResult,
    create_tool_result,
    get_tool_call_info,
)

NUMBER = OpenAIFunctionPropertySchema(type="number")
ADD = OpenAIFunctionToolSchema(
    type="function",
    function=OpenAIFunctionSchema(
        name="add",
        description="Add",
        parameters=OpenAIFunctionParametersSchema(
            type="object",
            properties={"a": NUMBER, "b": OpenAIFunctionPropertySchema(type="number", description="B")},
            required=["a", "b"],
        ),
    ),
)
CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 5, "b": 3}'}}


class Adder(RolloutAgentLoop):
    """The loop of the recorded exchange: one tool call, then the answer."""

    name = "adder"

    def get_tools(self, request: RolloutRequest) -> list[OpenAIFunctionToolSchema]:
        return [ADD]

    async def run(self, ctx: RolloutContext) -> RolloutResult:
        messages = list(ctx.request.messages)
        while True:
            result = await ctx.chat(messages, **ctx.request.completion_params)
            messages.append(result.message)
            ctx.log_event("llm_response", content=result.content)
            if not result.has_tool_calls:
                return ctx.complete(messages, finish_reason=result.finish_reason, reward=1.0)
            for call in result.tool_calls:
                identity, _, arguments = get_tool_call_info(call)
                ctx.record_tool_call(latency_ms=5.0)
                messages.append(create_tool_result(identity, arguments["a"] + arguments["b"]))


class Scripted(RolloutAgentLoop):
    """Runs whatever a test gives it."""

    name = "scripted"

    def __init__(self, run: Any, tools: Any = list) -> None:
        self._run = run
        self._tools = tools

    def get_tools(self, request: RolloutRequest) -> list[OpenAIFunctionToolSchema]:
        return self._tools()

    async def run(self, ctx: RolloutContext) -> RolloutResult:
        return await self._run(ctx)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """An application on a real port; the base URL."""
    listener = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


async def explode(_: RolloutContext) -> RolloutResult:
    """A loop with a bug."""
    raise RuntimeError("agent exploded")


async def give_up(ctx: RolloutContext) -> RolloutResult:
    """A loop that ends with an error of its own."""
    return ctx.error("graceful", [{"role": "user", "content": "x"}])


async def forget(_: RolloutContext) -> None:
    """A loop that returns nothing."""


async def unspeakable(ctx: RolloutContext) -> RolloutResult:
    """A loop whose reward is no number for JSON."""
    return ctx.complete([], reward=float("nan"))
