"""The eval config: TOML bytes in, `EvalConfig` or one error with every problem out (E1; `cli.md` section 5; ruling 16).

What is decided here: which sections and keys exist, what each may hold, and how a mistake is told. A mistake names file and
line, the key, and where one can be guessed the key that was meant. `[advanced]` is carried along unread; values that JSON
cannot hold become text, because the manifest records the table.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from osmosis.pure.canonical import decode_utf8
from osmosis.pure.config_values import (
    ENV_NAME,
    REQUIRED,
    RESERVED_PREFIX,
    SECRET_NAME,
    SECTIONS,
    VALUES,
    kind,
)
from osmosis.pure.errors import OsmosisError, Problem
from osmosis.pure.model_prices import ModelPrice
from osmosis.pure.near_miss import near_miss
from osmosis.pure.toml_lines import KeyPath, key_lines


class ExperimentConfig(msgspec.Struct, frozen=True):
    """`[experiment]`: what is evaluated. `entrypoint` is relative to `rollouts/<rollout>/` and stays inside it."""

    rollout: str
    entrypoint: str
    model_path: str
    dataset: str
    branch: str | None = None
    commit_sha: str | None = None


class EvaluationConfig(msgspec.Struct, frozen=True):
    """`[evaluation]`: how it is evaluated. None means that the key is absent. Timeouts are in seconds."""

    limit: int | None = None
    n: int = 1
    batch_size: int | None = None
    pass_threshold: float = 1.0
    agent_workflow_timeout_s: float | None = None
    grader_timeout_s: float | None = None


class EvalConfig(msgspec.Struct, frozen=True):
    """A whole eval config. `env` is sorted by name, `secret_names` in config order; `advanced` holds JSON values only.

    `price` is what `[pricing]` says of the model: US dollars a million tokens.
    """

    experiment: ExperimentConfig
    evaluation: EvaluationConfig
    env: dict[str, str]
    secret_names: tuple[str, ...]
    advanced: dict[str, Any]
    price: ModelPrice | None = None


def decode_config(data: bytes, label: str) -> EvalConfig:
    """Decode an eval config. `label` names the file in errors.

    Raises one OsmosisError that carries every problem, with `details = {"error", "issues": [{"key", "message"}]}`.
    """
    text = decode_utf8(data, label)
    document = _parse_toml(text, label)
    problems = _Problems(label, key_lines(text))
    _check_sections(document, problems)
    experiment = _read_section(document, "experiment", problems)
    evaluation = _read_section(document, "evaluation", problems)
    if problems.sound("experiment.branch", "experiment.commit_sha") and {"branch", "commit_sha"} <= experiment.keys():
        problems.add(("experiment", "commit_sha"), "give either branch or commit_sha, not both")
    env = _read_env(document, problems)
    secret_names = _read_secret_names(document, env, problems)
    advanced = _read_advanced(document, problems)
    pricing = _read_section(document, "pricing", problems)
    price = msgspec.convert(pricing, ModelPrice) if {"input", "output"} <= pricing.keys() else None
    if problems.found:
        raise _invalid(label, problems.in_file_order())
    return EvalConfig(
        experiment=msgspec.convert(experiment, ExperimentConfig),
        evaluation=msgspec.convert(evaluation, EvaluationConfig),
        env=dict(sorted(env.items())),
        secret_names=secret_names,
        advanced=advanced,
        price=price,
    )


def _parse_toml(text: str, label: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        message, where = "nested too deeply", label
    except ValueError as error:
        message, line = _syntax_problem(str(error))
        where = f"{label}:{line or text.count(chr(10)) + 1}"
    problem = Problem(where, message)
    raise OsmosisError(
        f"{label} is not valid TOML.",
        problems=[problem],
        hint="Correct the file and try again.",
        details={"error": str(problem), "issues": []},
    )


def _syntax_problem(text: str) -> tuple[str, str | None]:
    """Split tomllib's message into what is wrong (column kept) and the line, which is None at the end of the document."""
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", text, re.DOTALL)
    if match is None:
        return text, None
    what = match[1][:1].lower() + match[1][1:]
    return (f"{what} at column {match[3]}", match[2]) if match[2] else (f"{what} at the end of the file", None)


class _Problems:
    """Collects the problems of one file and knows the line of each key."""

    def __init__(self, label: str, lines: Mapping[KeyPath, int]) -> None:
        self.label = label
        self.lines = lines
        self.found: list[tuple[int, Problem]] = []

    def add(self, path: KeyPath, message: str) -> None:
        """Note a problem with the key at `path`; the nearest enclosing key that stands in the file gives the line."""
        known = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        line = self.lines[known] if known else 0
        where = f"{self.label}:{line}" if line else self.label
        self.found.append((line, Problem(where, f"{_spell(path)}: {message}", ".".join(path))))

    def sound(self, *keys: str) -> bool:
        """Whether none of these keys has a problem so far."""
        return not any(problem.key in keys for _, problem in self.found)

    def in_file_order(self) -> list[Problem]:
        return [problem for _, problem in sorted(self.found, key=lambda entry: entry[0])]


