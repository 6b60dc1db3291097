"""Lays a rollout's own copy of its task out (contract: rollout_protocol 13.4).

The copy holds this row's prompt, its test script if the grader is bundled, and the packages in its image if their Python is
known by now. The task itself is never written to.
"""

from __future__ import annotations

import json
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec

from osmosis.pure.bundle import GRADER_FUNCTION, MAIN_MODULE
from osmosis.pure.canonical import well_formed
from osmosis.pure.container_files import INPUT_NAME, ContainerInput, encode_container_file
from osmosis.pure.dockerfile import with_archive, without_ignoring
from osmosis.shell.rollout.harbor.installation import RUN_NAMED

TEST_SCRIPT = "test.sh"
ARCHIVE_NAME = "osmosis-site.tar.gz"


@dataclass(frozen=True)
class BakedSite:
    """Packages that go into the image: the archive, and where it is unpacked."""

    archive: Path
    target: str


@dataclass(frozen=True)
class Materials:
    """What makes a task this rollout's. `grader_package`: the bundle's package if a bundled grader is to run."""

    given: ContainerInput
    template: bool
    workflow: bool
    grader_package: str | None = None
    baked: BakedSite | None = None


@dataclass(frozen=True)
class Materialised:
    """The copy, and what it has to verify with."""

    path: Path
    has_tests: bool
    grader: bool


def materialise(task: Path, place: Path, materials: Materials) -> Materialised:
    """Copy `task` into `place`, which is made, and fit it out. Raises ValueError for a task with links or devices in it."""
    _refuse_strange(task)
    target = place / task.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(task, target)
    if materials.template:
        text = well_formed(json.dumps(materials.given.prompt, ensure_ascii=False, indent=2))
        (target / "instruction.md").write_text(text + "\n", encoding="utf-8")
    if materials.workflow:
        _write_input(target, msgspec.structs.replace(materials.given, label=None))
    tests = target / "tests"
    grader = materials.grader_package is not None and not (tests / TEST_SCRIPT).exists()
    if grader:
        tests.mkdir(exist_ok=True)
        script = tests / TEST_SCRIPT
        script.write_text(_test_script(f"{materials.grader_package}.{MAIN_MODULE}:{GRADER_FUNCTION}"))
        script.chmod(0o755)
        _write_input(tests, materials.given)
    if materials.baked is not None and (target / "environment" / "Dockerfile").is_file():
        _bake(target / "environment", materials.baked)
    return Materialised(target, tests.is_dir(), grader)


def _refuse_strange(task: Path) -> None:
    for path in (task, *sorted(task.rglob("*"))):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ValueError(f"The task {task.name} holds {path.relative_to(task)}, which is neither a file nor a directory")


def _write_input(directory: Path, given: ContainerInput) -> None:
    (directory / INPUT_NAME).write_bytes(encode_container_file(msgspec.structs.replace(given, api_key=None)))


def _test_script(function: str) -> str:
    return f'#!/bin/sh\n# Runs the grader of the rollout.\nexec "$OSMOSIS_PYTHON" -P -c "{RUN_NAMED.format(function)}"\n'


def _bake(environment: Path, baked: BakedSite) -> None:
    dockerfile = environment / "Dockerfile"
    shutil.copyfile(baked.archive, environment / ARCHIVE_NAME)
    dockerfile.write_text(with_archive(dockerfile.read_text(), ARCHIVE_NAME, baked.target))
    ignored = environment / ".dockerignore"
    if ignored.is_file():
        ignored.write_text(without_ignoring(ignored.read_text(), ARCHIVE_NAME))
