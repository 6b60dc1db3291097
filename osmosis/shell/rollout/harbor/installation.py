"""Gets the SDK and a bundle into a sandbox; nothing is fetched inside (ruling 26; contract: rollout_protocol section 14)."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmosis.pure.sandbox_python import HOME, PROBE, PYTHONS, SandboxPython, read_probe
from osmosis.shell.packaging.site import COMPLETE_NAME, build_site
from osmosis.shell.rollout.harbor.side import TrialSide

RUN_NAMED = "from osmosis.shell.rollout.container.runner import run_named; run_named({!r})"

_UNPACK = "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])"
_SHOWN_CHARACTERS = 2000


class InstallationError(RuntimeError):
    """The sandbox cannot run the bundle; the message says what it lacks."""


@dataclass(frozen=True)
class Installed:
    """A bundle that can be run: with which Python, and where its packages are."""

    python: SandboxPython
    site: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make the packages importable."""
        return {"PYTHONPATH": self.site, "OSMOSIS_PYTHON": self.python.executable}

    def command(self, function: str) -> str:
        """A shell command that calls `module:function`. The working directory is kept out of the import path."""
        return f"{shlex.quote(self.python.executable)} -P -c {shlex.quote(RUN_NAMED.format(function))}"


def site_directory(key: str, python: SandboxPython) -> str:
    """Where the packages lie in a sandbox."""
    return f"{HOME}/site-{key[:16]}-{python.tag}"


async def install(environment: Any, side: TrialSide) -> Installed:
    """Install the trial's bundle in a Harbor environment, unless its image has it already. Raises InstallationError."""
    assert side.bundle is not None
    python = await _find_python(environment)
    side.python = python
    site = site_directory(side.site_key, python)
    there = await environment.exec(f"test -f {site}/{COMPLETE_NAME}", user="root")
    if there.return_code != 0:
        archive = await asyncio.to_thread(
            build_site, Path(side.bundle.wheel), python, key=side.site_key, sites_dir=side.sites_dir
        )
        await _checked(environment, f"mkdir -p {site}")
        uploaded = f"{HOME}/site.tar.gz"
        await environment.upload_file(archive, uploaded)
        await _checked(environment, f"{shlex.quote(python.executable)} -I -c {shlex.quote(_UNPACK)} {uploaded} {site}")
        await _checked(environment, f"rm -f {uploaded}")
    return Installed(python, site)


async def _find_python(environment: Any) -> SandboxPython:
    names = " ".join(PYTHONS)
    script = f'for p in {names}; do command -v "$p" >/dev/null 2>&1 && "$p" -I -c {shlex.quote(PROBE)} 2>/dev/null; done; true'
    found = await environment.exec(script, user="root")
    reasons = []
    for line in filter(None, (found.stdout or "").splitlines()):
        try:
            return read_probe(line)
        except ValueError as error:
            reasons.append(str(error))
    why = "; ".join(dict.fromkeys(reasons)) or "it has no python3"
    raise InstallationError(f"The sandbox has no Python that can run the workflow: {why}")


async def _checked(environment: Any, command: str) -> None:
    done = await environment.exec(command, user="root")
    if done.return_code != 0:
        said = (done.stderr or done.stdout or "").strip()[-_SHOWN_CHARACTERS:]
        raise InstallationError(f"The workflow cannot be installed in the sandbox (exit code {done.return_code}): {said}")
