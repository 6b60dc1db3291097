"""The documented import names, and what importing them costs (rollout_protocol section 1; design section 3)."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

NAMES = {
    "osmosis_ai": "__version__",
    "osmosis_ai.rollout": """
        AgentWorkflow AgentWorkflowConfig AgentWorkflowContext AgentWorkflowOutput BaseConfig ConcurrencyConfig ExecutionBackend
        ExecutionOutcome ExecutionRequest ExecutionResult Grader GraderConfig GraderContext LocalBackend MessageDict
        RolloutContext RolloutErrorCategory RolloutInitRequest RolloutInitResponse RolloutResultResponse RolloutSample
        RolloutStatus SampleSource get_rollout_context
    """,
    "osmosis_ai.rollout.agent_workflow": "AgentWorkflow",
    "osmosis_ai.rollout.grader": "Grader",
    "osmosis_ai.rollout.context": """
        AgentWorkflowContext GraderContext RolloutContext RolloutProgress SampleSource get_rollout_context rollout_contextvar
        CHAT_COMPLETIONS_URL_ENV API_KEY_ENV ROLLOUT_ID_ENV
    """,
    "osmosis_ai.rollout.types": """
        POLLING_LEASE_HEADER AgentWorkflowConfig AgentWorkflowOutput BaseConfig CancelRolloutsRequest CancelRolloutsResponse
        ConcurrencyConfig ExecutionOutcome ExecutionRequest ExecutionResult GraderConfig MessageDict Messages
        RolloutErrorCategory RolloutInitRequest RolloutInitResponse RolloutLifecycle RolloutResultResponse RolloutSample
        RolloutStatus
    """,
    "osmosis_ai.rollout.types.config": "AgentWorkflowConfig BaseConfig ConcurrencyConfig GraderConfig",
    "osmosis_ai.rollout.types.output": "AgentWorkflowOutput coerce_output",
    "osmosis_ai.rollout.types.harbor": "HarborGatewayConfig HarborHealthcheckConfig",
    "osmosis_ai.rollout.types.protocol": "POLLING_LEASE_HEADER RolloutInitRequest RolloutResultResponse ExecutionRequest",
    "osmosis_ai.rollout.types.sample": "MessageDict Messages RolloutSample",
    "osmosis_ai.rollout.backend": "ExecutionBackend LocalBackend",
    "osmosis_ai.rollout.backend.base": "ExecutionBackend",
    "osmosis_ai.rollout.backend.local": "LocalBackend",
    "osmosis_ai.rollout.backend.local.backend": "LocalBackend",
    "osmosis_ai.rollout.server": "create_rollout_server",
    "osmosis_ai.rollout.server.app": """
        create_rollout_server DEFAULT_RESULT_WAIT_TIMEOUT_SEC DEFAULT_POLLING_LEASE_TIMEOUT_SEC DEFAULT_RESULT_RETENTION_SEC
        POLLING_LEASE_HEADER
    """,
    "osmosis_ai.rollout.client": "RolloutClient RolloutHandle RolloutProtocolError RolloutAdmissionTimeoutError",
    "osmosis_ai.rollout.trajectory": "TrajectoryReport convert_sample_to_trajectory report_from_response save_trajectory",
}

# What a module must not bring along: the first column imports it, the second is the price nobody asked to pay.
LIGHT = {
    "osmosis_ai": "osmosis.pure osmosis.shell msgspec pydantic importlib.metadata",
    "osmosis.pure.ownership": "pydantic polars litellm httpx",
    "osmosis.pure.preview": "pydantic polars litellm httpx",
    "osmosis.pure.protocol": "pydantic polars litellm fastapi httpx",
    "osmosis.pure.trajectory": "pydantic polars litellm",
    "osmosis.pure.trajectory_conversion": "pydantic polars litellm",
    "osmosis_ai.rollout": "polars litellm fastapi starlette httpx",
    "osmosis_ai.rollout.server.app": "polars litellm httpx aiohttp",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_documented_name_exists(module):
    """A rollout written for the public package imports from these places."""
    loaded = importlib.import_module(module)
    missing = [name for name in NAMES[module].split() if not hasattr(loaded, name)]
    assert not missing


@pytest.mark.parametrize("module", LIGHT)
def test_imports_stay_light(module):
    """Importing a module loads nothing that it does not need."""
    code = f"import sys, {module}; print(*sorted(set({LIGHT[module].split()!r}) & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert finished.stdout.strip() == ""


def failing(code: str) -> str:
    """The last line that a program leaves on stderr."""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600)
    assert finished.returncode != 0
    return finished.stderr.strip().splitlines()[-1]


def test_a_missing_extra_is_named_with_its_command():
    """Without FastAPI, the server's names say what to install."""
    line = failing("import sys; sys.modules['fastapi'] = None\nfrom osmosis_ai.rollout.server import create_rollout_server")
    assert line == ("ModuleNotFoundError: the rollout server needs the extra 'server': pip install \"osmosis-ai[server]\"")


def test_another_missing_module_is_not_mistaken_for_an_extra():
    """A module that no extra brings stays what it is: somebody's bug."""
    line = failing("import sys; sys.modules['hmac'] = None\nfrom osmosis_ai.rollout.server import create_rollout_server")
    assert "pip install" not in line
    assert "hmac" in line


def test_unknown_names_are_attribute_errors():
    """As of any module."""
    with pytest.raises(ImportError):
        from osmosis_ai.rollout.server import ControllerAuth  # noqa: F401


@pytest.mark.parametrize(
    ("module", "name", "framework", "extra"),
    [
        ("openai_agents", "OsmosisAgent", "agents", "openai-agents"),
        ("strands", "OsmosisStrandsAgent", "strands", "strands"),
    ],
)
def test_a_missing_framework_is_named_with_its_command(module, name, framework, extra):
    """Without the framework, the integration says what to install."""
    place = f"osmosis_ai.rollout.integrations.agents.{module}"
    line = failing(f"import sys; sys.modules['{framework}'] = None\nfrom {place} import {name}")
    assert f'pip install "osmosis-ai[{extra}]"' in line


@pytest.mark.parametrize(
    ("values", "valid"),
    [
        ({}, True),
        ({"agent": "terminus-2", "concurrency": 256, "prewarm": False}, True),
        ({"environment_healthcheck": {"command": "true"}}, True),
        ({"agent": "OpenCode"}, False),
        ({"concurrency": 0}, False),
        ({"concurrency": 257}, False),
        ({"prewarm": "sometimes"}, False),
        ({"environment_healthcheck": {"command": ""}}, False),
        ({"surprise": 1}, False),
    ],
)
def test_the_gateways_configuration(values, valid):
    """Accepts and refuses what the contract says (rollout_protocol 2.7)."""
    from osmosis_ai.rollout.types.harbor import HarborGatewayConfig

    if valid:
        HarborGatewayConfig(**values)
    else:
        with pytest.raises(ValueError, match="validation error"):
            HarborGatewayConfig(**values)
