"""Reads the part of the Dockerfile language that we act on (rollout_protocol 13.4; reference: Docker's "Dockerfile reference").

Two uses: an image gets our packages by one more instruction at its end, and a sandbox without an image builder carries out the
simple instructions by itself. Everything else in a Dockerfile passes through untouched, or is refused by its line.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

import msgspec

from osmosis.pure.errors import OsmosisError, Problem

_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*(\S)\s*$", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_VARIABLE = re.compile(r"\\?\$(?:\{([A-Za-z_]\w*)(?::-([^}]*))?\}|([A-Za-z_]\w*))")
_IGNORED: Final = frozenset({"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "STOPSIGNAL", "VOLUME"})
_WITH_HEREDOC: Final = frozenset({"RUN", "COPY", "ADD"})


class Instruction(msgspec.Struct, frozen=True):
    """One instruction: its line (from 1), its name in capitals, the rest of it, and the texts of its here-documents."""

    line: int
    name: str
    arguments: str
    documents: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run a shell command."""

    line: int
    command: str


class Copy(msgspec.Struct, frozen=True, tag=True):
    """Copy paths of the build context, relative to it, to a path of the image."""

    line: int
    sources: tuple[str, ...]
    target: str


class Workdir(msgspec.Struct, frozen=True, tag=True):
    """Go to a directory, which is made if need be."""

    line: int
    path: str


class Env(msgspec.Struct, frozen=True, tag=True):
    """Set environment variables for what follows and for the finished image."""

    line: int
    values: tuple[tuple[str, str], ...]


class User(msgspec.Struct, frozen=True, tag=True):
    """Carry on as another user."""

    line: int
    name: str


BuildStep = Run | Copy | Workdir | Env | User


def instructions(text: str) -> tuple[Instruction, ...]:
    """The instructions of a Dockerfile: continued lines joined, comments left out, here-documents taken along."""
    lines = text.replace("\r\n", "\n").split("\n")
    escape = _escape(lines)
    found: list[Instruction] = []
    position = 0
    while position < len(lines):
        start = position
        words, position = _joined(lines, position, escape)
        name, _, arguments = words.strip().partition(" ")
        if not name:
            continue
        documents: list[str] = []
        if name.upper() in _WITH_HEREDOC:
            for match in _HEREDOC.finditer(arguments):
                document, position = _document(lines, position, match[2])
                documents.append(document)
        found.append(Instruction(start + 1, name.upper(), arguments.strip(), tuple(documents)))
    return tuple(found)


def _escape(lines: list[str]) -> str:
    for line in lines:
        if not line.startswith("#"):
            break
        if match := _DIRECTIVE.match(line):
            return match[1]
    return "\\"


def _joined(lines: list[str], position: int, escape: str) -> tuple[str, int]:
    parts: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if line.lstrip().startswith("#"):
            if parts:
                continue
            return "", position
        if not line.strip() and parts:
            continue
        stripped = line.rstrip()
        if not stripped.endswith(escape):
            return "".join([*parts, stripped]), position
        parts.append(stripped[:-1])
    return "".join(parts), position


def _document(lines: list[str], position: int, end: str) -> tuple[str, int]:
    taken: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if line.strip() == end:
            break
        taken.append(line)
    return "".join(f"{line}\n" for line in taken), position


def with_archive(text: str, archive: str, target: str) -> str:
    """The Dockerfile with an archive of its context unpacked at `target` in the finished image.

    ADD unpacks local archives, and writes as root whatever USER says, so the image's user stays what it was.
    """
    ending = "" if text.endswith("\n") or not text else "\n"
    return f"{text}{ending}ADD {json.dumps([archive, f'{target}/'])}\n"


def without_ignoring(text: str, source: str) -> str:
    """The text of a `.dockerignore` that lets `source` through, whatever stands in it."""
    ending = "" if text.endswith("\n") or not text else "\n"
    return f"{text}{ending}!{source}\n"


# --- Carrying a Dockerfile out without an image builder ----------------------------------------------------------------------


