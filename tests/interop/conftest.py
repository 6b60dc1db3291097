"""The environments of the other packages, made when a test first needs one.

They take seconds when pip's cache is warm. Several test processes may want the same one at once, so making it is locked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


def made(script: str, environment: str, *arguments: str) -> Path:
    """The interpreter of the environment that `script` makes. Fails the test, with the script's words, if it cannot."""
    with FileLock(ROOT / f"{environment}.lock"):
        command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if finished.returncode != 0:
        pytest.fail(f"{script} failed: {finished.stderr or finished.stdout}")
    return ROOT / environment / "bin" / "python"


@pytest.fixture(scope="session")
def public_python() -> str:
    """The interpreter that has the public package."""
    named = os.environ.get("OSMOSIS_INTEROP_PYTHON")
    return str(made("interop_env.py", ".venv-interop", *(["--python", named] if named and "3.12" in named else [])))


@pytest.fixture(scope="session")
def integrations_python() -> str:
    """The interpreter that has the agent frameworks and this checkout."""
    return str(made("integrations_env.py", ".venv-integrations"))
