"""Builds the configuration of one Harbor trial (contract: rollout_protocol 13.5 and 13.6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harbor.models.task.config import TaskConfig as TaskFile
from harbor.models.trial.config import AgentConfig, TaskConfig, TrialConfig, VerifierConfig

from osmosis.pure.harbor_wiring import wire_native_agent
from osmosis.pure.sandbox_reach import ORACLE, chat_host
from osmosis.shell.rollout.harbor.configuration import Agent, Environment
from osmosis.shell.rollout.harbor.side import TrialSide

HARNESS = "osmosis_ai.rollout.backend.harbor.harness_agent:OsmosisHarnessInstalledAgent"
VERIFIER = "osmosis_ai.rollout.backend.harbor.verifier:OsmosisVerifier"

_ALLOWLIST = "allowlist"


@dataclass(frozen=True)
class TrialPlan:
    """Everything a trial follows from. Timeouts in seconds; None leaves the task's own."""

    trial_name: str
    trials_dir: Path
    task: Path
    agent: Agent
    environment: Environment
    side: TrialSide
    url: str
    model: str
    setup_timeout_sec: float | None = None
    agent_timeout_sec: float | None = None
    verifier_timeout_sec: float | None = None
    verify: bool = True
    grader: bool = False


def rollout_trial(plan: TrialPlan) -> TrialConfig:
    """The trial of a rollout. Raises ValueError if the agent cannot be wired."""
    environment = plan.environment.copied()
    agent = _agent(plan)
    _allow_chat_host(plan, environment, agent)
    if plan.environment.relays and plan.url:
        environment.kwargs = {**environment.kwargs, "bridge_url": plan.url}
    return TrialConfig(
        task=TaskConfig(path=plan.task),
        trial_name=plan.trial_name,
        trials_dir=plan.trials_dir,
        agent=agent,
        environment=environment,
        verifier=VerifierConfig(
            override_timeout_sec=plan.verifier_timeout_sec,
            import_path=VERIFIER,
            kwargs={"trial": plan.trial_name, "grader": plan.grader},
            disable=not plan.verify,
        ),
    )


def prewarm_trial(plan: TrialPlan, *, full: bool) -> TrialConfig:
    """A trial that ends once the sandbox is set up: with the agent installed if `full`, else its health check alone."""
    agent = _agent(plan) if full else AgentConfig(name="nop")
    return TrialConfig(
        task=TaskConfig(path=plan.task),
        trial_name=plan.trial_name,
        trials_dir=plan.trials_dir,
        agent=agent,
        environment=plan.environment.copied(),
        install_only=True,
    )


def _agent(plan: TrialPlan) -> AgentConfig:
    common: dict[str, Any] = {
        "override_timeout_sec": plan.agent_timeout_sec,
        "override_setup_timeout_sec": plan.setup_timeout_sec,
    }
    if plan.agent.workflow:
        return AgentConfig(import_path=HARNESS, kwargs={"trial": plan.trial_name}, **common)
    wiring = wire_native_agent(plan.agent.name, url=plan.url, key=plan.side.api_key, model=plan.model, kwargs=plan.agent.kwargs)
    return AgentConfig(name=plan.agent.name, model_name=wiring.model_name, kwargs=wiring.kwargs, env=wiring.env, **common)


def _allow_chat_host(plan: TrialPlan, environment: Any, agent: AgentConfig) -> None:
    """Let a task with a list of allowed hosts reach the model; one without any network stays without."""
    host = chat_host(plan.url)
    if host is None or plan.agent.name == ORACLE:
        return
    path = plan.task / "task.toml"
    if not path.is_file():
        return
    task = TaskFile.model_validate_toml(path.read_text())
    baseline = task.environment.resolve_baseline()
    phase = task.agent.explicit_phase_policy()
    if baseline.network_mode.value == _ALLOWLIST:
        environment.extra_allowed_hosts = [*environment.extra_allowed_hosts, host]
    if (phase or baseline).network_mode.value == _ALLOWLIST:
        agent.extra_allowed_hosts = [*agent.extra_allowed_hosts, host]
