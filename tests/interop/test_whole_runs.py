"""Whole runs across the two packages: our `eval run` on a rollout that has the public 0.3.8, and the public one on ours.

Both run the same mixed dataset; every row must be classified alike (issue 5, must show 1). Rollout environments are made by `uv
sync` as for any user, on Python 3.12 for the public package and on 3.12 and 3.13 for ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from osmosis.pure.finding import Finding
from osmosis.shell.evaluation.verify import VerifyRequest, verify_run
from scripts.pinned_environment import python_candidates, python_version
from tests.integration.stub_model import stub_model
from tests.integration.workspaces import CHECKOUT, Command, Ended, Workspace, make_workspace

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ENTRYPOINT = Path(__file__).with_name("mixed_entrypoint.py")
PINS = Path(__file__).with_name("requirements.txt")
PUBLIC_VERSION = "0.3.8"
PUBLIC = f'dependencies = ["osmosis-ai[server]=={PUBLIC_VERSION}", "httpx"]'
OURS = f"""dependencies = ["osmosis-ai[server]", "httpx"]

[tool.uv.sources]
osmosis-ai = {{ path = "{CHECKOUT}", editable = true }}"""

FAILED, SUCCESS, SKIPPED = "failed", "success", "skipped"

# What each row ends with: its prompt, and status, reward and error type of each of its runs. None: no result, still pending.
ROWS: dict[str, tuple[str, float | None, str | None] | None] = {
    "echo one": (SUCCESS, 1.0, None),
    "echo two": (SUCCESS, 1.0, None),
    "wrong answer": (SUCCESS, 0.0, None),
    "raise": (FAILED, None, "agent_error"),
    "value": (FAILED, None, "validation_error"),
    "gave-up": (FAILED, None, "timeout"),
    "number": (FAILED, None, "validation_error"),
    "hang": (FAILED, None, "timeout"),
    "grader-raises": (FAILED, None, "agent_error"),
    "grader-hangs": (FAILED, None, "timeout"),
    "unrewarded": (FAILED, None, "validation_error"),
    "not-a-number": (FAILED, None, "validation_error"),
    "skip": (SKIPPED, None, None),
    "broken model": (FAILED, None, "agent_error"),
    "cancel": None,
}
LABELS = {"wrong answer": "another"}


class Row(NamedTuple):
    """What a run made of one work item."""

    prompt: str
    run_index: int
    status: str
    reward: float | None
    error_type: str | None


EXPECTED = {Row(prompt, run, *end) for prompt, end in ROWS.items() if end is not None for run in range(2)}


def python(version: tuple[int, int]) -> str:
    """An interpreter of that version. Fails the test if there is none."""
    found = next((path for path in python_candidates(version) if python_version(path) == version), None)
    if found is None:
        pytest.fail(f"no Python {'.'.join(map(str, version))} was found; install one, or leave out the tests marked interop")
    return found


def mixed_workspace(root: Path, url: str, dependencies: str, version: tuple[int, int]) -> Workspace:
    """A git workspace as both packages want it, whose rollout has these dependencies on that Python."""
    workspace = make_workspace(root / "workspace", url, root / "rollout-venv")
    for lock in workspace.project.glob("uv.lock"):
        lock.unlink()
    pins = sorted(set(re.findall(r"^(\S+==\S+)(?: ;.*)? \\$", PINS.read_text(), re.MULTILINE)))
    constraints = json.dumps([pin for pin in pins if not pin.startswith("osmosis-ai")])
    (workspace.project / "pyproject.toml").write_text(
        f'[project]\nname = "mixed"\nversion = "0.1.0"\nrequires-python = ">=3.11"\n{dependencies}\n'
        f"\n[tool.uv]\nconstraint-dependencies = {constraints}\n".replace(
            'requires-python = ">=3.11"', f'requires-python = ">={version[0]}.{version[1]}"'
        )
    )
    shutil.copy(ENTRYPOINT, workspace.project / "main.py")
    workspace.write_config(n=2, batch_size=6, evaluation="agent_workflow_timeout_s = 20\ngrader_timeout_s = 20\n")
    workspace.write_rows(*ROWS, labels={**dict(zip(ROWS, ROWS, strict=True)), **LABELS})
    (root / "workspace" / "configs" / "training").mkdir()
    (root / "workspace" / ".gitignore").write_text(".osmosis/\n.venv/\n")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A workspace."]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *command], cwd=workspace.root, check=True)
    home = root / "home"
    home.mkdir()
    cache = os.environ.get("UV_CACHE_DIR") or str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv")
    workspace.environment.pop("PYTHONPATH")  # It would put this checkout before what the rollout resolves.
    workspace.environment |= {
        "UV_PYTHON": python(version),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_CACHE_DIR": cache,
        "HOME": str(home),
        "NO_PROXY": "127.0.0.1,localhost",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return workspace


async def public_eval_run(workspace: Workspace, public_python: str, name: str) -> Ended:
    """`osmosis eval run` of the public package."""
    import asyncio

    program = Path(public_python).with_name("osmosis")
    environment = {key: value for key, value in workspace.environment.items() if key != "OSMOSIS_DEBUG"}
    process = await asyncio.create_subprocess_exec(
        program,
        *workspace.arguments("--name", name, "--json"),
        cwd=workspace.root,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    running = Command(process)
    running.follow()
    try:
        return await running.end()
    finally:
        if process.returncode is None:
            process.kill()


def rows(ended: Ended, workspace: Workspace, name: str) -> set[Row]:
    """What a run's index says of each work item; both packages write the same format."""
    assert (workspace.run_directory(name) / "index.jsonl").exists(), told(ended, workspace, name)
    prompts = list(ROWS)
    return {
        Row(prompts[line["row_index"]], line["run_index"], line["status"], line.get("reward"), line.get("error_type"))
        for line in workspace.index(name)
    }


