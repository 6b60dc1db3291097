"""The rollout SDK on every Python that a rollout's environment may have: it need not be the command line's (issue 5)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from scripts.pinned_environment import ROOT, PinnedEnvironment

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PINS = Path(__file__).with_name("integrations.txt")

# What a rollout may import: every documented module and every name it documents, and the server's bootstrap. Modules of the
# extra `harbor` belong to an environment of their own.
PROGRAM = """
import importlib, json, pkgutil, sys, warnings
warnings.simplefilter("error", SyntaxWarning)
import osmosis_ai.rollout
found, failed = [], []
other = ("harbor", "packaging", "container", "evidence", "source")
for module in pkgutil.walk_packages(osmosis_ai.rollout.__path__, "osmosis_ai.rollout."):
    if any(word in module.name.rpartition("rollout.")[2].split(".") for word in other) and "types" not in module.name:
        continue
    try:
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            getattr(loaded, name)
        found.append(module.name)
    except Exception as error:
        failed.append(f"{module.name}: {error!r}")
import osmosis.shell.evaluation.server_bootstrap
print(json.dumps({"version": list(sys.version_info[:2]), "found": found, "failed": failed}))
"""


@pytest.mark.parametrize("version", [(3, 12), (3, 13)], ids=["py312", "py313"])
def test_every_documented_module_imports(tmp_path, version):
    """Server, client, types, contexts and both integrations, with their packages installed."""
    environment = PinnedEnvironment("test_pythons", tmp_path / "venv", PINS, version, sources=(ROOT,))
    environment.make([])
    finished = subprocess.run(
        [environment.python, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path
    )
    assert finished.returncode == 0, finished.stderr
    told = json.loads(finished.stdout.splitlines()[-1])
    assert told["version"] == list(version)
    assert told["failed"] == []
    assert {
        "osmosis_ai.rollout.server.app",
        "osmosis_ai.rollout.client",
        "osmosis_ai.rollout.types.harbor",
        "osmosis_ai.rollout.integrations.agents.openai_agents",
        "osmosis_ai.rollout.integrations.agents.strands",
        "osmosis_ai.rollout.backend.local.backend",
    } <= set(told["found"])
