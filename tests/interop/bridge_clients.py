"""Runs in the frameworks' environment: real clients, unchanged, against the bridge whose address comes on the command line.

    python bridge_clients.py CLIENT BASE_URL TOKEN

Prints one JSON line with what the client understood.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

TOOL: Any = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}},
}
MESSAGES: Any = [{"role": "user", "content": "2+2?"}]


async def agents_sdk(url: str, token: str, *, streamed: bool) -> dict[str, Any]:
    """The OpenAI Agents SDK: an agent that calls a tool and then answers."""
    from openai import AsyncOpenAI

    sdk: Any = import_module("agents")
    sdk.set_tracing_disabled(True)
    called: list[float] = []

    @sdk.function_tool
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        called.append(a + b)
        return a + b

    client = AsyncOpenAI(base_url=url, api_key=token)
    agent = sdk.Agent(name="adder", instructions="add", tools=[add], model=sdk.OpenAIChatCompletionsModel("asked", client))
    if streamed:
        result = sdk.Runner.run_streamed(agent, "2+2?")
        deltas = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
    else:
        result, deltas = await sdk.Runner.run(agent, "2+2?"), []
    usage = result.context_wrapper.usage
    return {
        "output": result.final_output,
        "deltas": "".join(deltas),
        "called": called,
        "requests": usage.requests,
        "tokens": usage.total_tokens,
    }


async def litellm_client(url: str, token: str, *, streamed: bool) -> dict[str, Any]:
    """LiteLLM as a client of an OpenAI-compatible server."""
    import litellm as library

    litellm: Any = library

    litellm.suppress_debug_info = True
    common: dict[str, Any] = {
        "model": "openai/asked",
        "api_base": url,
        "api_key": token,
        "messages": MESSAGES,
        "temperature": 0.5,
        "extra_body": {"new_in_2027": [1]},
    }
    if streamed:
        stream = await litellm.acompletion(stream=True, stream_options={"include_usage": True}, **common)
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        usage = next(chunk.usage for chunk in chunks if getattr(chunk, "usage", None))
        return {"output": text, "tokens": usage.total_tokens}
    whole = await litellm.acompletion(tools=[TOOL], **common)
    refused = ""
    try:
        await litellm.acompletion(**{**common, "extra_body": {"api_base": "http://evil.test"}})
    except litellm.BadRequestError as error:
        refused = str(error)
    return {"output": whole.choices[0].message.content, "tokens": whole.usage.total_tokens, "refused": refused}


CLIENTS = {
    "agents": lambda url, token: agents_sdk(url, token, streamed=False),
    "agents-stream": lambda url, token: agents_sdk(url, token, streamed=True),
    "litellm": lambda url, token: litellm_client(url, token, streamed=False),
    "litellm-stream": lambda url, token: litellm_client(url, token, streamed=True),
}

if __name__ == "__main__":
    name, base_url, key = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(CLIENTS[name](base_url, key))) + "\n")
