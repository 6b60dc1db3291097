"""Fixtures of the sandbox tests. What a machine cannot do makes them fail with words, never skip.

They run in the environment that `scripts/harbor_env.py` makes. In any other there is no Harbor, so none of them is collected,
and a run that asks for them alone ends with pytest's code for "no tests".
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from scripts.sandbox_engine import EngineError, engine, install
from tests.harbor.harbor_workspace import HarborWorkspace, make_harbor_workspace, write_project
from tests.integration.stub_model import StubModel, stub_model

collect_ignore_glob = [] if importlib.util.find_spec("harbor") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is marked `harbor`, and what Harbor says about its own future is no failure."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.harbor)
            item.add_marker(pytest.mark.filterwarnings("ignore:Task.checksum:DeprecationWarning"))


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """bubblewrap is installed."""
    try:
        install("bubblewrap")
    except EngineError as error:
        pytest.fail(f"this machine cannot run the sandbox tests: {error}")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[dict[str, str]]:
    """A docker engine of our own."""
    yield from _engine("docker")


@pytest.fixture(scope="session")
def podman_engine() -> Iterator[dict[str, str]]:
    """A podman of our own."""
    yield from _engine("podman")


def _engine(kind: str) -> Iterator[dict[str, str]]:
    try:
        with engine(kind) as variables:
            yield variables
    except EngineError as error:
        pytest.fail(f"this machine cannot run the {kind} tests: {error}")


@pytest.fixture(scope="session")
def rollout_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment that every test rollout runs in, on this Python."""
    root = tmp_path_factory.mktemp("rollout")
    project, environment = root / "project", root / "venv"
    write_project(project)
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "sync", "--quiet", "--project", str(project), "--python", sys.executable]
    subprocess.run(command, env=variables | {"UV_PROJECT_ENVIRONMENT": str(environment)}, check=True)
    return environment


@pytest.fixture
async def model() -> AsyncIterator[StubModel]:
    """A stub provider."""
    async with stub_model() as stub:
        yield stub


@pytest.fixture
def in_bubblewrap(bubblewrap: None, tmp_path: Path, model: StubModel, rollout_environment: Path) -> HarborWorkspace:
    """A workspace whose sandboxes are bubblewrap's."""
    return make_harbor_workspace(tmp_path, model.url, rollout_environment, "bubblewrap", {})


@pytest.fixture
def in_docker(docker_engine: dict[str, str], tmp_path: Path, model: StubModel, rollout_environment: Path) -> HarborWorkspace:
    """A workspace whose sandboxes are docker's."""
    return make_harbor_workspace(tmp_path, model.url, rollout_environment, "docker", docker_engine)


@pytest.fixture
def in_podman(podman_engine: dict[str, str], tmp_path: Path, model: StubModel, rollout_environment: Path) -> HarborWorkspace:
    """A workspace whose sandboxes are podman's."""
    return make_harbor_workspace(tmp_path, model.url, rollout_environment, "podman", podman_engine)
