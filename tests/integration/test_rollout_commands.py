"""`osmosis rollout init` and `osmosis rollout validate` as real processes (E20, E21; rollout_protocol section 18)."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from osmosis.pure.config import decode_config
from tests.integration.workspaces import CHECKOUT, make_workspace


def osmosis(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `osmosis` in a directory."""
    command = [sys.executable, "-m", "osmosis.shell.cli.main", *words]
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"} | variables
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)


def envelope(ended: subprocess.CompletedProcess[str]):
    """The JSON document on standard output."""
    return json.loads(ended.stdout)


@pytest.fixture
def root(tmp_path):
    """An empty workspace."""
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "configs" / "eval").mkdir(parents=True)
    return tmp_path


@pytest.mark.slow
def test_a_package_installed_from_a_checkout_points_at_it_too(root, tmp_path_factory):
    """After `pip install CHECKOUT`, the rollout's environment takes the SDK from where the command came from (E21)."""
    place = tmp_path_factory.mktemp("installed")
    uv = str(Path(sys.executable).with_name("uv"))
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--python", sys.executable, "--target", str(place)]
    subprocess.run([uv, "pip", "install", *flags, str(CHECKOUT)], check=True)
    ended = osmosis(root, "rollout", "init", "hello", PYTHONPATH=str(place))
    assert ended.returncode == 0, ended.stderr
    project = tomllib.loads((root / "rollouts" / "hello" / "pyproject.toml").read_text())
    assert project["tool"]["uv"]["sources"]["osmosis-ai"] == {"path": str(CHECKOUT), "editable": True}


def test_init_writes_a_rollout_that_points_at_this_checkout(root):
    """Six files, each of which its reader accepts."""
    ended = osmosis(root, "rollout", "init", "hello", "--json")
    assert ended.returncode == 0, ended.stderr
    resource = envelope(ended)["resource"]
    files = [str(Path(path).relative_to(root)) for path in resource["files"]]
    assert files == [
        "rollouts/hello/main.py",
        "rollouts/hello/pyproject.toml",
        "rollouts/hello/README.md",
        "configs/eval/hello.toml",
        "configs/training/hello.toml",
        "data/hello.jsonl",
    ]
    texts = {path: (root / path).read_text() for path in files}
    assert not any("<your-rollout>" in text for text in texts.values())
    ast.parse(texts["rollouts/hello/main.py"])
    project = tomllib.loads(texts["rollouts/hello/pyproject.toml"])
    assert project["tool"]["uv"]["sources"]["osmosis-ai"] == {"path": str(CHECKOUT), "editable": True}
    assert "osmosis-ai[server]>=0.3.10,<0.4" in project["project"]["dependencies"]
    tomllib.loads(texts["configs/training/hello.toml"])
    config = decode_config(texts["configs/eval/hello.toml"].encode(), "hello.toml")
    assert config.experiment.rollout == "hello"
    assert [sorted(json.loads(line)) for line in texts["data/hello.jsonl"].splitlines()] == [
        ["ground_truth", "user_prompt"]
    ] * 4
    assert {path.name for path in (root / "rollouts").iterdir()} == {"hello"}


def test_init_replaces_only_when_asked(root):
    """What is there already is named and kept; with --force the old directory goes as a whole."""
    (root / "rollouts" / "hello").mkdir()
    (root / "rollouts" / "hello" / "mine.py").write_text("x = 1\n")
    (root / "configs" / "eval" / "hello.toml").write_text("# mine\n")
    refused = osmosis(root, "rollout", "init", "hello", "--json")
    assert refused.returncode == 1
    error = json.loads(refused.stderr)["error"]
    assert error["code"] == "CONFLICT"
    assert error["details"]["conflicts"] == ["rollouts/hello/", "configs/eval/hello.toml"]
    assert "osmosis rollout init hello --force" in refused.stderr
    assert {path.name for path in (root / "rollouts" / "hello").iterdir()} == {"mine.py"}
    assert (root / "configs" / "eval" / "hello.toml").read_text() == "# mine\n"
    assert not (root / "data").exists()
    forced = osmosis(root, "rollout", "init", "hello", "--force", "--json")
    assert forced.returncode == 0, forced.stderr
    assert envelope(forced)["resource"]["replaced"] == ["rollouts/hello/", "configs/eval/hello.toml"]
    assert {path.name for path in (root / "rollouts" / "hello").iterdir()} == {"main.py", "pyproject.toml", "README.md"}
    assert {path.name for path in (root / "rollouts").iterdir()} == {"hello"}