def _spell(path: KeyPath) -> str:
    return f"[{path[0]}]" if len(path) == 1 else f"[{path[0]}] {'.'.join(path[1:])}"


def _invalid(label: str, problems: list[Problem]) -> OsmosisError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    message = f"{label} is not a valid eval config: {count}."
    issues = [{"key": problem.key or "", "message": problem.message} for problem in problems]
    return OsmosisError(
        message,
        problems=problems,
        hint="Correct the config and run the command again.",
        details={"error": "\n".join([message, *map(str, problems)]), "issues": issues},
    )


# Sections ---------------------------------------------------------------------------------------------------------------


def _check_sections(document: Mapping[str, object], problems: _Problems) -> None:
    for name, value in document.items():
        if name not in SECTIONS:
            problems.add((name,), _unknown(name, value))
        elif not isinstance(value, dict):
            problems.add((name,), f"must be a table, not {kind(value)}")
    if "experiment" not in document:
        problems.add(("experiment",), "this section is missing; it names rollout, entrypoint, model_path and dataset")
    if "secrets" not in document:
        problems.add(("secrets",), "this section is missing; write `required = []` in it if the run needs no secrets")


def _unknown(name: str, value: object) -> str:
    if not isinstance(value, dict):
        home = next((section for section, keys in VALUES.items() if name in keys), None)
        return f"unknown key outside any section{f'; it belongs in [{home}]' if home else ''}"
    return f"unknown section{_did_you_mean(name, SECTIONS, '[{}]')}"


def _did_you_mean(name: str, known: Iterable[str], form: str = "{}") -> str:
    meant = near_miss(name.lower(), known)
    return f"; did you mean {form.format(meant)}?" if meant is not None else ""


def _table(document: Mapping[str, Any], section: str) -> dict[str, Any]:
    value = document.get(section)
    return value if isinstance(value, dict) else {}


def _read_section(document: Mapping[str, Any], section: str, problems: _Problems) -> dict[str, Any]:
    """The known keys of a section that are sound; everything else becomes a problem."""
    table, checks = _table(document, section), VALUES[section]
    sound: dict[str, Any] = {}
    for key, value in table.items():
        if key not in checks:
            home = next((other for other, keys in VALUES.items() if key in keys), None)
            problems.add((section, key), f"unknown key{f'; it belongs in [{home}]' if home else _did_you_mean(key, checks)}")
        elif (wrong := checks[key].check(value)) is not None:
            problems.add((section, key), wrong)
        else:
            sound[key] = value
    if isinstance(document.get(section), dict):
        for key in REQUIRED.get(section, ()):
            if key not in table:
                problems.add((section, key), "this key is missing")
    return sound


def _read_env(document: Mapping[str, Any], problems: _Problems) -> dict[str, str]:
    env = _table(document, "env")
    for name, value in env.items():
        if not re.fullmatch(ENV_NAME, name):
            problems.add(("env", name), "a name must be capital letters, digits and underscores, and not begin with a digit")
        elif name.startswith(RESERVED_PREFIX):
            problems.add(("env", name), f"names that begin with {RESERVED_PREFIX} are reserved for the product")
        if not isinstance(value, str):
            problems.add(("env", name), f"must be a string, not {kind(value)}; put it in quotes")
        elif "\0" in value:
            problems.add(("env", name), "must not hold a NUL character")
    return env


def _read_secret_names(document: Mapping[str, Any], env: Mapping[str, str], problems: _Problems) -> tuple[str, ...]:
    names = _read_section(document, "secrets", problems).get("required", [])
    path = ("secrets", "required")
    if not isinstance(names, list):
        problems.add(path, f"must be an array of names, not {kind(names)}")
        return ()
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            problems.add(path, f"must hold strings only, not {kind(name)}")
        elif not re.fullmatch(SECRET_NAME, name):
            problems.add(path, f"{name!r} must be capital letters, digits and underscores, and begin with a letter")
        elif name in seen:
            problems.add(path, f"{name} is listed twice")
        elif name in env:
            problems.add(path, f"{name} is also set in [env]; a name is either a secret or plain")
        else:
            seen.add(name)
    return tuple(names)


def _read_advanced(document: Mapping[str, Any], problems: _Problems) -> dict[str, Any]:
    table = _table(document, "advanced")
    try:
        return {key: _as_json(value) for key, value in table.items()}
    except ValueError as error:
        problems.add(("advanced",), str(error))
        return {}


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be recorded as JSON; use a finite number")
    return value
