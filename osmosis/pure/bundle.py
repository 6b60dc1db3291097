"""What a bundle is: a wheel of a rollout project that can run its workflow and grader in a sandbox (rollout_protocol 15).

The wheel holds the project's package, a generated module `bundle_main`, and two console scripts. This module writes that
module, rewrites a wheel's metadata and tells a bundle from other wheels, all as text; it never touches a file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

MAIN_MODULE: Final = "bundle_main"
AGENT_SUFFIX: Final = "-agent"
GRADER_SUFFIX: Final = "-grade"
AGENT_FUNCTION: Final = "agent_main"
GRADER_FUNCTION: Final = "grader_main"
RUNNER_MODULE: Final = "osmosis_ai.rollout.container.runner"
SDK_NAME: Final = "osmosis-ai"

EXCLUDED_NAMES: Final = frozenset(
    {"__pycache__", ".git", ".venv", "venv", "dist", "build", "node_modules", ".pytest_cache", ".ruff_cache", "uv.lock"}
)

_CONSOLE_SCRIPTS = "console_scripts"
_EXTRA_MARKER = re.compile(r"\bextra\s*(==|in)|==\s*extra\b")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?")


class BundleReferences(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a bundle, each as `module:attribute`; at least a workflow or a grader."""

    workflow: str | None = None
    grader: str | None = None
    workflow_config: str | None = None
    grader_config: str | None = None

    def __post_init__(self) -> None:
        if self.workflow is None and self.grader is None:
            raise ValueError("A bundle needs a workflow or a grader")
        for reference in (self.workflow, self.grader, self.workflow_config, self.grader_config):
            if reference is not None and not _REFERENCE.fullmatch(reference):
                raise ValueError(f"{reference!r} must have the form 'module:attribute'")


class BundleInfo(msgspec.Struct, frozen=True):
    """A bundle's wheel (a path), its console scripts, and its requirements without those of extras."""

    wheel: str
    agent_script: str | None
    grader_script: str | None
    requirements: tuple[str, ...]
    package: str


def is_excluded(name: str) -> bool:
    """Whether a file or directory of that name is no part of a project's source."""
    return name in EXCLUDED_NAMES or name.endswith(".egg-info")


def main_module(references: BundleReferences) -> bytes:
    """The text of `bundle_main.py`: one function without arguments a console script, which hands over to the runner."""
    names = [name for name, given in (("agent_main", references.workflow), ("grader_main", references.grader)) if given]
    imported = ", ".join(f"{name} as run_{name}" for name in names)
    lines = ['"""Generated: starts this project inside a sandbox."""', "", f"from {RUNNER_MODULE} import {imported}"]
    lines += ["", "", "def _load(module, attributes):", "    import functools", "    import importlib", ""]
    lines += ["    return functools.reduce(getattr, attributes.split('.'), importlib.import_module(module))"]
    for name, target, config in (
        (AGENT_FUNCTION, references.workflow, references.workflow_config),
        (GRADER_FUNCTION, references.grader, references.grader_config),
    ):
        if target is not None:
            given = "None" if config is None else _loading(config)
            lines += ["", "", f"def {name}():", f"    run_{name}({_loading(target)}, {given})"]
    return ("\n".join(lines) + "\n").encode()


def _loading(reference: str) -> str:
    module, _, attribute = reference.partition(":")
    return f"_load({module!r}, {attribute!r})"


def script_names(package: str, references: BundleReferences) -> dict[str, str]:
    """Console script -> entry point of a bundle of `package`."""
    stem = package.replace("-", "_")
    scripts = {}
    if references.workflow is not None:
        scripts[stem + AGENT_SUFFIX] = f"{package}.{MAIN_MODULE}:{AGENT_FUNCTION}"
    if references.grader is not None:
        scripts[stem + GRADER_SUFFIX] = f"{package}.{MAIN_MODULE}:{GRADER_FUNCTION}"
    return scripts


