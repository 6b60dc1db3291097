"""`osmosis rollout serve-loop` and `validate-loop` (contract `legacy_api.md` section 8; ruling 25)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from osmosis.shell.cli.main import main
from osmosis_ai.testing import FakeTrainer

AGENT = """
from osmosis_ai import RolloutAgentLoop

class Echo(RolloutAgentLoop):
    name = "echo"
    def get_tools(self, request):
        return {tools}
    async def run(self, ctx):
        result = await ctx.chat(ctx.request.messages)
        ctx.log_event("said", content=result.content)
        return ctx.complete([*ctx.request.messages, result.message])

echo = Echo()
other = 5
"""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """A module with an agent loop in the current directory; its name is new each time, since modules are cached."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = re.sub(r"\W", "_", f"agent_{tmp_path.parent.name}_{tmp_path.name}")

    def write(tools: str = "[]") -> str:
        Path(f"{name}.py").write_text(AGENT.replace("{tools}", tools))
        return name

    return write


@pytest.mark.parametrize("attribute", ["Echo", "echo"])
def test_a_good_loop_is_valid(agent, capsys, attribute):
    """A class or an instance; exit code 0 and what was found."""
    code = main(["rollout", "validate-loop", "-m", f"{agent()}:{attribute}", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["status"], result["operation"]) == (0, "success", "rollout.validate-loop")
    assert (result["resource"]["agent_loop"], result["resource"]["tool_count"]) == ("echo", 0)


def test_a_bad_loop_is_an_error_with_its_codes(agent, capsys):
    """Exit code 1; every problem has its code and place."""
    code = main(["rollout", "validate-loop", "-m", f"{agent('[5]')}:Echo", "--json"])
    error = json.loads(capsys.readouterr().err)["error"]
    assert (code, error["code"]) == (1, "VALIDATION")
    assert error["details"]["errors"][0]["code"] == "INVALID_TOOL_TYPE"


def test_warnings_are_shown(agent, capsys):
    """A tool without a description can be served, and is pointed out."""
    tools = "[{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}]"
    assert main(["rollout", "validate-loop", "-m", f"{agent(tools)}:Echo"]) == 0
    assert "MISSING_FUNCTION_DESCRIPTION" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nothing", "names no agent loop"),
        ("no_such_module_here:X", "ModuleNotFoundError"),
        ("{}:missing", "AttributeError"),
        ("{}:other", "is no agent loop but a int"),
    ],
)
def test_a_reference_that_leads_nowhere(agent, capsys, reference, message):
    """One message that says what is wrong, no traceback."""
    assert main(["rollout", "validate-loop", "-m", reference.format(agent())]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_flags_that_exclude_each_other(agent, capsys, monkeypatch):
    """--local asks for no key, and a new key is not shown as JSON."""
    monkeypatch.delenv("OSMOSIS_ROLLOUT_API_KEY", raising=False)
    reference = f"{agent()}:Echo"
    assert main(["rollout", "serve-loop", "-m", reference, "--local", "--api-key", "k"]) == 2
    assert main(["rollout", "serve-loop", "-m", reference, "--json"]) == 2
    assert "OSMOSIS_ROLLOUT_API_KEY" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("local", [True, False])
def test_a_loop_is_served_until_it_is_interrupted(agent, local):
    """A trainer's rollout runs to its completion; without --local it needs the key that was shown; events are kept."""
    words = [sys.executable, "-m", "osmosis.shell.cli.main", "rollout", "serve-loop", "-m", f"{agent()}:Echo", "-p", "0"]
    words += ["--plain", "--log", "events", *(["--local"] if local else ["--host", "127.0.0.1"])]
    environment = {name: value for name, value in os.environ.items() if name != "OSMOSIS_ROLLOUT_API_KEY"}
    process = subprocess.Popen(words, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stderr is not None
        url = key = None
        while url is None or (key is None and not local):
            line = process.stderr.readline()
            assert line, "the server ended early"
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                url = url or found[0]
            if found := re.search(r"osm_rollout_[\w-]{43}", line):
                key = found[0]
        with FakeTrainer("hello") as trainer:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            request = trainer.init_request("r", [{"role": "user", "content": "hi"}])
            if not local:
                assert httpx.post(f"{url}/v1/rollout/init", json=request).status_code == 401
            assert httpx.post(f"{url}/v1/rollout/init", json=request, headers=headers).status_code == 202
            assert trainer.wait_for("r", 90)["final_messages"][-1]["content"] == "hello"
        (file,) = Path("events").glob("*/r.jsonl")
        assert json.loads(file.read_text())["content"] == "hello"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
    assert process.returncode == 130


@pytest.mark.slow
def test_a_port_that_is_taken(agent, capsys):
    """It is an error that names the address, before anything is served."""
    with FakeTrainer() as taken:
        port = taken.url.rpartition(":")[2]
        assert main(["rollout", "serve-loop", "-m", f"{agent()}:Echo", "--local", "-p", port]) == 1
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
