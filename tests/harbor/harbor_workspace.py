"""Real workspaces whose rollout runs in sandboxes, and what to look at afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.sandbox_engine import IMAGE
from tests.integration.workspaces import CHECKOUT, Ended, Workspace, alive, make_workspace

PATIENCE = 300.0
"""Seconds after which a run has failed: a container engine on a busy machine takes its time."""

HERE = Path(__file__).parent
PINS = HERE / "requirements.txt"
WORKFLOW = "probe.work:Ask"
ORACLE = "oracle"
BUBBLEWRAP = "osmosis_ai.rollout.backend.harbor.bubblewrap:BubblewrapEnvironment"

_PYPROJECT = """\
[project]
name = "probe"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["osmosis-ai[server]", "httpx"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[dependency-groups]
dev = ["harbor; python_version >= '3.12'", "uv"]

[tool.uv]
package = false
constraint-dependencies = {pins}

[tool.uv.sources]
osmosis-ai = {{ path = "{checkout}", editable = true }}
"""

_COMPOSE = "services:\n  main:\n    init: true\n    stop_grace_period: 1s\n    network_mode: bridge\n"
_TASK = 'schema_version = "1.4"\n[environment]\nbuild_timeout_sec = 120.0\n'
_SOLUTION = "#!/bin/bash\nmkdir -p /app && echo hello > /app/out.txt\n"
_TEST = '#!/bin/bash\n[ "$(cat /app/out.txt)" = hello ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n'


def write_project(project: Path) -> None:
    """The rollout: entrypoint, package, and a `pyproject.toml` with the versions of the pins."""
    shutil.copytree(HERE / "probe", project / "probe", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "entrypoint.py", project / "main.py")
    pins = re.findall(r"^([A-Za-z0-9._-]+==[^ ;\\]+)", PINS.read_text(), re.MULTILINE)
    (project / "pyproject.toml").write_text(_PYPROJECT.format(pins=json.dumps(pins), checkout=CHECKOUT))


@dataclass
class HarborWorkspace:
    """A workspace, where its trials go, and the sandboxes it uses."""

    workspace: Workspace
    trials: Path
    kind: str

    def described(self, agent: str, **options: Any) -> str:
        """The variable that tells the entrypoint what to build."""
        if self.kind == "bubblewrap":
            environment: dict[str, Any] = {"import_path": BUBBLEWRAP}
        else:
            environment = {"type": self.kind, "extra_docker_compose": [str(self.workspace.root / "compose.yaml")]}
        tasks = self.workspace.root / "tasks" / ("solved" if agent == ORACLE else "open")
        return json.dumps(
            {"agent": agent, "environment": environment, "tasks": str(tasks), "trials": str(self.trials), **options}
        )

    async def run(self, name: str, agent: str) -> Ended:
        """Run `osmosis eval run` to its end, with the flags that its sandboxes need."""
        flags = ("--name", name, *(self.flags if agent != ORACLE else ()))
        async with self.workspace.start(*flags, HARBOR_TEST=self.described(agent)) as running:
            async with asyncio.timeout(PATIENCE):
                await running.process.wait()
            return await running.end()

    @property
    def flags(self) -> list[str]:
        """The flags of a run whose workflow calls the model."""
        return [] if self.kind == "bubblewrap" else ["--listener-host", "auto"]

    def trial(self, name: str) -> Path:
        """The directory of the only rollout of a run."""
        (found,) = (self.workspace.run_directory(name) / "rollout_trials").iterdir()
        return found


def make_harbor_workspace(
    root: Path, model_url: str, environment: Path, kind: str, variables: dict[str, str]
) -> HarborWorkspace:
    """A workspace whose rollouts run in sandboxes of `kind`, found through `variables`."""
    workspace = make_workspace(root / "workspace", model_url, environment)
    shutil.rmtree(workspace.project)
    write_project(workspace.project)
    shutil.copy(environment.parent / "project" / "uv.lock", workspace.project)
    for name, solved in (("solved", True), ("open", False)):
        write_task(workspace.root / "tasks" / name, solved=solved)
    (workspace.root / "compose.yaml").write_text(_COMPOSE)
    workspace.environment.update(
        {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(environment.parent / "cache")),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
            **variables,
        }
    )
    return HarborWorkspace(workspace, root / "trials", kind)


def write_task(task: Path, *, solved: bool) -> None:
    """A Harbor task: with a solution and tests for the oracle, else with an environment alone."""
    (task / "environment").mkdir(parents=True)
    (task / "environment" / "Dockerfile").write_text(f"FROM {IMAGE}\nWORKDIR /app\n")
    (task / "task.toml").write_text(_TASK)
    (task / "instruction.md").write_text("Write hello to /app/out.txt\n")
    if solved:
        for name, text in (("solution/solve.sh", _SOLUTION), ("tests/test.sh", _TEST)):
            (task / name).parent.mkdir()
            (task / name).write_text(text)


def descendants(pid: int) -> set[int]:
    """Every living process below `pid`."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def left_alive(pids: set[int]) -> set[int]:
    """Those of `pids` that are still there."""
    return {pid for pid in pids if alive(pid)}
