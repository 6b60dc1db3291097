"""Make `.venv-interop`: the public `osmosis-ai` 0.3.8 in an environment of its own, as the other side of the wire.

    python scripts/interop_env.py [--python PATH]

The public package needs Python 3.12, so this looks for one: `--python`, then `python3.12` on the PATH, then pyenv's. Versions
are pinned with hashes in `tests/interop/requirements.txt`. A second run with the same pins does nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "interop" / "requirements.txt"
ENVIRONMENT = ROOT / ".venv-interop"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".interop-stamp"
WANTED = (3, 12)


def main() -> None:
    """Set the environment up, or end with one clear message."""
    parser = argparse.ArgumentParser(description="Install the public osmosis-ai 0.3.8 into .venv-interop.")
    parser.add_argument("--python", help="a Python 3.12 to build the environment with")
    arguments = parser.parse_args()
    pins = hashlib.sha256(PINS.read_bytes()).hexdigest()
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == pins:
        return
    uv = _uv()
    _run(uv, "venv", "--quiet", "--clear", "--python", _python(arguments.python), str(ENVIRONMENT))
    _run(uv, "pip", "install", "--quiet", "--python", str(PYTHON), "--require-hashes", "--requirement", str(PINS))
    STAMP.write_text(pins)


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        sys.exit("interop_env: uv was not found; install the project's development environment first")
    return found


def _python(given: str | None) -> str:
    for candidate in [given] if given else _candidates():
        if _version(candidate) == WANTED:
            return candidate
    wanted = ".".join(map(str, WANTED))
    sys.exit(f"interop_env: no Python {wanted} was found; the public package needs one. Name it with --python PATH.")


def _candidates() -> Iterator[str]:
    name = "python" + ".".join(map(str, WANTED))
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield str(Path(directory) / name)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for python in sorted(pyenv.glob(f"versions/{WANTED[0]}.{WANTED[1]}.*/bin/{name}"), reverse=True):
        yield str(python)


def _version(python: str) -> tuple[int, ...] | None:
    """The version of an interpreter; None for one that does not run, as a wrapper without its Python does not."""
    program = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=30, check=True)
        return tuple(map(int, answer.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _run(*command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    finished = subprocess.run(command, env=environment, check=False)
    if finished.returncode != 0:
        sys.exit(f"interop_env: {' '.join(command[:3])} failed with exit code {finished.returncode}")


if __name__ == "__main__":
    main()
