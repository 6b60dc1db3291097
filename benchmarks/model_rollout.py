"""The rollout of the whole-run benchmarks: one model call, one reward. Runs with this package and with the public one."""

import os

import aiohttp
import uvicorn

from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
    get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server

SESSIONS = []


def session():
    """One for all calls, made inside the loop."""
    if not SESSIONS:
        SESSIONS.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    return SESSIONS[0]


class Ask(AgentWorkflow):
    """One call."""

    async def run(self, ctx):
        """Ask the model."""
        rollout = get_rollout_context()
        async with session().post(
            rollout.chat_completions_url + "/chat/completions",
            json={"model": "any", "messages": ctx.prompt},
            headers={"Authorization": f"Bearer {rollout.api_key}"},
        ) as answer:
            answer.raise_for_status()
            return [*ctx.prompt, (await answer.json())["choices"][0]["message"]]


class Exact(Grader):
    """1 for the expected answer, else 0."""

    async def grade(self, ctx):
        """Compare."""
        ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))


if __name__ == "__main__":
    backend = LocalBackend(
        workflow=Ask,
        workflow_config=AgentWorkflowConfig(name="trivial", concurrency=ConcurrencyConfig(max_concurrent=None)),
        grader=Exact,
    )
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    uvicorn.run(create_rollout_server(backend=backend), host="127.0.0.1", port=port, log_level="warning", access_log=False)
