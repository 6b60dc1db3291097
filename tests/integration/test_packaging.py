"""Bundles built by the real uv (rollout_protocol 15), and the packages that go with them into a sandbox (ruling 26)."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from osmosis.pure.bundle import normalised
from osmosis.pure.sandbox_python import PROBE, read_probe
from osmosis.shell.packaging.bundle import BundleBuildError, build_bundle, inspect_bundle
from osmosis.shell.packaging.project import find_package, find_package_dir, package_roots, project_dir_for
from osmosis.shell.packaging.sdk_wheel import write_sdk_wheel
from osmosis.shell.packaging.site import build_site

PYPROJECT = """\
[project]
name = "my-agent"
version = "0.1"
requires-python = ">=3.11"
dependencies = ["osmosis-ai[server]>=0.3", "idna"]

[project.scripts]
mine = "my_agent.work:main"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""

WORK = """\
from osmosis_ai.rollout import AgentWorkflow, Grader


class Flow(AgentWorkflow):
    async def run(self, ctx):
        return [{"role": "assistant", "content": "a"}]


class Mark(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)
"""


@pytest.fixture
def project(tmp_path):
    """A rollout project with its package below `src`."""
    package = tmp_path / "project" / "src" / "my_agent"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "work.py").write_text(WORK)
    (tmp_path / "project" / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "project" / ".venv" / "other").mkdir(parents=True)
    (tmp_path / "project" / ".venv" / "other" / "__init__.py").touch()
    return tmp_path / "project"


def build(project, **options):
    """A bundle of the project, in a cache of its own."""
    references = {"workflow": "my_agent.work:Flow", "grader": "my_agent.work:Mark"} | options
    return build_bundle(project, bundles_dir=project.parent / "bundles", **references)


@pytest.mark.slow
def test_a_bundle_is_built_once(project):
    """It has both scripts beside the project's own, its requirements, and the generated module; sources that change make
    another; the project itself is not written to."""
    before = sorted(project.rglob("*"))
    wheel = build(project)
    assert sorted(project.rglob("*")) == before
    info = inspect_bundle(wheel)
    assert (info.agent_script, info.grader_script, info.package) == ("my_agent-agent", "my_agent-grade", "my_agent")
    assert [normalised(text.split("[")[0].split(">")[0]) for text in info.requirements] == ["idna", "osmosis-ai"]
    with zipfile.ZipFile(wheel) as archive:
        assert "my_agent/bundle_main.py" in archive.namelist()
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert b"mine = my_agent.work:main" in archive.read(entry_points)
    stamp = wheel.stat().st_mtime_ns
    assert build(project) == wheel
    assert wheel.stat().st_mtime_ns == stamp
    (project / "src" / "my_agent" / "more.py").touch()
    other = build(project, deps=["idna==3.10"])
    assert other != wheel
    assert "idna==3.10" in inspect_bundle(other).requirements


@pytest.mark.slow
def test_what_a_sandbox_gets_runs_there(project, tmp_path):
    """The archive alone is enough for a Python that has nothing else: no registry, no environment of ours."""
    wheel = build(project)
    probed = subprocess.run([sys.executable, "-I", "-c", PROBE], capture_output=True, text=True, check=True).stdout
    archive = build_site(wheel, read_probe(probed), sites_dir=tmp_path / "sites")
    assert build_site(wheel, read_probe(probed), sites_dir=tmp_path / "sites") == archive
    site = tmp_path / "site"
    with tarfile.open(archive) as packed:
        packed.extractall(site, filter="data")
    assert not (site / "fastapi").exists()
    program = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; from pathlib import Path; "
        "from osmosis_ai.rollout.container import runner; import my_agent.bundle_main as main; "
        "paths = __import__('osmosis.shell.rollout.container.runner', fromlist=['x']).ContainerPaths(Path(sys.argv[1])); "
        "paths.agent.mkdir(parents=True); "
        "(paths.agent / 'container_input.json').write_text('{\"rollout_id\": \"r\"}'); "
        "runner.agent_main(main._load('my_agent.work', 'Flow'), paths=paths); "
        "runner.grader_main(main._load('my_agent.work', 'Mark'), paths=paths)"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", program, str(tmp_path / "root")], check=True)
    assert (tmp_path / "root" / "logs" / "verifier" / "reward.json").read_bytes() == b'{"reward":1.0}'


def test_the_sdk_packs_itself_the_same_each_time(tmp_path):
    """Whatever it was installed from; byte for byte."""
    wheels = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        wheels.append(write_sdk_wheel(tmp_path / name))
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
    assert "osmosis_ai/rollout/container/runner.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_packages_are_found_in_both_layouts(project, tmp_path):
    """Exactly one; directories that are no sources do not count."""
    assert find_package(project) == "my_agent"
    assert find_package_dir(project) == project / "src" / "my_agent"
    assert package_roots(project) == (project, project / "src")
    (project / "second").mkdir()
    (project / "second" / "__init__.py").touch()
    with pytest.raises(ValueError, match="my_agent, second"):
        find_package(project)
    assert find_package_dir(project, "second") == project / "second"
    with pytest.raises(ValueError, match="found: none"):
        find_package(tmp_path / "project" / "src" / "my_agent")


def test_the_project_of_a_class_is_above_its_package():
    """And something that comes from no file has none."""
    assert project_dir_for(type("X", (), {"__module__": "osmosis.pure.bundle"})) == Path(__file__).parents[2]
    with pytest.raises(ValueError, match="code_dir"):
        project_dir_for(type("X", (), {"__module__": "nowhere"}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda project: (project / "pyproject.toml").unlink(), "has no pyproject.toml"),
        (lambda project: (project / "pyproject.toml").write_text("["), "cannot be read"),
        (lambda project: (project / "src" / "link").symlink_to("/usr"), "is a link to a directory"),
        (lambda project: (project / "src" / "link").symlink_to("/nowhere"), "leads nowhere"),
    ],
)
def test_what_cannot_be_bundled_is_told(project, change, said):
    """Before anything is built."""
    change(project)
    with pytest.raises(ValueError, match=said):
        build(project)


def test_dynamic_dependencies_cannot_be_replaced(project):
    """Only the build knows them."""
    text = PYPROJECT.replace('dependencies = ["osmosis-ai[server]>=0.3", "idna"]', 'dynamic = ["dependencies"]')
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(ValueError, match="dynamic dependencies"):
        build(project, deps=["idna==1"])


def test_a_build_that_fails_says_what_uv_said(project):
    """In an error of its own."""
    (project / "pyproject.toml").write_text(PYPROJECT.replace('build-backend = "hatchling.build"', 'build-backend = "no.such"'))
    with pytest.raises(BundleBuildError, match="uv could not build"):
        build(project)


def test_other_wheels_are_no_bundles(tmp_path):
    """Nor are other files."""
    wheel = write_sdk_wheel(tmp_path)
    with pytest.raises(ValueError, match="not a bundle"):
        inspect_bundle(wheel)
    with pytest.raises(ValueError, match="not a wheel"):
        inspect_bundle(__file__)
