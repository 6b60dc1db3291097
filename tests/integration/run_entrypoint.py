"""The rollout of the tests of whole runs: asks the model with the row's prompt and keeps the answer.

The first word of the prompt chooses what else happens; every other word is for the stub model:

    kill             the server is killed before the call
    raise TEXT       the workflow raises an error with that text; with HOLD_RAISE in the environment it asks the model
    leak NAME        prints the environment variable NAME in pieces, then raises an error that quotes it
    unfinite         returns a sample whose reward is NaN
    discard          the grader takes the sample out of the evaluation
"""

import os
import signal
import sys

import httpx
import uvicorn

from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    ConcurrencyConfig,
    Grader,
    LocalBackend,
    RolloutSample,
    get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server

client = httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=None))


class Echo(AgentWorkflow):
    """One call."""

    async def run(self, ctx):
        """Ask the model; some prompts end differently."""
        prompt = ctx.prompt[-1]["content"]
        match prompt.split():
            case ["kill", *_]:
                sys.stderr.write("about to be killed\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            case ["raise", *_] if "HOLD_RAISE" not in os.environ:
                raise ValueError(prompt)
            case ["leak", name]:
                leak(os.environ[name])
            case ["unfinite"]:
                return RolloutSample(messages=ctx.prompt, reward=float("nan"))
        rollout = get_rollout_context()
        assert rollout is not None
        answer = await client.post(
            rollout.chat_completions_url + "/chat/completions",
            json={"model": "any", "messages": ctx.prompt},
            headers={"Authorization": f"Bearer {rollout.api_key}"},
        )
        answer.raise_for_status()
        return [*ctx.prompt, answer.json()["choices"][0]["message"]]


def leak(value):
    """Show a secret in every way a careless program would."""
    for stream in (sys.stdout, sys.stderr):
        for piece in (value[:1], value[1:3], value[3:], "\n", repr(value), "\n"):
            stream.write(piece)
            stream.flush()
    raise RuntimeError(f"the key {value} is wrong; as Python writes it: {value!r}")


class Exact(Grader):
    """1 for the expected answer, else 0."""

    async def grade(self, ctx):
        """Compare."""
        if ctx.label == "discard":
            ctx.sample.remove_sample = True
        else:
            ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))


if __name__ == "__main__":
    backend = LocalBackend(
        workflow=Echo,
        workflow_config=AgentWorkflowConfig(name="echo", concurrency=ConcurrencyConfig(max_concurrent=64)),
        grader=Exact,
    )
    port = int(os.environ["_OSMOSIS_ROLLOUT_PORT"])
    uvicorn.run(create_rollout_server(backend=backend), host="127.0.0.1", port=port, log_level="warning")
