"""A rollout server for tests: what a rollout does is asked for in its row's metadata, limits and backend in the environment.

It listens on a free port of the loopback and prints it as its first line. With TEST_FRAMEWORK it uses FastAPI itself.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import uvicorn

from osmosis_ai.rollout import (
    AgentWorkflow,
    AgentWorkflowConfig,
    AgentWorkflowOutput,
    ExecutionBackend,
    ExecutionOutcome,
    ExecutionResult,
    Grader,
    LocalBackend,
    RolloutSample,
    RolloutStatus,
    SampleSource,
    get_rollout_context,
)
from osmosis_ai.rollout.server import create_rollout_server

if os.environ.get("TEST_FRAMEWORK"):
    import fastapi  # noqa: F401


class SandboxApiException(Exception):
    """As a sandbox library raises it."""

    status_code = 503


class Session(SampleSource):
    """A framework's memory."""

    async def get_sample(self):
        return RolloutSample(messages=[{"role": "assistant", "content": "from the source"}])


def say(line):
    """Print a line for the test to read."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def through(gate):
    """Wait until somebody opens the FIFO `gate` for writing."""
    await asyncio.to_thread(Path(gate).read_bytes)


def current():
    """The context of the rollout that is running."""
    context = get_rollout_context()
    assert context is not None
    return context


def answer(ctx, text):
    """The prompt and one answer."""
    return [*ctx.prompt, {"role": "assistant", "content": text}]


def raising(error):
    """A behaviour that raises `error`."""

    async def run(ctx):
        raise error

    return run


async def output(ctx):
    """Return an output with metrics."""
    return AgentWorkflowOutput(messages=answer(ctx, "output"), metrics={"turns": 1.0})


async def source(ctx):
    """Let a sample source speak."""
    current().set_sample_source(Session())


class Talk(Session):
    """A memory that can be looked at while it grows."""

    async def get_preview(self, max_messages):
        text = f"so far, with {current().api_key}"
        return RolloutSample(messages=[{"role": "assistant", "content": text}], extra_fields={"_preview_turn": 9})


async def source_gate(ctx):
    """Let a sample source speak, and wait at the gate meanwhile."""
    current().set_sample_source(Talk())
    await through(ctx.metadata["gate"])


async def hang(ctx):
    """Never return; tell the FIFO named in the metadata, if any, that we were cancelled."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if told := ctx.metadata.get("told"):
            await asyncio.to_thread(Path(told).write_bytes, b"cancelled")
        raise


async def blocks(ctx):
    """Block the event loop."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ctx.metadata["seconds"]
    while loop.time() < deadline:
        pass
    return answer(ctx, "blocks")


async def swallows(ctx):
    """Ignore cancellation."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return answer(ctx, "swallows")


async def waits(ctx):
    """Wait at the gate."""
    await through(ctx.metadata["gate"])
    return answer(ctx, "waits")


async def ends_early(ctx):
    """Claim success, then wait at the gate."""
    await current().set_status(RolloutStatus.SUCCESS)
    return await waits(ctx)


async def nonsense(ctx):
    """Return what no workflow may."""
    return 42


async def foreign(ctx):
    """Return a message that JSON cannot hold."""
    return [{"role": "assistant", "content": object()}]


async def writes(ctx):
    """Write an artifact."""
    (ctx.artifacts_dir / "notes.txt").write_text("written by the workflow")
    return answer(ctx, "file")


WAVES: dict[str, asyncio.Event] = {}


async def wave_waits(ctx):
    """Wait until the wave is let go, then say who we are."""
    await WAVES.setdefault(ctx.metadata["wave"], asyncio.Event()).wait()
    return answer(ctx, current().rollout_id)


async def wave_opens(ctx):
    """Let the wave go."""
    WAVES.pop(ctx.metadata["wave"]).set()
    return answer(ctx, "open")


async def plain(ctx):
    """Answer."""
    return answer(ctx, "ok")