def audited(workspace: Workspace, name: str) -> tuple[Finding, ...]:
    """What `eval verify` has to say: also that no server writes to a trial after its result."""
    return verify_run(VerifyRequest(str(workspace.run_directory(name)), workspace.root)).findings


def told(ended: Ended, workspace: Workspace, name: str) -> str:
    """What there is to read when a run went wrong."""
    log = workspace.run_directory(name) / "logs.txt"
    return ended.said + (log.read_text()[-4000:] if log.exists() else "")


async def test_our_run_on_a_public_rollout(tmp_path):
    """Every row ends as it should on the public server, the cancelled one is pending, the other version is told, and the
    samples that the public server does not keep are kept."""
    async with stub_model() as model:
        workspace = mixed_workspace(tmp_path, model.url, PUBLIC, (3, 12))
        ended = await workspace.run("--name", "mixed", "--json")
    assert ended.code == 1, told(ended, workspace, "mixed")
    assert rows(ended, workspace, "mixed") == EXPECTED
    assert "ROLLOUT_SDK_VERSION_MISMATCH" in ended.err
    summary = _summary(ended)
    assert summary == {"succeeded": 6, "failed": 20, "skipped": 2}
    told_of = [path.parent for path in (workspace.run_directory("mixed") / "rollout_trials").glob("*/trajectory.json")]
    assert told_of
    assert [trial for trial in told_of if not (trial / "sample.json").is_file()] == []
    assert audited(workspace, "mixed") == ()


@pytest.mark.parametrize("version", [(3, 12), (3, 13)], ids=["py312", "py313"])
async def test_a_public_run_on_our_rollout(tmp_path, public_python, version):
    """The same rows, driven by the public runner on our server."""
    async with stub_model() as model:
        workspace = mixed_workspace(tmp_path, model.url, OURS, version)
        ended = await public_eval_run(workspace, public_python, "mixed")
    assert ended.code == 1, told(ended, workspace, "mixed")
    assert rows(ended, workspace, "mixed") == EXPECTED, told(ended, workspace, "mixed")
    assert _summary(ended) == {"succeeded": 6, "failed": 20, "skipped": 2}


async def test_our_run_on_our_rollout(tmp_path):
    """And without any public package: the same again."""
    async with stub_model() as model:
        workspace = mixed_workspace(tmp_path, model.url, OURS, (sys.version_info[0], sys.version_info[1]))
        ended = await workspace.run("--name", "mixed", "--json")
    assert rows(ended, workspace, "mixed") == EXPECTED, told(ended, workspace, "mixed")
    assert "ROLLOUT_SDK_VERSION_MISMATCH" not in ended.err
    assert audited(workspace, "mixed") == ()


def _summary(ended: Ended) -> dict[str, Any]:
    return {name: ended.resource[name] for name in ("succeeded", "failed", "skipped")}