@pytest.mark.parametrize("target", ["rollouts/hello", "configs/eval/hello.toml"])
def test_force_does_not_follow_links(root, target):
    """A link in the place of a target is nobody's to replace, and what it points to stays as it is."""
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    (root / target).symlink_to(elsewhere)
    ended = osmosis(root, "rollout", "init", "hello", "--force")
    assert ended.returncode == 1
    assert "is not replaced" in ended.stderr
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
    assert (root / target).is_symlink()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("init", "Hello"), "lower-case letters"),
        (("init", "default"), "reserved"),
        (("validate", "absent"), "There is no rollout absent"),
        (("validate", "../x"), "is not the name of a rollout"),
    ],
)
def test_bad_names(root, words, said):
    """One message, no traceback, nothing written."""
    ended = osmosis(root, "rollout", *words)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list((root / "rollouts").iterdir()) == []


def test_init_needs_a_workspace(tmp_path):
    """And says what one is."""
    ended = osmosis(tmp_path, "rollout", "init", "hello")
    assert ended.returncode == 1
    assert "is not inside a workspace" in ended.stderr


@pytest.mark.slow
def test_a_new_rollout_is_valid(root):
    """Straight after init, with no key and no model: environment, entrypoint, server, row."""
    assert osmosis(root, "rollout", "init", "hello").returncode == 0
    ended = osmosis(root, "rollout", "validate", "hello", "--json", OPENAI_API_KEY="")
    assert ended.returncode == 0, ended.stderr
    resource = envelope(ended)["resource"]
    assert [(check["name"], check["status"]) for check in resource["checks"]] == [
        ("environment", "passed"),
        ("entrypoint", "passed"),
        ("server", "passed"),
        ("row", "passed"),
    ]
    assert resource["valid"] is True
    assert resource["model_calls"] == 1
    assert resource["checks"][3]["detail"] == "reward 1, 1 model call"


@pytest.fixture
def workspace(tmp_path, rollout_environment):
    """A workspace whose rollout's environment is there already."""
    return make_workspace(tmp_path / "workspace", "http://127.0.0.1:9/v1", rollout_environment)


def validate(workspace, *words):
    """Validate the workspace's rollout, and what was found."""
    ended = osmosis(workspace.root, "rollout", "validate", "echo", *words, "--json", **workspace.environment)
    assert ended.stdout, ended.stderr
    return ended, envelope(ended)["resource"]


@pytest.mark.parametrize(
    ("main", "at", "said"),
    [
        ("import no_such_module\n", "entrypoint", "No module named 'no_such_module'"),
        ("raise SystemExit('no settings')\n", "entrypoint", "no settings"),
        ("x = 1\n", "server", "ended before it was ready"),
    ],
)
@pytest.mark.slow
def test_the_first_check_that_fails_is_the_last(workspace, main, at, said):
    """Its own words are shown, and the exit code tells."""
    (workspace.project / "main.py").write_text(main)
    ended, resource = validate(workspace)
    assert ended.returncode == 1
    *passed, failed = resource["checks"]
    assert {check["status"] for check in passed} <= {"passed"}
    assert (failed["name"], failed["status"]) == (at, "failed")
    assert said in failed["detail"]
    assert resource["valid"] is False


@pytest.mark.slow
def test_a_row_that_fails_is_told(workspace):
    """From a dataset of one's own; the workflow's message is the detail."""
    workspace.write_rows("raise on purpose")
    ended, resource = validate(workspace, "--dataset-file", "data/words.jsonl")
    assert ended.returncode == 1
    assert resource["checks"][-1] == {
        "name": "row",
        "status": "failed",
        "detail": "validation_error: raise on purpose (0 model calls)",
    }


@pytest.mark.slow
def test_an_environment_that_does_not_install(workspace):
    """uv's own words."""
    pyproject = workspace.project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('">=3.11"', '">=99"'))
    ended, resource = validate(workspace)
    assert ended.returncode == 1
    (check,) = resource["checks"]
    assert (check["name"], check["status"]) == ("environment", "failed")
    assert "uv sync failed" in check["detail"]
