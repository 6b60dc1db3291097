"""Whether and how a server tries its tasks before it takes rollouts (contract: rollout_protocol 13.9).

A prewarm trial only sets a sandbox up: image built, agent installed, health check passed. It fails where a rollout would fail,
once and early instead of a thousand times and late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

import msgspec

PREWARM_ENV: Final = "_OSMOSIS_HARBOR_PREWARM"
TASK_IDS_ENV: Final = "_OSMOSIS_PREWARM_TASK_IDS"
VERIFIED_ENV: Final = "_OSMOSIS_HARBOR_TASKS_VERIFIED"
ABORT_AFTER: Final = 3
"""So many failures without one success end the prewarm early."""

_SYSTEMIC = re.compile(
    r"unauthori[sz]ed|forbidden|authenticat|invalid api key|\b40[123]\b|quota|rate.?limit|\b429\b|proxy|payment required",
    re.IGNORECASE,
)


class PrewarmMode(StrEnum):
    """What is tried."""

    AUTO = "auto"
    FULL = "full"
    HEALTHCHECK = "healthcheck"
    OFF = "off"


class Trial(StrEnum):
    """What one task's prewarm trial does."""

    NONE = "none"
    HEALTHCHECK = "healthcheck"
    FULL = "full"


class Failure(msgspec.Struct, frozen=True):
    """A task whose prewarm failed, and what was said."""

    task: str
    message: str


class PrewarmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a prewarm went. `systemic`: not single tasks but the whole set-up is at fault, and why."""

    mode: PrewarmMode
    tried: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    systemic: str | None = None


def prewarm_mode(*given: str | bool | None) -> PrewarmMode:
    """The first of `given` that says something: argument, constructor, environment. Raises ValueError for another word.

    True is `full`, False is `off`; without a word it is `auto`.
    """
    for value in given:
        if value is None or value == "":
            continue
        if isinstance(value, bool):
            return PrewarmMode.FULL if value else PrewarmMode.OFF
        try:
            return PrewarmMode(value.strip().lower())
        except ValueError:
            known = ", ".join(PrewarmMode)
            raise ValueError(f"prewarm must be one of {known}, True or False, not {value!r}") from None
    return PrewarmMode.AUTO


def task_ids(text: str | None) -> tuple[str, ...] | None:
    """The task ids in an environment variable: a JSON list, or separated by commas; None if there are none."""
    if text is None or not text.strip():
        return None
    if text.strip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise ValueError(f"{TASK_IDS_ENV} must be a JSON list of strings, or task ids separated by commas")
        return tuple(listed)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def is_verified(task: str, verified: bool | Collection[str], environment: str | None) -> bool:
    """Whether somebody vouches for a task: the constructor (all, or by name), or the environment (`1`, `true`, or names)."""
    if isinstance(verified, bool):
        if verified:
            return True
    elif task in verified:
        return True
    word = (environment or "").strip().lower()
    return word in ("1", "true", "yes", "all", "*") or task in (task_ids(environment) or ())


def prewarm_trial(mode: PrewarmMode, *, verified: bool, healthcheck: bool) -> Trial:
    """What to try of one task. A verified task is known to build; only its health check is worth a look."""
    match mode:
        case PrewarmMode.OFF:
            return Trial.NONE
        case PrewarmMode.FULL:
            return Trial.FULL
        case PrewarmMode.HEALTHCHECK:
            return Trial.HEALTHCHECK if healthcheck else Trial.NONE
    if not verified:
        return Trial.FULL
    return Trial.HEALTHCHECK if healthcheck else Trial.NONE


def systemic_reason(tried: int, failures: Sequence[Failure]) -> str | None:
    """Why the failures so far speak of the whole set-up, or None if they speak of single tasks."""
    failed = len(failures)
    if not failed:
        return None
    if failed == tried:
        return f"all {tried} tasks failed" if tried > 1 else "the only task failed"
    if sum(bool(_SYSTEMIC.search(failure.message)) for failure in failures) >= 2:
        return "several failures look like credentials, quota or a proxy"
    return f"{failed} of {tried} tasks failed" if tried > 1 and failed * 2 > tried else None


def prewarm_width(sandboxes: str | None, default: int) -> int:
    """How many prewarm trials run at once: at most half of the sandboxes that the provider grants."""
    text = (sandboxes or "").strip()
    return max(1, min(default, int(text) // 2)) if text.isdecimal() and int(text) > 0 else default
