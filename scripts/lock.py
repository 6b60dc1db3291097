"""The exact pins in `requirements/`: make them, and prove that they still follow from `pyproject.toml`.

    python scripts/lock.py write [--upgrade]     what `just lock` runs
    python scripts/lock.py check                 what `just lock-check` and CI run

Each file holds versions with hashes and no registry address, so it installs from any mirror
(`docs/decisions/0002-pins-without-addresses.md`). Its first lines carry a digest of the dependency tables it was made from.
The check has two halves. The first needs no network: the digest still fits, every pin has hashes, every direct dependency is
pinned inside its range. The second resolves again, with the present pins preferred, and compares; where no registry answers it
says so and the first half decides.

The rollouts of the example are installed by uv from their own `pyproject.toml`, whose constraints follow the same pins: `write`
carries the versions over, `check` compares them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "osmosis-ai"


class Pins(NamedTuple):
    """One pin file: what it is for, and which tables of pyproject.toml it follows from."""

    file: str
    purpose: str
    project: bool  # the base dependencies take part
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    agrees_with: str | None = None  # a pin file whose versions hold here too


PIN_FILES = (
    Pins("requirements/dev.txt", "Everything that the checks and tests need.", True, ("eval",), ("dev",)),
    Pins(
        "requirements/bootstrap.txt",
        "What scripts/bootstrap.py needs before all else.",
        False,
        (),
        ("bootstrap",),
        "requirements/dev.txt",
    ),
    Pins("requirements/docs.txt", "What draws the documentation site.", False, (), ("docs",)),
)

FOLLOWERS = "examples/workspace/rollouts/*/pyproject.toml"

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)
_CONSTRAINT = re.compile(r'^(    ")([A-Za-z0-9._-]+)==[^"]+(",)$', re.MULTILINE)
_INPUTS = re.compile(r"^# inputs: (\S+)$", re.MULTILINE)
_UNREACHABLE = re.compile(r"Request failed|Failed to fetch|error sending request|timed out|dns error", re.IGNORECASE)


class Unreachable(Exception):
    """No registry answered, so nothing can be resolved now."""


def inputs_digest(pyproject: Mapping[str, Any]) -> str:
    """Digest of the tables that decide what gets pinned, as `sha256:<hex>`."""
    project = pyproject["project"]
    tables = {
        "requires-python": project["requires-python"],
        "dependencies": project["dependencies"],
        "optional-dependencies": project["optional-dependencies"],
        "dependency-groups": pyproject["dependency-groups"],
    }
    return "sha256:" + hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def direct_requirements(pins: Pins, pyproject: Mapping[str, Any]) -> Iterator[Requirement]:
    """Every requirement that `pins` follows from, with the project's own extras opened up."""
    project = pyproject["project"]
    pending = list(project["dependencies"]) if pins.project else []
    for extra in pins.extras:
        pending += project["optional-dependencies"][extra]
    for group in pins.groups:
        pending += pyproject["dependency-groups"][group]
    while pending:
        requirement = Requirement(pending.pop())
        if canonicalize_name(requirement.name) == PROJECT:
            for extra in requirement.extras:
                pending += project["optional-dependencies"][extra]
        else:
            yield requirement


def pinned_versions(text: str) -> dict[str, str]:
    """Canonical name -> version of every pin in a pin file's `text`."""
    return {canonicalize_name(name): version for name, version in _PIN.findall(text)}


def with_versions(text: str, pinned: Mapping[str, str]) -> str:
    """The `pyproject.toml` of an example's rollout with every `"name==version",` constraint brought to the pinned version."""

    def constraint(match: re.Match[str]) -> str:
        version = pinned.get(canonicalize_name(match[2]))
        return match[0] if version is None else f"{match[1]}{match[2]}=={version}{match[3]}"

    return _CONSTRAINT.sub(constraint, text)


