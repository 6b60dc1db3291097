"""The managed tunnel with a stand-in program that misbehaves in each way (E3, contract section 11)."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from osmosis.pure.errors import ErrorCode, OsmosisError
from osmosis.pure.tunnel import PROOF_HEADER, proof
from osmosis.shell.bridge.tunnel import Tunnel
from tests.integration.cloudflared import Program
from tests.integration.stub_provider import PATIENCE, STREAM, TOKEN, answers, bridged, serving, streams
from tests.integration.workspaces import alive, eventually

LOOPBACK_URL = re.compile(r"http://127\.0\.0\.1:\d+")
QUESTION = {"model": "asked", "messages": [{"role": "user", "content": "2+2?"}]}

pytestmark = pytest.mark.slow


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The stand-in, first on PATH."""
    program = Program(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{program.directory}{os.pathsep}{os.environ['PATH']}")
    return program


def start(front, **options):
    """A tunnel to a started bridge."""
    base = front.bridge.chat_completions_url("r").partition("/v1/")[0]
    options.setdefault("probe_seconds", 0.02)
    return Tunnel.start(base, proof(TOKEN), pattern=LOOPBACK_URL, **options)


async def given_up(front, program: Program, words: list[str], pids: list[int]) -> OsmosisError:
    """How a tunnel fails. One that never ends by itself is given up when it has done everything and its address was tried:
    where the machine was too slow for that, it gets more time."""
    for seconds in (PATIENCE,) if "exit-1" in words else (0.5, 4.0, 30.0, PATIENCE):
        (program.directory / "done").unlink(missing_ok=True)
        with pytest.raises(OsmosisError) as caught:
            await start(front, ready_seconds=seconds, on_spawn=pids.append)
        tried = "announced no public URL" not in str(caught.value) or not any("announce" in word for word in words)
        if (program.directory / "done").exists() and tried:
            break
    return caught.value


async def test_a_call_through_the_tunnel(program, monkeypatch):
    """A rollout that knows only the public URL gets whole answers and streams through it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("TUNNEL_TOKEN", "other")
    program.behave("chatter", "announce", "lie")
    spawned: list[int] = []
    async with serving(answers()) as stub, bridged(stub.url) as front:
        tunnel = await start(front, on_spawn=spawned.append)
        front.bridge.advertise(tunnel.url)
        assert front.bridge.chat_completions_url("r").startswith(tunnel.url)
        assert (await front.ask(QUESTION))[0] == 200
        stub.answer = streams(*STREAM)
        status, body = await front.ask({**QUESTION, "stream": True})
        assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)
        assert await tunnel.stop()
    seen = program.seen
    assert spawned == [tunnel.pid]
    assert seen["argv"][:4] == ["tunnel", "--config", os.devnull, "--url"]
    assert seen["argv"][-1] == "--no-autoupdate"
    assert not seen["environment"].keys() & {"OPENAI_API_KEY", "TUNNEL_TOKEN"}
    assert not alive(tunnel.pid)


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["exit-1"], "exit code 1", ErrorCode.NETWORK),
        (["rate-limit", "exit-1"], "exit code 1", ErrorCode.RATE_LIMITED),
        (["rate-limit"], "announced no public URL", ErrorCode.RATE_LIMITED),
        ([], "announced no public URL", ErrorCode.NETWORK),
        (["lie"], "announced no public URL", ErrorCode.NETWORK),
        (["announce-dead", "lie"], "cannot be reached", ErrorCode.NETWORK),
        (["announce", "lie", "wrong-answer"], "not the bridge's answer", ErrorCode.NETWORK),
        (["announce", "wrong-answer", "stubborn", "child"], "not the bridge's answer", ErrorCode.NETWORK),
    ],
    ids=["exits", "limited", "limited and waits", "silent", "lies", "dead address", "somebody else", "stubborn with a child"],
)
async def test_a_tunnel_that_does_not_come_up(program, words, said, code):
    """Whatever it claims in its log, a tunnel that the bridge cannot be reached through is an error, and no process is left."""
    program.behave(*words)
    pids: list[int] = []
    async with serving(answers()) as stub, bridged(stub.url) as front:
        error = await given_up(front, program, words, pids)
    assert said in str(error)
    assert error.code is code
    assert "--advertise-url" in str(error.hint)
    assert [pid for pid in pids if alive(pid)] == []
    if "child" in words:
        child = program.directory / "child.pid"
        await eventually(lambda: not alive(int(child.read_text())))


async def test_without_the_program_it_says_how_to_get_it(monkeypatch, tmp_path):
    """No `cloudflared` on PATH is told with both ways out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    async with serving(answers()) as stub, bridged(stub.url) as front:
        with pytest.raises(OsmosisError, match="not on PATH") as caught:
            await start(front)
    assert "Install cloudflared" in str(caught.value.hint)


async def test_endless_lines_do_not_stop_it(program):
    """A line longer than anything sensible is skipped; what follows is still read."""
    program.behave("long-line", "announce")
    async with serving(answers()) as stub, bridged(stub.url) as front:
        tunnel = await start(front)
        assert await tunnel.stop()


async def test_a_tunnel_that_dies_is_told_once(program):
    """The end of a working tunnel is reported with how it ended and its last words; one that is stopped reports nothing."""
    program.behave("announce", "die-on-cue")
    ends: asyncio.Queue[str] = asyncio.Queue()
    async with serving(answers()) as stub, bridged(stub.url) as front:
        tunnel = await start(front, on_exit=ends.put_nowait)
        with await asyncio.to_thread(open, program.directory / "cue", "wb"):
            pass
        async with asyncio.timeout(PATIENCE):
            assert await ends.get() == "the tunnel to the model ended with exit code 3; its last words: ERR lost the edge"
        await tunnel.stop()
        program.behave("announce")
        (program.directory / "cue").unlink()
        second = await start(front, on_exit=ends.put_nowait)
        await second.stop()
    assert ends.empty()


async def test_a_stubborn_program_is_killed(program):
    """A program that ignores SIGTERM is gone after the grace all the same, and so is what it started."""
    program.behave("stubborn", "child", "announce")
    async with serving(answers()) as stub, bridged(stub.url) as front:
        tunnel = await start(front)
        assert await tunnel.stop(0.1)
    assert not alive(tunnel.pid)
    child = int((program.directory / "child.pid").read_text())
    await eventually(lambda: not alive(child))


async def test_only_the_bridge_itself_can_prove_that_it_is_there():
    """`/` tells a stranger nothing but 404; its header is that of this token alone, and not the token."""
    async with serving(answers()) as stub, bridged(stub.url) as front:
        base = front.bridge.chat_completions_url("r").partition("/v1/")[0]
        async with front.session.get(f"{base}/") as response:
            assert response.status == 404
            assert response.headers[PROOF_HEADER] == proof(TOKEN) != proof("another")
            assert TOKEN not in str(response.headers)
        async with front.session.get(f"{base}/v1") as response:
            assert PROOF_HEADER not in response.headers
