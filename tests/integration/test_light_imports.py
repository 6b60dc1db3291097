"""What starts the live display, or runs in a rollout's environment, stays light (design, section 3)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.integration.rollout_server_process import INSTANCE_ID, rollout_server
from tests.integration.workspaces import Workspace


@pytest.mark.parametrize("module", ["tally", "usage", "redaction", "dotenv", "metrics_file"])
def test_light_modules_do_not_load_polars(module):
    """What the live display and the rollout's environment import stays light."""
    code = f"import sys, osmosis.pure.{module}; sys.exit('polars' in sys.modules or 'litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


def test_a_look_at_a_finished_run_loads_no_http():
    """A re-run with nothing to do, `--help` and a usage error pay for neither aiohttp nor polars nor LiteLLM (issue 6)."""
    code = (
        "import sys, osmosis.shell.cli.program, osmosis.shell.cli.eval_run, osmosis.shell.evaluation.run;"
        "sys.exit(bool({'aiohttp', 'polars', 'litellm', 'fastapi', 'pydantic', 'uvloop'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


ENTRYPOINT = """
import os
import sys

import uvicorn

from osmosis_ai.rollout import AgentWorkflow, AgentWorkflowConfig, ConcurrencyConfig, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server


class Tell(AgentWorkflow):
    async def run(self, ctx):
        return [{"role": "assistant", "content": " ".join(sys.modules)}]


if __name__ == "__main__":
    import socket
    config = AgentWorkflowConfig(name="tell", concurrency=ConcurrencyConfig(max_concurrent=None))
    app = create_rollout_server(backend=LocalBackend(workflow=Tell, workflow_config=config))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


def test_a_rollout_server_at_work_has_loaded_no_framework(tmp_path):
    """What a rollout does not import itself, its server does not either: only pydantic and the HTTP server (issue 6)."""
    entrypoint = tmp_path / "main.py"
    entrypoint.write_text(ENTRYPOINT)
    with rollout_server(tmp_path / "root", entrypoint=entrypoint) as server:
        assert server.http.get("/health").headers["x-osmosis-rollout-instance-id"] == INSTANCE_ID
        modules = set(server.run("r", label=None)["sample"]["messages"][0]["content"].split())
    assert {"uvicorn", "pydantic", "osmosis.shell.rollout.light_app"} <= modules
    assert not modules & {"fastapi", "starlette", "anyio", "aiohttp", "httpx", "polars", "litellm", "rich", "cyclopts"}
    assert len(modules) <= 430, f"{len(modules)} modules"


async def test_a_rerun_with_nothing_to_do_imports_little(workspace: Workspace):
    """Neither an event loop nor HTTP, no way to start anything, nothing that writes results (issue 6)."""
    assert (await workspace.run("--name", "done", "--plain")).code == 0
    ended = await workspace.run("--name", "done", "--plain", PYTHONPROFILEIMPORTTIME="1")
    assert ended.code == 0
    lines = [line for line in ended.err.splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert {"cyclopts", "osmosis.shell.evaluation.run"} <= modules
    assert not modules & {"asyncio", "ssl", "socket", "aiohttp", "uvloop", "polars", "pydantic", "rich", "shutil", "tempfile"}
    ours = {"standby", "server_launch", "invocation", "projection", "session", "parquet_reader"}
    assert not modules & {f"osmosis.shell.evaluation.{name}" for name in ours}
    assert len(modules) <= 304, f"{len(modules)} modules"


def test_the_entry_imports_next_to_nothing():
    """Before the call that turns Ctrl-C into exit code 130, only what Python has at hand anyway is imported."""
    code = "import sys; before = set(sys.modules); import osmosis.shell.cli.main; print(*set(sys.modules) - before)"
    finished = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=600)
    ours = {"osmosis", "osmosis.shell", "osmosis.shell.cli", "osmosis.shell.cli.main"}
    small = {"__future__", "importlib", "importlib._bootstrap", "importlib._bootstrap_external", "warnings"}
    assert set(finished.stdout.split()) - small == ours


@pytest.mark.parametrize("module", ["osmosis.shell.evaluation.head_start", "osmosis.shell.cli.program", "cyclopts", "msgspec"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_during_start_up_is_told_as_any_other(module: str, number: str):
    """Whatever is being imported when it comes, and whichever signal it is: exit code 130, an envelope on standard error."""
    finished = interrupted_while_importing(module, f"signal.raise_signal(signal.{number})", "--json")
    error = json.loads(finished.stderr)
    assert (finished.returncode, finished.stdout, error["error"]["code"]) == (130, "", "INTERRUPTED")
    assert error["error"]["hint"]


def test_an_interrupt_during_start_up_in_words():
    """People get one word, as later; who interrupts again while it is being told gets the exit code alone."""
    once = interrupted_while_importing("cyclopts", "signal.raise_signal(signal.SIGINT)")
    assert (once.returncode, once.stdout, once.stderr) == (130, "", "Interrupted.\n")
    always = interrupted_while_importing("cyclopts", "sys.meta_path.insert(0, Interrupt); raise KeyboardInterrupt")
    assert (always.returncode, always.stdout, always.stderr) == (130, "", "")


def interrupted_while_importing(module: str, deed: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """`eval run` in a process of its own, where `deed` is done when `module` is first looked for."""
    code = (
        "import signal, sys\nfrom osmosis.shell.cli.main import main\n"
        "class Interrupt:\n    @staticmethod\n    def find_spec(name, path=None, target=None):\n"
        f"        if name == {module!r}:\n            sys.meta_path.remove(Interrupt)\n            {deed}\n"
        f"sys.meta_path.insert(0, Interrupt)\nsys.exit(main(['eval', 'run', 'configs/eval/x.toml', *{flags!r}]))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