def bundle_key(sources: Iterable[tuple[str, bytes]], settings: Iterable[str]) -> str:
    """The cache key of a bundle, 32 hex digits: everything its wheel follows from.

    `sources` are (relative path, content); `settings` whatever else decides, in a fixed order. Lengths keep neighbours apart.
    """
    digest = hashlib.sha256()
    for path, content in sorted(sources, key=lambda source: source[0].split("/")):
        for part in (path.encode("utf-8", "surrogateescape"), content):
            digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(b"\xff" * 8)
    for setting in settings:
        part = setting.encode("utf-8", "surrogateescape")
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


# --- A wheel's metadata ------------------------------------------------------------------------------------------------------


def with_scripts(entry_points: str, scripts: Mapping[str, str]) -> str:
    """The text of `entry_points.txt` with more console scripts in it."""
    sections = _sections(entry_points)
    sections.setdefault(_CONSOLE_SCRIPTS, {}).update(scripts)
    blocks = []
    for section, entries in sections.items():
        lines = [f"[{section}]", *(f"{name} = {value}" for name, value in entries.items())]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _sections(entry_points: str) -> dict[str, dict[str, str]]:
    """The entries of each section: the part of the INI format that entry points use."""
    sections: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in map(str.strip, entry_points.split("\n")):
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1].strip(), {})
        elif line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            current[name.strip()] = value.strip()
    return sections


def with_requirements(metadata: str, requirements: Iterable[str]) -> str:
    """The text of `METADATA` in which `requirements` stand in place of those of the same name."""
    replaced = {requirement_name(text): text for text in requirements}
    head, separator, body = metadata.partition("\n\n")
    lines = []
    for line in head.rstrip("\n").split("\n"):
        field, _, value = line.partition(":")
        if field.lower() == "requires-dist" and requirement_name(value) in replaced:
            continue
        lines.append(line)
    lines += [f"Requires-Dist: {text}" for text in replaced.values()]
    return "\n".join(lines) + (separator or "\n") + body


def requirement_name(text: str) -> str:
    """The normalised name in a requirement such as `Some_Package[extra]>=1`. Raises ValueError."""
    found = _NAME.match(text)
    if found is None:
        raise ValueError(f"{text.strip()!r} is not a requirement")
    return normalised(found[1])


def requirement_extras(text: str) -> tuple[str, ...]:
    """The extras in a requirement, in order."""
    found = _NAME.match(text)
    inside = found[2] if found else None
    return tuple(extra.strip() for extra in inside.strip("[]").split(",") if extra.strip()) if inside else ()


def normalised(name: str) -> str:
    """A distribution's name as registries compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements_of(metadata: str) -> tuple[str, ...]:
    """The requirements in the text of `METADATA`, without those that an extra gates; other markers stay."""
    head = metadata.replace("\r\n", "\n").partition("\n\n")[0]
    unfolded = re.sub(r"\n[ \t]+", " ", head)
    fields = (line.partition(":") for line in unfolded.split("\n"))
    found = (value.strip() for name, _, value in fields if name.strip().lower() == "requires-dist")
    return tuple(text for text in found if not _EXTRA_MARKER.search(text.partition(";")[2]))


def bundle_scripts(entry_points: str) -> tuple[str | None, str | None, str | None]:
    """(agent script, grader script, package) that a wheel's entry points name; package None if it is no bundle."""
    agent = grader = package = None
    for name, target in _sections(entry_points).get(_CONSOLE_SCRIPTS, {}).items():
        module, _, function = target.partition(":")
        owner, _, last = module.rpartition(".")
        if last != MAIN_MODULE:
            continue
        if name.endswith(AGENT_SUFFIX) and function == AGENT_FUNCTION:
            agent, package = name, owner
        elif name.endswith(GRADER_SUFFIX) and function == GRADER_FUNCTION:
            grader, package = name, owner
    return agent, grader, package
