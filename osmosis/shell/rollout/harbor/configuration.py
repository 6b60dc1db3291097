"""What a HarborBackend was constructed with, checked once (contract: rollout_protocol section 13)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harbor.models.trial.config import EnvironmentConfig
from harbor.utils.import_path import import_class

from osmosis.pure.bundle import BundleInfo
from osmosis.pure.harbor_task import TaskMode
from osmosis.pure.harbor_wiring import check_native_agent
from osmosis.pure.prewarm import PrewarmMode, prewarm_mode
from osmosis.pure.sandbox_reach import CUSTOM
from osmosis.shell.packaging.bundle import build_bundle, inspect_bundle
from osmosis.shell.packaging.project import project_dir_for
from osmosis.shell.rollout.references import load_reference


@dataclass(frozen=True)
class Agent:
    """Who works on the task: a native agent of Harbor's by name, or a workflow by its reference."""

    name: str
    workflow: bool
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """The sandboxes. `label` is the type's name, or `custom`; `relays` tells that loopback URLs work inside as they are."""

    config: EnvironmentConfig
    label: str
    relays: bool

    def copied(self) -> EnvironmentConfig:
        """The configuration for one trial."""
        return self.config.model_copy(deep=True)


def agent_of(agent: str | type | None, native_agent_kwargs: Mapping[str, Any] | None) -> Agent:
    """Which agent is meant. Raises ValueError for none, an unknown name, or keyword arguments that nobody takes."""
    if agent is None:
        raise ValueError("agent is missing: name a native agent, an AgentWorkflow, or 'module:Class'")
    if isinstance(agent, str) and ":" not in agent:
        check_native_agent(agent)
        return Agent(agent, workflow=False, kwargs=dict(native_agent_kwargs or {}))
    if native_agent_kwargs:
        raise ValueError("native_agent_kwargs are for native agents; a workflow takes workflow_config")
    return Agent(agent if isinstance(agent, str) else reference_to(agent), workflow=True)


def reference_to(target: object) -> str:
    """`module:attribute` of a class, or of an object that a module holds under a name. Raises ValueError."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", None)
    name = getattr(target, "__qualname__", None)
    if module is None or name is None or "<locals>" in name:
        raise ValueError(f"{target!r} cannot be packed; give it as 'module:attribute'")
    if module == "__main__":
        raise ValueError(f"{name} is defined in the entrypoint, which no bundle holds; move it to the project's package")
    return f"{module}:{name}"


def environment_of(given: EnvironmentConfig | None) -> Environment:
    """A private copy of the configuration, with the defaults of providers that need some. Raises what its import raises."""
    config = EnvironmentConfig() if given is None else given.model_copy(deep=True)
    if config.import_path is not None:
        kind = import_class(config.import_path)
        return Environment(config, CUSTOM, bool(getattr(kind, "relays_loopback", False)))
    label = str(config.type.value)
    if label == "daytona" and config.delete:
        config.kwargs = {"auto_stop_interval_mins": 60, "auto_delete_interval_mins": 0, **config.kwargs}
    if label == "opensandbox":
        config.kwargs = {**_opensandbox_defaults(config.kwargs), **config.kwargs}
    return Environment(config, label, relays=False)


def _opensandbox_defaults(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    domain = str(kwargs.get("domain") or os.environ.get("OPENSANDBOX_DOMAIN") or "")
    scheme, separator, _ = domain.partition("://")
    defaults: dict[str, Any] = {"protocol": scheme if separator else "https"}
    if os.environ.get("OPENSANDBOX_RUN_ID"):
        defaults["use_server_proxy"] = True
    return defaults


def bundle_of(
    agent: Agent,
    *,
    grader: object | None,
    workflow_config: object | None,
    grader_config: object | None,
    code_dir: Path | str | None,
    bundle: Path | str | None,
) -> BundleInfo | None:
    """The bundle that goes into the sandbox: the given wheel, else one that is built; None if there is nothing to pack."""
    if bundle is not None:
        return inspect_bundle(bundle)
    if not agent.workflow and grader is None:
        return None
    workflow = agent.name if agent.workflow else None
    source = code_dir
    if source is None:
        first = workflow if workflow is not None else grader
        source = project_dir_for(load_reference(first))
    wheel = build_bundle(
        source,
        workflow=workflow,
        grader=None if grader is None else reference_to(grader),
        workflow_config=None if workflow_config is None else _config_reference(workflow_config, "workflow_config"),
        grader_config=None if grader_config is None else _config_reference(grader_config, "grader_config"),
    )
    return inspect_bundle(wheel)


def _config_reference(config: object, name: str) -> str:
    """Where a configuration object stands, since only code travels: as `module:attribute`, or found in a module by identity."""
    if isinstance(config, str):
        return config
    for module_name, module in list(sys.modules.items()):
        if module_name == "__main__":
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is config:
                return f"{module_name}:{attribute}"
    raise ValueError(f"{name} must be an object of a module of the project, or 'module:attribute', so that the bundle holds it")


def check_numbers(max_queue_depth: int | None, prewarm: str | bool | None) -> PrewarmMode | None:
    """Raise ValueError for a depth below 1 or an unknown prewarm mode; the mode that was given."""
    if max_queue_depth is not None and max_queue_depth < 1:
        raise ValueError(f"max_queue_depth must be at least 1 or None, not {max_queue_depth}")
    return None if prewarm is None else prewarm_mode(prewarm)


def verified_of(given: Collection[str] | bool) -> frozenset[str] | bool:
    """The verified tasks as they were given. Raises TypeError for a single string, whose letters are not meant."""
    if isinstance(given, str):
        raise TypeError("verified_tasks must be a collection of task ids, or True; a single id belongs into a set")
    return given if isinstance(given, bool) else frozenset(given)


def mode_of(given: str | TaskMode) -> TaskMode:
    """The task mode. Raises ValueError for an unknown one."""
    try:
        return TaskMode(given)
    except ValueError:
        raise ValueError(f"task_mode must be one of {', '.join(TaskMode)}, not {given!r}") from None


def working_directories(tasks_dir: Path, trials_dir: Path | str | None) -> tuple[Path, Path]:
    """(where tasks are laid out, where trials are kept): private directories, below the system's temporary one by default."""
    root = Path(tempfile.gettempdir()) / f"osmosis-harbor-{tasks_dir.resolve().name}"
    staging, trials = root / "rollouts", Path(trials_dir) if trials_dir is not None else root / "trials"
    for directory in (root, staging, trials):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = root.lstat()
    if root.is_symlink() or facts.st_uid != os.geteuid():
        raise ValueError(f"{root} belongs to somebody else; set TMPDIR to a directory of your own")
    return staging.resolve(), trials.resolve()