BEHAVIOURS = {
    "ok": plain,
    "output": output,
    "source": source,
    "source gate": source_gate,
    "boom": raising(RuntimeError("workflow exploded")),
    "value": raising(ValueError("bad value")),
    "gave up": raising(TimeoutError("client gave up")),
    "sandbox": raising(SandboxApiException("sandbox is down")),
    "type": nonsense,
    "hang": hang,
    "blocks": blocks,
    "swallows": swallows,
    "gate": waits,
    "ends early": ends_early,
    "object": foreign,
    "file": writes,
    "wave": wave_waits,
    "open": wave_opens,
}


class Workflow(AgentWorkflow):
    """Does what `metadata.behave` says."""

    async def run(self, ctx):
        return await BEHAVIOURS[(ctx.metadata or {}).get("behave", "ok")](ctx)


class Scorer(Grader):
    """Does what `metadata.grade` says."""

    async def grade(self, ctx):
        wanted = (ctx.metadata or {}).get("grade", "ok")
        if wanted == "boom":
            raise RuntimeError("grader exploded")
        if wanted == "hang":
            await asyncio.Event().wait()
        if wanted == "gate":
            await through(ctx.metadata["grade gate"])
        if wanted == "remove":
            ctx.sample.remove_sample = True
            ctx.set_reward(0.9)
        if wanted == "nan":
            ctx.set_reward(float("nan"))
        if wanted == "odd metrics":
            ctx.sample.metrics |= {"nan": float("nan"), "pair": (1, 2), "object": object()}
        if wanted == "context":
            ctx.sample.metrics["rollout_id"] = current().rollout_id
        if wanted != "nothing":
            ctx.sample.metrics["accuracy"] = 1
            ctx.set_reward(1.0)


class OneByOne(ExecutionBackend):
    """Takes one rollout at a time, ends as the prompt says, and cancels by itself."""

    def __init__(self):
        self.running = {}

    def has_capacity(self):
        return not self.running

    def health(self):
        return {
            "status": "ok",
            "instance_id": "overwritten",
            "max_queue_depth": 1,
            "chat_endpoint": {"environment": "docker", "requires_public_url": True},
        }

    def rollout_status(self, rollout_id):
        return {"status": "running"} if rollout_id in self.running else None

    def cancel_rollouts(self, ids=None, prefix=None, all=False):  # noqa: A002 - the contract's name
        waiting = self.running.get(ids[0])
        if waiting is None:
            return {ids[0]: "not_found"}
        waiting.set()
        return {ids[0]: "cancelled_queued"}

    async def execute(self, request):
        wanted = request.prompt[0]["content"] if request.prompt else "wait"
        if wanted != "wait":
            sample = RolloutSample(messages=request.prompt, reward=0.5)
            result = ExecutionResult(status=RolloutStatus(wanted), sample=sample, extra_fields={"attempts": 2})
            return ExecutionOutcome(workflow=result)
        waiting = self.running[request.id] = asyncio.Event()
        try:
            await waiting.wait()
        finally:
            del self.running[request.id]
        return ExecutionOutcome(workflow=ExecutionResult(status=RolloutStatus.CANCELLED))

    async def shutdown(self):
        say("backend closed")


UNLIMITED = AgentWorkflowConfig(name="unlimited")
BACKENDS = {
    "local": lambda: LocalBackend(workflow=Workflow, grader=Scorer),
    "unlimited": lambda: LocalBackend(workflow=Workflow, workflow_config=UNLIMITED, grader=Scorer),
    "ungraded": lambda: LocalBackend(workflow=Workflow),
    "one": OneByOne,
}

app = create_rollout_server(
    backend=BACKENDS[os.environ.get("TEST_BACKEND", "local")](),
    configure_logging=False,
    **json.loads(os.environ.get("TEST_OPTIONS", "{}")),
)

if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    say(str(listener.getsockname()[1]))
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
