"""A rollout server whose workflows are agents of the two frameworks; the row's metadata says which, and what it does.

It runs in the environment of the frameworks, which this test suite's own does not have.
"""

import os
import socket
import sys

import uvicorn
from agents import Agent, ModelSettings, Runner, function_tool
from strands import Agent as StrandsAgent
from strands import tool

from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend, get_rollout_context
from osmosis_ai.rollout.integrations.agents import openai_agents, strands
from osmosis_ai.rollout.server import create_rollout_server

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


@function_tool
def mul(a: int, b: int) -> int:
    """Multiply."""
    return a * b


@tool
def times(a: int, b: int) -> int:
    """Multiply."""
    return a * b


async def run_openai(ctx):
    """An agent with a session, a tool and instructions."""
    session = openai_agents.OsmosisMemorySession()
    agent = openai_agents.OsmosisAgent(
        name="calculator",
        instructions="Use the tool.",
        model=openai_agents.OsmosisRolloutModel(top_k=7),
        model_settings=ModelSettings(temperature=0.5),
        tools=[mul],
    )
    await Runner.run(agent, ctx.prompt[-1]["content"], session=session)


async def run_without_session(ctx):
    """Nothing would keep the sample."""
    agent = openai_agents.OsmosisAgent(name="a", model=openai_agents.OsmosisRolloutModel())
    await Runner.run(agent, "hello")


async def run_placeholder(ctx):
    """A plain agent cannot use the placeholder."""
    await Runner.run(Agent(name="a", model=openai_agents.OsmosisRolloutModel()), "hello")


SHARED = openai_agents.OsmosisMemorySession()


async def run_foreign_session(ctx):
    """A session that was made outside of the rollout, next to the rollout's own."""
    openai_agents.OsmosisMemorySession()
    agent = openai_agents.OsmosisAgent(name="a", model=openai_agents.OsmosisRolloutModel())
    await Runner.run(agent, "hello", session=SHARED)


async def run_two_sessions(ctx):
    """A rollout has one sample."""
    openai_agents.OsmosisMemorySession()
    openai_agents.OsmosisMemorySession()


async def run_strands(ctx):
    """An agent with a tool and a system prompt."""
    agent = strands.OsmosisStrandsAgent(
        model=strands.OsmosisRolloutModel(params={"temperature": 0.5}),
        system_prompt="Use the tool.",
        messages=ctx.prompt[:-1],
        tools=[times],
        callback_handler=None,
    )
    await agent.invoke_async(ctx.prompt[-1]["content"])


async def run_strands_placeholder(ctx):
    """A plain agent cannot use the placeholder."""
    await StrandsAgent(model=strands.OsmosisRolloutModel(), callback_handler=None).invoke_async("hello")


WORKFLOWS = {
    "openai": run_openai,
    "no session": run_without_session,
    "placeholder": run_placeholder,
    "foreign session": run_foreign_session,
    "two sessions": run_two_sessions,
    "strands": run_strands,
    "strands placeholder": run_strands_placeholder,
}


class Workflow(AgentWorkflow):
    """Runs the agent that the row names."""

    async def run(self, ctx):
        """Return nothing: the session or the agent is the sample."""
        await WORKFLOWS[ctx.metadata["run"]](ctx)


class Scorer(Grader):
    """Counts what it sees."""

    async def grade(self, ctx):
        """One point for every message."""
        assert get_rollout_context() is not None
        ctx.set_reward(float(len(ctx.sample.messages)))


if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    app = create_rollout_server(backend=LocalBackend(workflow=Workflow, grader=Scorer), configure_logging=False)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
