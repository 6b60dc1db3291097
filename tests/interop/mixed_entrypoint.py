"""A rollout whose rows end in every way there is; the first word of the prompt says how. Runs with either package."""

import asyncio
import os

import httpx
import uvicorn

from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    AgentWorkflowOutput,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
    get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server

PORT = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])


def current():
    """The context of the rollout that is running."""
    context = get_rollout_context()
    assert context is not None
    return context


async def ask(ctx):
    """The model's answer to the prompt."""
    rollout = current()
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        answer = await client.post(
            f"{rollout.chat_completions_url}/chat/completions",
            json={"model": "osmosis-rollout", "messages": ctx.prompt},
            headers={"Authorization": f"Bearer {rollout.api_key}"},
        )
    answer.raise_for_status()
    return answer.json()["choices"][0]["message"]


async def cancel_myself():
    """Ask our own server to cancel us, and wait for it."""
    rollout = current()
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(f"http://127.0.0.1:{PORT}/rollout/cancel", json={"ids": [rollout.rollout_id]})
    await asyncio.Event().wait()


class Mixed(AgentWorkflow):
    """Asks the model, unless the row wants something else."""

    async def run(self, ctx):
        """Do what the prompt says."""
        match ctx.prompt[-1]["content"].split(" ")[0]:
            case "raise":
                raise RuntimeError("the workflow exploded")
            case "value":
                raise ValueError("a bad value")
            case "gave-up":
                raise TimeoutError("the client gave up")
            case "hang":
                await asyncio.Event().wait()
            case "number":
                return 42
            case "cancel":
                await cancel_myself()
        messages = [*ctx.prompt, await ask(ctx)]
        return AgentWorkflowOutput(messages=messages, metrics={"turns": 1.0})


class Judge(Grader):
    """One point for the label, unless the row wants something else."""

    async def grade(self, ctx):
        """Do what the prompt says."""
        match ctx.sample.messages[0]["content"].split(" ")[0]:
            case "grader-raises":
                raise RuntimeError("the grader exploded")
            case "grader-hangs":
                await asyncio.Event().wait()
            case "unrewarded":
                return
            case "not-a-number":
                ctx.set_reward(float("nan"))
            case "skip":
                ctx.sample.remove_sample = True
        ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))


if __name__ == "__main__":
    config = AgentWorkflowConfig(name="mixed", concurrency=ConcurrencyConfig(max_concurrent=8))
    backend = LocalBackend(workflow=Mixed, workflow_config=config, grader=Judge)
    uvicorn.run(create_rollout_server(backend=backend), host="127.0.0.1", port=PORT, log_level="warning")