def offline_problems(pins: Pins, text: str, pyproject: Mapping[str, Any]) -> list[str]:
    """What is wrong with the pin file's `text`, as far as can be told without a registry."""
    problems = []
    recorded = _INPUTS.search(text)
    if recorded is None or recorded[1] != inputs_digest(pyproject):
        problems.append(f"{pins.file}: the dependency tables of pyproject.toml have changed since these pins were made")
    if "://" in text:
        problems.append(f"{pins.file}: holds an address; pins must install from any mirror")
    pinned = pinned_versions(text)
    blocks = filter(_PIN.match, re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE))
    problems += [f"{pins.file}: no hash for {block.split()[0]}" for block in blocks if "--hash=sha256:" not in block]
    for requirement in direct_requirements(pins, pyproject):
        version = pinned.get(canonicalize_name(requirement.name))
        if version is None:
            problems.append(f"{pins.file}: no pin for {requirement.name}")
        elif not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"{pins.file}: {requirement.name}=={version} is outside {requirement.specifier}")
    return problems


def resolve(pins: Pins, pyproject: Mapping[str, Any], *, upgrade: bool = False) -> str:
    """The text that the pin file should have now. Present pins are kept where they still fit, unless `upgrade`.

    Raises Unreachable when no registry answers, CalledProcessError when the requirements have no solution.
    """
    present = ROOT / pins.file
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pins.txt"
        if present.exists():
            output.write_bytes(present.read_bytes())
        command = [_uv(), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--output-file", str(output)]
        command += ["pyproject.toml"] if pins.project else []
        command += [part for extra in pins.extras for part in ("--extra", extra)]
        command += [part for group in pins.groups for part in ("--group", group)]
        command += ["--constraint", pins.agrees_with, "--no-annotate"] if pins.agrees_with else []
        command += ["--upgrade"] if upgrade else []
        environment = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_RETRIES": "2", "UV_PYTHON_DOWNLOADS": "never", **os.environ}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            if _UNREACHABLE.search(done.stderr):
                raise Unreachable(done.stderr.strip())
            sys.stderr.write(done.stderr)
            done.check_returncode()
        body = output.read_text()
    return (
        f"# {pins.purpose} Made by `just lock` from pyproject.toml; do not edit.\n# inputs: {inputs_digest(pyproject)}\n{body}"
    )


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return str(beside) if beside.exists() else "uv"


def write(pyproject: Mapping[str, Any], *, upgrade: bool) -> int:
    """Write every pin file anew."""
    for pins in PIN_FILES:
        text = resolve(pins, pyproject, upgrade=upgrade)
        (ROOT / pins.file).parent.mkdir(exist_ok=True)
        (ROOT / pins.file).write_text(text)
        print(f"{pins.file}: {len(_PIN.findall(text))} packages")
    pinned = pinned_versions((ROOT / PIN_FILES[0].file).read_text())
    for path in ROOT.glob(FOLLOWERS):
        path.write_text(with_versions(path.read_text(), pinned))
    return 0


def follower_problems() -> list[str]:
    """The example's rollouts whose constraints name other versions than the pins."""
    pinned = pinned_versions((ROOT / PIN_FILES[0].file).read_text())
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(ROOT.glob(FOLLOWERS))}
    return [f"{name}: other versions than requirements/" for name, text in texts.items() if with_versions(text, pinned) != text]


def check(pyproject: Mapping[str, Any]) -> int:
    """Report every disagreement between the pin files and `pyproject`; the exit code."""
    problems = []
    for pins in PIN_FILES:
        path = ROOT / pins.file
        text = path.read_text() if path.exists() else ""
        found = offline_problems(pins, text, pyproject)
        if not found:
            try:
                if resolve(pins, pyproject) != text:
                    found.append(f"{pins.file}: resolving pyproject.toml again gives other pins")
            except Unreachable:
                print(f"{pins.file}: no registry answers, so it was not resolved again; its digest, hashes and ranges fit")
        problems += found
    problems += follower_problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("Run `just lock` and commit what it changes.", file=sys.stderr)
        return 1
    print("The pins in requirements/ follow from pyproject.toml.")
    return 0


def main() -> int:
    """Command line: see the module docstring."""
    parser = argparse.ArgumentParser(description="Exact pins without registry addresses.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    commands.add_parser("check")
    arguments = parser.parse_args()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    try:
        return write(pyproject, upgrade=arguments.upgrade) if arguments.command == "write" else check(pyproject)
    except Unreachable as error:
        print(f"{error}\nNo registry answers; the pins are unchanged. Try again with a network.", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print("pyproject.toml has no solution (see above); the pins are unchanged.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