def build_steps(text: str, label: str) -> tuple[BuildStep, ...]:
    """What a Dockerfile of one stage does on top of its base, in order. `label` names the file in problems.

    FROM is not looked at: the sandbox's own root file system takes its place. Raises OsmosisError that lists every instruction
    that needs a real image builder.
    """
    steps: list[BuildStep] = []
    problems: list[Problem] = []
    variables: dict[str, str] = {}
    stages = 0
    for instruction in instructions(text):
        try:
            if instruction.name == "FROM":
                stages += 1
                if stages > 1:
                    raise ValueError("there is more than one stage")
                continue
            steps += _steps(instruction, variables)
        except ValueError as error:
            problems.append(Problem(f"{label}:{instruction.line}", f"{instruction.name}: {error}"))
    if problems:
        raise OsmosisError(
            f"{label} needs an image builder.",
            problems=problems,
            hint="Run this task in docker or podman, or put what it needs into the sandbox's root file system.",
        )
    return tuple(steps)


def _steps(instruction: Instruction, variables: dict[str, str]) -> list[BuildStep]:
    line, arguments = instruction.line, instruction.arguments
    match instruction.name:
        case "RUN":
            return [Run(line, _command(instruction))]
        case "COPY":
            return [_copy(line, _expanded(arguments, variables))]
        case "WORKDIR":
            return [Workdir(line, _unquoted(_expanded(arguments, variables)))]
        case "USER":
            return [User(line, _expanded(arguments, variables).partition(":")[0])]
        case "ENV":
            values = _assignments(_expanded(arguments, variables))
            variables.update(values)
            return [Env(line, tuple(values.items()))]
        case "ARG":
            name, given, value = arguments.partition("=")
            if given:
                variables.setdefault(name.strip(), _unquoted(value))
                return [Env(line, ((name.strip(), _unquoted(value)),))]
            return []
        case "SHELL" | "ADD" | "ONBUILD":
            raise ValueError("it is not supported")
        case name if name in _IGNORED:
            return []
        case _:
            raise ValueError("it is not known")


def _command(instruction: Instruction) -> str:
    arguments = instruction.arguments
    if arguments.startswith("--"):
        raise ValueError("its options are not supported")
    if instruction.documents:
        if len(instruction.documents) == 1 and _HEREDOC.fullmatch(arguments):
            return instruction.documents[0]
        ends = [match[2] for match in _HEREDOC.finditer(arguments)]
        return arguments + "\n" + "".join(f"{text}{end}\n" for text, end in zip(instruction.documents, ends, strict=True))
    listed = _list(arguments)
    return arguments if listed is None else shlex.join(listed)


def _copy(line: int, arguments: str) -> Copy:
    if "<<" in arguments:
        raise ValueError("here-documents are not supported")
    listed = _list(arguments)
    words = shlex.split(arguments) if listed is None else listed
    if words and words[0].startswith("--"):
        raise ValueError("its options are not supported")
    if len(words) < 2:
        raise ValueError("it needs a source and a target")
    *sources, target = words
    for source in sources:
        if ".." in source.split("/"):
            raise ValueError(f"{source!r} leaves the build context")
    return Copy(line, tuple(source.lstrip("/") for source in sources), target)


def _list(arguments: str) -> list[str] | None:
    """The words of the JSON form; None for the other form."""
    if not arguments.startswith("["):
        return None
    try:
        return msgspec.json.decode(arguments.encode("utf-8", "replace"), type=list[str])
    except msgspec.MsgspecError:
        return None


def _assignments(arguments: str) -> dict[str, str]:
    name, _, rest = arguments.partition(" ")
    if "=" not in name:
        return {name: rest.strip()}
    words = shlex.split(arguments)
    if not all("=" in word for word in words):
        raise ValueError("it needs NAME=value")
    return dict(word.split("=", 1) for word in words)


def _expanded(text: str, variables: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return match[0][1:]
        found = variables.get(match[1] or match[3])
        return found if found is not None else match[2] or ""

    return _VARIABLE.sub(value, text)


def _unquoted(text: str) -> str:
    words = shlex.split(text)
    return words[0] if len(words) == 1 else text.strip()
