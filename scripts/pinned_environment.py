"""An environment of its own, for other packages or for tools: pinned with hashes, made anew when its pins change.

`interop_env.py`, `integrations_env.py` and `docs_env.py` are its users.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class PinnedEnvironment:
    """Which pins go where, on which Python. `sources` are directories that become importable beside the pinned packages."""

    name: str
    directory: Path
    pins: Path
    version: tuple[int, int]
    sources: tuple[Path, ...] = ()

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def make(self, arguments: list[str] | None = None) -> None:
        """Set it up from the command line's arguments, or end with one clear message."""
        parser = argparse.ArgumentParser(description=f"Install {self.pins.name} into {self.directory.name}.")
        parser.add_argument("--python", help=f"a Python {self._wanted} to build the environment with")
        given = parser.parse_args(arguments).python
        stamp, state = self.directory / ".pins-stamp", hashlib.sha256(self.pins.read_bytes()).hexdigest()
        if self.python.exists() and stamp.exists() and stamp.read_text() == state:
            return
        uv = self._uv()
        self._run(uv, "venv", "--quiet", "--clear", "--python", self._python(given), str(self.directory))
        install = (uv, "pip", "install", "--quiet", "--python", str(self.python), "--require-hashes", "--requirement")
        self._run(*install, str(self.pins))
        if self.sources:
            library = next((self.directory / "lib").glob("python*/site-packages"))
            (library / "sources.pth").write_text("".join(f"{source}\n" for source in self.sources))
        stamp.write_text(state)

    @property
    def _wanted(self) -> str:
        return ".".join(map(str, self.version))

    def _uv(self) -> str:
        beside = Path(sys.executable).with_name("uv")
        found = str(beside) if beside.exists() else shutil.which("uv")
        if found is None:
            sys.exit(f"{self.name}: uv was not found; install the project's development environment first")
        return found

    def _python(self, given: str | None) -> str:
        for candidate in [given] if given else python_candidates(self.version):
            if python_version(candidate) == self.version:
                return candidate
        sys.exit(f"{self.name}: no Python {self._wanted} was found. Name one with --python PATH.")

    def _run(self, *command: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        finished = subprocess.run(command, env=environment, check=False)
        if finished.returncode != 0:
            sys.exit(f"{self.name}: {' '.join(command[:3])} failed with exit code {finished.returncode}")


def python_candidates(version: tuple[int, int]) -> Iterator[str]:
    """Where a Python of that version may be: this one, the PATH, then pyenv's. Not all need exist."""
    name = "python" + ".".join(map(str, version))
    yield sys.executable
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield str(Path(directory) / name)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for python in sorted(pyenv.glob(f"versions/{version[0]}.{version[1]}.*/bin/{name}"), reverse=True):
        yield str(python)


def python_version(python: str) -> tuple[int, ...] | None:
    """The version of an interpreter; None for one that does not run, as a wrapper without its Python does not."""
    program = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=30, check=True)
        return tuple(map(int, answer.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
