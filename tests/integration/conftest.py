"""Fixtures for tests of whole runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.stub_model import StubModel, stub_model
from tests.integration.workspaces import Workspace, make_project, make_workspace


@pytest.fixture(scope="session")
def rollout_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment that every test rollout runs in."""
    root = tmp_path_factory.mktemp("rollout")
    project, environment = root / "project", root / "venv"
    project.mkdir()
    make_project(project)
    uv = Path(sys.executable).with_name("uv")
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run(
        [uv, "sync", "--quiet", "--project", project],
        env=variables | {"UV_PROJECT_ENVIRONMENT": str(environment)},
        check=True,
    )
    return environment


@pytest.fixture
async def model() -> AsyncIterator[StubModel]:
    """A stub provider."""
    async with stub_model() as stub:
        yield stub


@pytest.fixture
def workspace(tmp_path: Path, model: StubModel, rollout_environment: Path) -> Workspace:
    """A workspace whose model is the stub provider."""
    return make_workspace(tmp_path / "workspace", model.url, rollout_environment)
