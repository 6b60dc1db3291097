"""Which Harbor task a rollout runs, under which name (contract: rollout_protocol 13.3 and 13.4)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

TASK_KEY: Final = "harbor_task"
TASK_ID_KEY: Final = "harbor_task_id"
MODEL_KEY: Final = "harbor_model"
GIT_URL_KEY: Final = "git_url"
GIT_COMMIT_KEY: Final = "git_commit_id"
LATEST: Final = "latest"


class TaskMode(StrEnum):
    """Where the task of a row comes from unless its metadata names one: one template for all rows, or a directory of tasks."""

    TEMPLATE = "template"
    DATASET = "dataset"


class LocalTask(msgspec.Struct, frozen=True):
    """A directory; relative paths lie below the tasks directory if `inside`, else below the server's working directory."""

    path: str
    inside: bool


class GitTask(msgspec.Struct, frozen=True):
    """A directory of a git repository; without a commit whatever its default branch holds."""

    url: str
    path: str
    commit: str | None


class PackageTask(msgspec.Struct, frozen=True):
    """A task of Harbor's registry: `org/name`, and a tag, revision or digest."""

    name: str
    ref: str
    floating: bool


TaskChoice = LocalTask | GitTask | PackageTask


def choose_task(metadata: Mapping[str, Any] | None, mode: TaskMode) -> TaskChoice:
    """The task of a row. Raises ValueError that names the metadata key that is wrong."""
    given = (metadata or {}).get(TASK_KEY)
    if given is not None:
        return _referenced(_text(given, TASK_KEY), metadata or {})
    if mode is TaskMode.TEMPLATE:
        return LocalTask("", inside=True)
    task_id = (metadata or {}).get(TASK_ID_KEY)
    if task_id is None:
        raise ValueError(f"In dataset mode each row needs metadata.{TASK_ID_KEY}, or metadata.{TASK_KEY}")
    path = _text(task_id, TASK_ID_KEY)
    if not is_inside(path):
        raise ValueError(f"metadata.{TASK_ID_KEY} must be a path below the tasks directory, not {path!r}")
    return LocalTask(path, inside=True)


def _referenced(reference: str, metadata: Mapping[str, Any]) -> TaskChoice:
    url = metadata.get(GIT_URL_KEY)
    if url is not None:
        commit = metadata.get(GIT_COMMIT_KEY)
        if not is_inside(reference):
            raise ValueError(f"metadata.{TASK_KEY} must be a path inside the repository, not {reference!r}")
        return GitTask(_text(url, GIT_URL_KEY), reference, None if commit is None else _text(commit, GIT_COMMIT_KEY))
    if reference[0] in "./~":
        return LocalTask(reference, inside=False)
    name, _, ref = reference.partition("@")
    if name.count("/") != 1 or not all(name.split("/")):
        raise ValueError(f"metadata.{TASK_KEY} must be a path or org/name[@ref], not {reference!r}")
    return PackageTask(name, ref or LATEST, floating=not ref)


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"metadata.{key} must be a string that says something")
    return value


def is_inside(path: str) -> bool:
    """Whether a relative path stays below where it starts, whatever the platform."""
    parts = path.replace("\\", "/").split("/")
    return not any(part in ("", ".", "..") for part in parts) and ":" not in parts[0] and _plain(path)


def _plain(text: str) -> bool:
    return not any(unicodedata.category(mark) in ("Cc", "Cs", "Zl", "Zp") for mark in text)


def trial_directory_name(rollout_id: str) -> str:
    """The name of a rollout's trial and of its directories. Raises ValueError for an id that Harbor could not use.

    Harbor builds paths and container names from it: a safe relative path without a colon, or `<namespace>::<id>`.
    """
    namespace, separator, rest = rollout_id.partition("::")
    parts = (namespace, rest) if separator else (rollout_id,)
    if all(is_inside(part) and ":" not in part for part in parts):
        return "__".join(part.replace("/", "_") for part in parts)
    raise ValueError(
        f"{rollout_id!r} cannot be the id of a Harbor rollout: no colon but one '::', no control characters, no '..'"
    )
