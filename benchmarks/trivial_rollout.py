"""The rollout of `rollout_server.py`: one message back, one reward. Runs with this package and with the public one."""

import socket
import sys

import uvicorn

from osmosis_ai.rollout import AgentWorkflow, AgentWorkflowConfig, ConcurrencyConfig, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server


class Trivial(AgentWorkflow):
    """Answers at once."""

    async def run(self, ctx):
        """One message."""
        return [*ctx.prompt, {"role": "assistant", "content": "4"}]


class Right(Grader):
    """Scores at once."""

    async def grade(self, ctx):
        """One point."""
        ctx.set_reward(1.0)


if __name__ == "__main__":
    config = AgentWorkflowConfig(name="trivial", concurrency=ConcurrencyConfig(max_concurrent=None))
    app = create_rollout_server(
        backend=LocalBackend(workflow=Trivial, workflow_config=config, grader=Right), configure_logging=False
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listener])
