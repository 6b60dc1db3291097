"""The stamp that a sync leaves in a rollout's environment, on real files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from osmosis.shell.evaluation.rollout_environment import activated, interpreter, is_synced, leave_stamp

UV = sys.executable
"""Any program stands for uv here: only its identity counts."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A rollout with an environment, and a checkout that it names by path."""
    checkout, project = tmp_path / "sdk", tmp_path / "rollouts" / "echo"
    packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
    for directory in (checkout, packages, project / ".venv" / "bin"):
        directory.mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (project / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (packages / "msgspec-1.dist-info").mkdir()
    (checkout / "pyproject.toml").write_text('[project]\nname = "sdk"\n')
    (project / "pyproject.toml").write_text('[tool.uv.sources]\nsdk = { path = "../../sdk", editable = true }\n')
    (project / "uv.lock").write_text("version = 1\n")
    return project


def test_a_stamp_holds_until_something_changes(project):
    """After a sync nothing is to do; after any change of what decides the environment there is."""
    assert not is_synced(project, {}, UV)
    leave_stamp(project, {}, UV)
    assert is_synced(project, {}, UV)
    (project / "main.py").write_text("print('edited')\n")
    assert is_synced(project, {}, UV), "source that nothing is built from"
    (project.parents[1] / "sdk" / "pyproject.toml").write_text('[project]\nname = "sdk"\ndependencies = ["httpx"]\n')
    assert not is_synced(project, {}, UV)


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock", ".venv/pyvenv.cfg"])
def test_each_file_that_counts(project, name):
    """An edit is noticed."""
    leave_stamp(project, {}, UV)
    path = project / name
    path.write_text(path.read_text() + "# edited\n")
    assert not is_synced(project, {}, UV)


def test_a_package_that_was_removed_by_hand_is_missed(project):
    """`uv pip uninstall` between two runs is mended by the next."""
    leave_stamp(project, {}, UV)
    (project / ".venv" / "lib" / "python3.11" / "site-packages" / "msgspec-1.dist-info").rmdir()
    assert not is_synced(project, {}, UV)


def test_a_workspace_further_up_is_missed(project):
    """uv finds workspaces by walking up, so a new one there counts."""
    leave_stamp(project, {}, UV)
    (project.parents[1] / "pyproject.toml").write_text("[tool.uv.workspace]\n")
    assert not is_synced(project, {}, UV)


def test_an_environment_that_is_gone_is_synced(project):
    """No Python, no stamp."""
    leave_stamp(project, {}, UV)
    (project / ".venv" / "bin" / "python").unlink()
    assert not is_synced(project, {}, UV)
    assert interpreter(project, {}) is None


def test_the_environment_named_by_a_variable(project, tmp_path):
    """`UV_PROJECT_ENVIRONMENT` moves the environment, relative to the project."""
    (project / ".venv").rename(tmp_path / "rollouts" / "shared")
    python = interpreter(project, {"UV_PROJECT_ENVIRONMENT": "../shared"})
    assert python is not None
    assert activated({"PATH": "/bin"}, python)["PATH"] == f"{python.parent}:/bin"
