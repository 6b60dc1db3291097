"""What `osmosis doctor` makes of what it found: facts in, checks out (issue 9; contract `cli.md` section 4).

An `error` stands in the way of a local run; a `warning` will sooner or later, or stands in the way of a platform. Nothing is
looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

REQUIRED_PATHS = ("rollouts", "configs/eval")
PLATFORM_PATHS = ("configs/training", "data")
"""Directories of a workspace: what local runs need (ruling 11), and what a platform asks for beside it."""

LEAST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 1 << 30
LEAST_DESCRIPTORS = 1024
MOST_SKEW_SECONDS = 60.0
_BUILT = "2025-01-01"
"""A clock before this day cannot be right."""


class Health(StrEnum):
    """How a check came out. `skipped`: there was nothing to look at."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


class Check(msgspec.Struct, frozen=True):
    """One check. `hint` says what to do about it; `fixable` that `--fix` does it."""

    name: str
    health: Health
    finding: str
    hint: str | None = None
    fixable: bool = False


class ConfigFact(msgspec.Struct, frozen=True):
    """An eval config: its path from the workspace, and what is wrong with it, if anything."""

    path: str
    problems: tuple[str, ...] = ()


class ModelFact(msgspec.Struct, frozen=True):
    """A model that a config names. `problem` says why it has no endpoint; `status` is that of its host's answer, None where
    nothing was asked; `trouble` why no answer came; `skew_s` by how much the host's clock is ahead of ours."""

    model_path: str
    host: str = ""
    problem: str | None = None
    status: int | None = None
    trouble: str | None = None
    skew_s: float | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked at. `workspace` is None outside of one; `missing` are directories of it that are not there.

    `uv` is its version or None; `lacking` are packages of the `eval` extra that are not installed; `secrets_missing` names that
    configs require and the environment does not have; `ignored` whether git ignores `.osmosis`, None without git.
    """

    python: tuple[int, int, int]
    today: str
    workspace: str | None
    missing: tuple[str, ...] = ()
    git: bool = False
    ignored: bool | None = None
    lacking: tuple[str, ...] = ()
    uv: str | None = None
    configs: tuple[ConfigFact, ...] = ()
    secrets_missing: tuple[str, ...] = ()
    models: tuple[ModelFact, ...] = ()
    free_bytes: int | None = None
    descriptors: int | None = None


def checks(facts: Facts) -> tuple[Check, ...]:
    """All checks, in the order in which a person would mend things."""
    return (
        _workspace(facts),
        _platform_directories(facts),
        _git(facts),
        _python(facts),
        _packages(facts),
        _uv(facts),
        _configs(facts),
        _secrets(facts),
        *map(_model, facts.models),
        _disk(facts),
        _descriptors(facts),
        _clock(facts),
    )


def worst(found: Iterable[Check]) -> Health:
    """The worst of the checks: an error, else a warning, else ok."""
    present = {check.health for check in found}
    return next((health for health in (Health.ERROR, Health.WARNING) if health in present), Health.OK)


def _workspace(facts: Facts) -> Check:
    missing = [path for path in REQUIRED_PATHS if facts.workspace is None or path in facts.missing]
    if not missing:
        return Check("Workspace", Health.OK, facts.workspace or "")
    return Check(
        "Workspace",
        Health.ERROR,
        f"no {' and no '.join(f'{path}/' for path in missing)} here or above",
        "Change into a workspace, or let `osmosis doctor --fix` make these directories here.",
        fixable=True,
    )


def _platform_directories(facts: Facts) -> Check:
    missing = [path for path in PLATFORM_PATHS if facts.workspace is None or path in facts.missing]
    if not missing:
        return Check("Platform Layout", Health.OK, "complete")
    finding = f"no {', no '.join(f'{path}/' for path in missing)}"
    return Check(
        "Platform Layout", Health.WARNING, finding, "Local runs do without; `osmosis doctor --fix` makes them.", fixable=True
    )


def _git(facts: Facts) -> Check:
    if not facts.git:
        return Check("Git", Health.WARNING, "not a repository", "Runs record no commit. `git init` starts a history.")
    if facts.ignored is False:
        hint = "Results would be committed. `osmosis doctor --fix` adds .osmosis/ to .gitignore."
        return Check("Git", Health.WARNING, ".osmosis/ is not ignored", hint, fixable=True)
    return Check("Git", Health.OK, "a repository")


def _python(facts: Facts) -> Check:
    version = ".".join(map(str, facts.python))
    if facts.python >= LEAST_PYTHON:
        return Check("Python", Health.OK, version)
    return Check("Python", Health.ERROR, version, f"Install Python {'.'.join(map(str, LEAST_PYTHON))} or newer.")


def _packages(facts: Facts) -> Check:
    if not facts.lacking:
        return Check("Packages", Health.OK, "everything that local runs need")
    hint = "Install the extra that brings them: pip install 'osmosis-ai[eval]'"
    return Check("Packages", Health.ERROR, f"not installed: {', '.join(facts.lacking)}", hint)


def _uv(facts: Facts) -> Check:
    if facts.uv is not None:
        return Check("uv", Health.OK, facts.uv)
    return Check("uv", Health.ERROR, "not found", "Rollouts run through it. Install it: pip install 'osmosis-ai[eval]'")


def _configs(facts: Facts) -> Check:
    if not facts.configs:
        return Check("Eval Configs", Health.SKIPPED, "none", "`osmosis rollout init NAME` writes a first one.")
    wrong = [config for config in facts.configs if config.problems]
    if not wrong:
        count = len(facts.configs)
        return Check("Eval Configs", Health.OK, f"{count} config{'' if count == 1 else 's'} can be read")
    first = wrong[0]
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Check("Eval Configs", Health.ERROR, f"{first.path}: {first.problems[0]}{more}", "Mend the file, or remove it.")


def _secrets(facts: Facts) -> Check:
    if facts.secrets_missing:
        hint = "Set them in the environment, or pass --secrets-file FILE to the run."
        return Check("Secrets", Health.WARNING, f"not set: {', '.join(facts.secrets_missing)}", hint)
    return Check(
        "Secrets",
        Health.OK if facts.configs else Health.SKIPPED,
        "what the configs require is set" if facts.configs else "none",
    )


def _model(fact: ModelFact) -> Check:
    name = f"Model {fact.model_path}"
    if fact.problem is not None:
        hint = "Set the variable in the environment, or pass --secrets-file FILE to the run."
        return Check(name, Health.WARNING, fact.problem, hint)
    if fact.trouble is not None:
        return Check(name, Health.ERROR, f"{fact.host}: {fact.trouble}", "Check the network, and the base URL of the provider.")
    if fact.status is None:
        return Check(name, Health.SKIPPED, f"{fact.host} was not asked")
    if fact.status in (401, 403):
        return Check(name, Health.ERROR, f"{fact.host} refuses the key (HTTP {fact.status})", "Check the provider's API key.")
    if fact.status >= 500:
        return Check(name, Health.WARNING, f"{fact.host} is failing (HTTP {fact.status})", "Try again later.")
    return Check(name, Health.OK, f"{fact.host} answers")


def _disk(facts: Facts) -> Check:
    if facts.free_bytes is None:
        return Check("Disk", Health.SKIPPED, "unknown")
    if facts.free_bytes >= LEAST_FREE_BYTES:
        return Check("Disk", Health.OK, f"{facts.free_bytes / (1 << 30):.1f} GiB free")
    free = f"{facts.free_bytes >> 20} MiB free"
    return Check("Disk", Health.WARNING, free, "Make room, or write runs elsewhere with --output.")


def _descriptors(facts: Facts) -> Check:
    if facts.descriptors is None:
        return Check("Open Files", Health.SKIPPED, "unknown")
    if facts.descriptors >= LEAST_DESCRIPTORS:
        return Check("Open Files", Health.OK, f"up to {facts.descriptors}")
    hint = f"Raise the limit before a run with many rollouts at once: ulimit -n {4 * LEAST_DESCRIPTORS}"
    return Check("Open Files", Health.WARNING, f"at most {facts.descriptors}", hint)


def _clock(facts: Facts) -> Check:
    skews = sorted((fact.skew_s for fact in facts.models if fact.skew_s is not None), key=abs)
    if facts.today < _BUILT:
        return Check("Clock", Health.ERROR, f"it says {facts.today}", "Set the clock: times in runs would be wrong.")
    if skews and abs(skews[0]) > MOST_SKEW_SECONDS:
        way = "behind" if skews[0] > 0 else "ahead of"
        finding = f"{abs(skews[0]):.0f} s {way} the model's host"
        return Check("Clock", Health.WARNING, finding, "Set the clock, or let the system keep it.")
    return Check("Clock", Health.OK, f"agrees with the model's host, {facts.today}" if skews else facts.today)


def missing_variables(required: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    """The names of `required` that are not `present`, each once, in order."""
    there = set(present)
    yield from dict.fromkeys(name for name in required if name not in there)
