"""Workspaces in which whole runs are measured: the same rollout, once with this checkout and once with the public package.

Both are git repositories laid out as the public command demands. The environments are warm before anything is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from benchmarks.stub_model import PROMPT

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT / ".venv-interop" / "bin"
PUBLIC_VERSION = "0.3.8"

_CONFIG = """\
[experiment]
rollout = "trivial"
entrypoint = "main.py"
model_path = "openai/stub"
dataset = "questions"

[evaluation]
n = {runs}
batch_size = 64

[secrets]
required = []
"""
_PROJECT = """\
[project]
name = "trivial"
version = "0.1.0"
requires-python = ">={python}"
dependencies = ["{osmosis}", "aiohttp"]
{sources}"""


class Bench(msgspec.Struct, frozen=True):
    """A workspace and the command that runs evaluations in it."""

    root: Path
    command: tuple[str, ...]
    environment: dict[str, str]

    def words(self, name: str, dataset: str, *flags: str) -> list[str]:
        """The command line of a run."""
        arguments = ["eval", "run", "configs/eval/trivial.toml", "--dataset-file", dataset, "--name", name, "--yes"]
        return [*self.command, *arguments, *flags]

    def run_directory(self, name: str) -> Path:
        """Where a run of that name lies."""
        return self.root / ".osmosis" / "evals" / name

    def write_dataset(self, rows: int) -> str:
        """A dataset of that many questions; its path inside the workspace."""
        path = self.root / "data" / f"rows-{rows}.jsonl"
        if not path.exists():
            with path.open("w") as file:
                for number in range(rows):
                    file.write(json.dumps({"user_prompt": f"{PROMPT.decode()}? ({number})", "ground_truth": "4"}) + "\n")
        return str(path.relative_to(self.root))


def our_bench(root: Path, model_url: str, *, runs: int = 1) -> Bench:
    """This checkout in the runner and in the rollout; `runs` for each row."""
    sources = f'\n[tool.uv.sources]\nosmosis-ai = {{ path = "{ROOT}", editable = true }}\n'
    project = _PROJECT.format(python="3.11", osmosis="osmosis-ai[server]", sources=sources)
    command = str(Path(sys.executable).with_name("osmosis"))
    return _bench(root, model_url, project, (command,), {}, runs)


def make_public_environment() -> None:
    """The public package, in an environment of its own; without it, the ratios are left out."""
    made = subprocess.run([sys.executable, str(ROOT / "scripts" / "interop_env.py")], check=False, stdout=subprocess.DEVNULL)
    if made.returncode != 0:
        print("the public package cannot be installed here: its columns are left out", file=sys.stderr)


def public_bench(root: Path, model_url: str) -> Bench | None:
    """The public package on both sides; None where its environment was not made (`python scripts/interop_env.py`)."""
    if not (PUBLIC / "osmosis").exists():
        return None
    project = _PROJECT.format(python="3.12", osmosis=f"osmosis-ai[server]=={PUBLIC_VERSION}", sources="")
    return _bench(root, model_url, project, (str(PUBLIC / "osmosis"),), {"UV_PYTHON": str(PUBLIC / "python")})


def _bench(root: Path, model_url: str, project: str, command: tuple[str, ...], further: dict[str, str], runs: int = 1) -> Bench:
    rollout = root / "rollouts" / "trivial"
    for directory in (rollout, root / "configs" / "eval", root / "configs" / "training", root / "data"):
        directory.mkdir(parents=True)
    (root / "configs" / "eval" / "trivial.toml").write_text(_CONFIG.format(runs=runs))
    (root / ".gitignore").write_text(".osmosis/\n.venv/\ndata/\n")
    (rollout / "pyproject.toml").write_text(project)
    shutil.copy(Path(__file__).with_name("model_rollout.py"), rollout / "main.py")
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")} | {
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "benchmark-key-0123456789",
        "NO_PROXY": "127.0.0.1,localhost",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "UV_PYTHON_DOWNLOADS": "never",
        **further,
    }
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "sync", "--quiet", "--project", str(rollout)], env=environment, check=True)
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A workspace."]):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return Bench(root, command, environment)
