"""The workflow and grader of the sandbox tests.

The workflow asks the model with the row's prompt and returns the answer. The first word of the prompt says what else is done:

    fail      raises an error
    hostile   plants everything in the artifacts that must never come out, and some files that must
    poke      tries to reach other places than the model; a port and a path of the machine follow
"""

import os
import socket
from pathlib import Path

import httpx

from osmosis_ai.rollout import AgentWorkflow, Grader, get_rollout_context


class Ask(AgentWorkflow):
    """One call."""

    async def run(self, ctx):
        """Ask the model."""
        prompt = ctx.prompt[-1]["content"]
        word = prompt.split()[0]
        if word == "fail":
            raise ValueError(prompt)
        if word == "hostile":
            plant(ctx.artifacts_dir)
        rollout = get_rollout_context()
        assert rollout is not None
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(
                rollout.chat_completions_url + "/chat/completions",
                json={"model": "any", "messages": ctx.prompt},
                headers={"Authorization": f"Bearer {rollout.api_key}"},
            )
        answer.raise_for_status()
        (ctx.artifacts_dir / "answer.txt").write_text(answer.text)
        (ctx.artifacts_dir / "key.txt").write_text(f"the key is {rollout.api_key}")
        if word == "poke":
            (ctx.artifacts_dir / "reached.txt").write_text(", ".join(reached(*prompt.split()[1:])))
        return [*ctx.prompt, answer.json()["choices"][0]["message"]]


def reached(port, path):
    """What the sandbox can see that it should not: other networks, another port of the machine, a directory of it."""
    found = []
    for host, number in (("1.1.1.1", 80), ("169.254.169.254", 80), ("127.0.0.1", int(port))):
        try:
            socket.create_connection((host, number), 1).close()
            found.append(f"{host}:{number}")
        except OSError:
            pass
    return found + [name for name in (path, f"/proc/1/root{path}") if os.path.exists(name)]


def plant(artifacts):
    """Links, pipes, devices, giants and traversals among two honest files."""
    (artifacts / "honest.txt").write_text("honest")
    (artifacts / "deep" / "er").mkdir(parents=True)
    (artifacts / "deep" / "er" / "honest.txt").write_text("honest too")
    (artifacts / "link.txt").symlink_to("/etc/passwd")
    (artifacts / "up.txt").symlink_to("../../../../../../etc/passwd")
    (artifacts / "directory").symlink_to("/etc")
    os.mkfifo(artifacts / "pipe")
    for name in ("back\\slash.txt", "new\nline.txt"):
        (artifacts / name).write_text("odd")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(artifacts / "socket"))
    try:
        os.mknod(artifacts / "device", 0o600 | 0o020000, os.makedev(1, 5))
    except OSError:
        (artifacts / "no-device.txt").write_text("the sandbox makes no devices")
    try:
        with Path(artifacts, "giant").open("wb") as file:
            file.truncate(1 << 40)
    except OSError:
        Path(artifacts, "giant").unlink(missing_ok=True)
        (artifacts / "no-giant.txt").write_text("the sandbox makes no giants")


class Exact(Grader):
    """1 for the expected answer, else 0."""

    async def grade(self, ctx):
        """Compare, and leave a note among the artifacts."""
        (ctx.artifacts_dir / "graded.txt").write_text(str(ctx.label))
        if ctx.label == "discard":
            ctx.sample.remove_sample = True
            return
        ctx.sample.metrics["length"] = len(ctx.sample.messages)
        ctx.set_reward(float(ctx.sample.messages[-1]["content"] == ctx.label))
