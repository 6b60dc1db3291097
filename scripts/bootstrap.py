"""Set the project up on a machine that has nothing but Python (3.11 or later) and pip, then run one recipe of the justfile.

    python3 scripts/bootstrap.py demo      watch an evaluation run to its metrics
    python3 scripts/bootstrap.py test      run the tests
    python3 scripts/bootstrap.py           set up only

It makes `.venv` in the checkout, installs the pins of `requirements/` (with hashes; nothing else is ever fetched), installs the
checkout itself in editable form, and hands over to `just`, whose exit code is its own. A stamp in `.venv` names what was
installed, so the second run goes straight to the recipe. It needs only the standard library.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
SCRIPTS = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
SUFFIX = ".exe" if os.name == "nt" else ""
PYTHON = SCRIPTS / f"python{SUFFIX}"
UV = SCRIPTS / f"uv{SUFFIX}"
STAMP = ENVIRONMENT / ".bootstrap-stamp"
INPUTS = ("pyproject.toml", "requirements/bootstrap.txt", "requirements/dev.txt", "scripts/bootstrap.py")
OLDEST = (3, 11)

# Variables that would make another Python's packages, or another environment, shadow those of `.venv`.
SHADOWS = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")

# The registry and certificate settings that pip understands, under the names that uv gives them.
UV_NAMES = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_CERT": "SSL_CERT_FILE"}


def fail(message: str) -> NoReturn:
    """End with one clear message."""
    sys.stdout.flush()
    sys.exit(f"bootstrap: {message}")


def child_environment() -> dict[str, str]:
    """The environment for everything that the bootstrap starts: `.venv` first, and no Python but the ones present."""
    environment = {key: value for key, value in os.environ.items() if key not in SHADOWS}
    environment["PATH"] = os.pathsep.join([str(SCRIPTS), os.environ.get("PATH", os.defpath)])
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    for pip_name, uv_name in UV_NAMES.items():
        if pip_name in os.environ:
            environment.setdefault(uv_name, os.environ[pip_name])
    return environment


def run(step: str, *command: object) -> None:
    """Run one step of the set-up, or end with a message that names it."""
    print(f"bootstrap: {step}", flush=True)
    arguments = [str(part) for part in command]
    try:
        done = subprocess.run(arguments, cwd=ROOT, env=child_environment(), stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        fail(f"could not {step}: {error}")
    if done.returncode:
        fail(
            f"could not {step} (exit code {done.returncode}; its own message is above).\n"
            "  No network, or a mirror? Set PIP_INDEX_URL (pip) or UV_DEFAULT_INDEX (uv), and PIP_CERT for a certificate.\n"
            "  A hash that does not match means that the mirror serves another file than the one that was pinned.\n"
            "  The set-up can be repeated at any time; `.venv` may be deleted."
        )


def wanted_stamp() -> str:
    """What a finished set-up of this checkout, at this path, for this Python is called."""
    digest = hashlib.sha256()
    for part in (str(ROOT), sys.version, *INPUTS):
        digest.update(part.encode() + b"\0")
    for name in INPUTS:
        content = (ROOT / name).read_bytes()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def is_ready(stamp: str) -> bool:
    """True when `.venv` already holds exactly what `stamp` names."""
    try:
        return STAMP.read_text() == stamp and PYTHON.exists()
    except OSError:
        return False


def is_usable() -> bool:
    """True when `.venv` is a working environment of this very Python at this very path, with uv in it."""
    probe = [str(PYTHON), "-c", "import sys; print(sys.version, sys.prefix)"]
    try:
        answer = subprocess.run(probe, env=child_environment(), capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    return answer.strip() == f"{sys.version} {ENVIRONMENT}".strip() and UV.exists()


def create_environment() -> None:
    """Make `.venv` anew and put uv and just into it, with the pip at hand (or, without one, with the one Python carries)."""
    own_pip = importlib.util.find_spec("pip") is not None
    carried_pip = importlib.util.find_spec("ensurepip") is not None
    if not own_pip and not carried_pip:
        fail("this Python has neither pip nor ensurepip. Install pip for it (Debian: python3-pip and python3-venv).")
    if Path(sys.prefix).resolve() == ENVIRONMENT.resolve():
        fail("this is the Python inside .venv, which has to be made anew. Run the bootstrap with the system's Python.")
    without = ["--without-pip"] if own_pip else []
    run("make .venv", sys.executable, "-m", "venv", "--clear", *without, ENVIRONMENT)
    pip = [sys.executable, "-m", "pip", "--python", PYTHON] if own_pip else [PYTHON, "-m", "pip"]
    options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    run("install uv and just", *pip, "install", *options, "-r", ROOT / "requirements/bootstrap.txt")


def set_up() -> None:
    """Bring `.venv` to the state that the pins name. Repeating it does no harm."""
    stamp = wanted_stamp()
    if is_ready(stamp):
        return
    STAMP.unlink(missing_ok=True)
    if not is_usable():
        create_environment()
    target = ["--python", PYTHON, "--quiet"]
    run("install the pinned packages", UV, "pip", "sync", *target, "--require-hashes", ROOT / "requirements/dev.txt")
    run("install this checkout", UV, "pip", "install", *target, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    STAMP.write_text(stamp)


def hand_over(arguments: Sequence[str]) -> NoReturn:
    """Become `just`, with its exit code."""
    just = SCRIPTS / f"just{SUFFIX}"
    command = [str(just), "--justfile", str(ROOT / "justfile"), "--working-directory", str(ROOT), *arguments]
    sys.stdout.flush()
    if os.name == "nt":
        sys.exit(subprocess.run(command, env=child_environment(), check=False).returncode)
    os.execve(just, command, child_environment())


def main() -> None:
    """Command line: see the module docstring."""
    if sys.version_info < OLDEST:
        present = ".".join(map(str, sys.version_info[:3]))
        fail(f"Python {'.'.join(map(str, OLDEST))} or later is needed; {sys.executable} is {present}. Try python3.11 or newer.")
    try:
        set_up()
    except KeyboardInterrupt:
        sys.exit(130)
    if len(sys.argv) > 1:
        hand_over(sys.argv[1:])
    print("bootstrap: ready. Recipes: .venv/bin/just --list")


if __name__ == "__main__":
    main()
