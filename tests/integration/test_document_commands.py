"""Every snippet of the documents is executed: what a page tells a reader to type is typed here (issue 9).

The tutorial and the Python of the pages are in `test_documents` and `test_document_snippets`; here are the shell snippets of
the other pages, and the proof that no page has a snippet that nobody runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from osmosis_ai.testing import FakeModelServer, judge_reply
from scripts.generate_reference import PART
from tests.integration.test_document_snippets import PAGES as PYTHON_PAGES
from tests.integration.workspaces import CHECKOUT

DOCS = CHECKOUT / "docs"
EXAMPLE = CHECKOUT / "examples" / "workspace" / "README.md"
PAGES = sorted([*DOCS.glob("*.md"), CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", EXAMPLE])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}\S.*\n)+")


def snippets(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language, in order; generated parts are left out."""
    return [text for kind, text in _BLOCK.findall(PART.sub("", page.read_text())) if kind == language]


def typed(script: str, directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Type `script` into a shell in `directory`, as a reader would who has installed Osmosis. It must succeed."""
    tools = str(Path(sys.executable).parent)
    places = ("UV_", "PIP_", "SSL_", "XDG_CACHE")
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "TMPDIR") or name.startswith(places)}
    environment = {**kept, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT), **variables}
    command = ["bash", "-ec", script]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


EXECUTED: Mapping[str, Mapping[str, str]] = {
    "python": dict.fromkeys(PYTHON_PAGES, "test_document_snippets")
    | {"notebooks.md": "test_documents", "tutorial.md": "test_documents", "sandboxes.md": "harbor/test_page"},
    "sh": {
        "tutorial.md": "test_documents",
        "README.md": "here; its first block is what CI runs, which `just documents` checks",
        **dict.fromkeys(("ci.md", "command-line.md", "remote-rollout.md", "rewards.md"), "here"),
        **dict.fromkeys(
            ("rollouts.md", "datasets.md", "models.md"), "here, one after the other, in a workspace with a rollout sums"
        ),
    },
    "yaml": {"ci.md": "here"},
    "toml": {"file-formats.md": "here", "sandboxes.md": "harbor/test_page"},
    "dockerfile": {"sandboxes.md": "harbor/test_page"},
}
"""Which test runs the snippets of which page. `json` shows output, `text` what cannot be run, such as an installation."""


def test_every_snippet_is_executed_by_a_test() -> None:
    """No page shows code that nobody runs, and none hides it in an indented block."""
    for page in PAGES:
        text = PART.sub("", page.read_text())
        languages = {kind for kind, _ in _BLOCK.findall(text)} - {"json", "text", ""}
        assert [kind for kind in sorted(languages) if page.name not in EXECUTED[kind]] == [], page.name
        assert _INDENTED.findall(_BLOCK.sub("", text)) == [], page.name


def test_the_shell_completion_page(tmp_path: Path) -> None:
    """Bash completes after the first line; zsh and fish get their files."""
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    (script,) = snippets(DOCS / "command-line.md", "sh")
    done = typed(f'fpath=(x "$HOME")\n{script}\ncomplete -p osmosis', tmp_path, HOME=str(tmp_path))
    assert "osmosis" in done.stdout
    assert "#compdef osmosis" in (tmp_path / "_osmosis").read_text()
    assert "complete" in (tmp_path / ".config" / "fish" / "completions" / "osmosis.fish").read_text()


def test_the_schema_that_a_config_may_name(tmp_path: Path) -> None:
    """The file that the page tells editors about is the one that is there."""
    (line,) = snippets(DOCS / "file-formats.md", "toml")
    name = line.removeprefix("#:schema ./").strip()
    assert (DOCS / "schemas" / "files" / name).is_file()


def test_the_rubric_command(tmp_path: Path) -> None:
    """The page's command judges conversations three times each and writes its output."""
    conversation = {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
    (tmp_path / "conversations.jsonl").write_text(f"{json.dumps(conversation)}\n")
    (tmp_path / "rubric.txt").write_text("Is it right?\n")
    (script,) = snippets(DOCS / "rewards.md", "sh")
    with FakeModelServer(judge_reply(0.5)) as server:
        typed(script, tmp_path, **server.environment)
    written = json.loads((tmp_path / "judged.json").read_text())
    assert [record["scores"] for record in written["records"]] == [[0.5, 0.5, 0.5]]
    assert len(server.requests) == 3


@pytest.mark.slow
def test_the_agent_loop_is_checked_and_served(tmp_path: Path) -> None:
    """The page's loop passes `validate-loop`, and `serve-loop` answers until it is interrupted."""
    page = DOCS / "remote-rollout.md"
    (tmp_path / "agent.py").write_text(snippets(page, "python")[0])
    (script,) = snippets(page, "sh")
    check, serve = script.splitlines()
    typed(check, tmp_path)
    words = serve.split()
    words[words.index("--port") + 1] = "0"
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT), "OSMOSIS_ROLLOUT_API_KEY": "k" * 32}
    command = [str(Path(sys.executable).with_name(words[0])), *words[1:], "--plain"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = ""
        while (address := re.search(r"http://127\.0\.0\.1:[1-9]\d*|http://0\.0\.0\.0:[1-9]\d*", said)) is None:
            line = server.stderr.readline()
            assert line, said
            said += line
        url = address[0].replace("0.0.0.0", "127.0.0.1")
        with urllib.request.urlopen(f"{url}/health", timeout=600) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=600)


def answer(body: dict) -> str:
    """What a small model would say in the example workspace: a sum, then the calculator's result."""
    numbers = re.findall(r"\d+", json.dumps(body["messages"][1:]))
    wanted = body.get("response_format", {}).get("json_schema", {}).get("name")
    if wanted == "expression":
        return json.dumps({"expression": " + ".join(numbers[:2])})
    return json.dumps({"answer": int(numbers[-1])}) if wanted else "Here I am."


def example_workspace(place: Path) -> Path:
    """A copy of the example workspace whose rollout still uses this checkout."""
    kept = shutil.ignore_patterns(".osmosis", ".venv", "uv.lock", "__pycache__")
    shutil.copytree(CHECKOUT / "examples" / "workspace", place, ignore=kept)
    project = place / "rollouts" / "word-problems" / "pyproject.toml"
    text = project.read_text()
    assert '"../../../.."' in text
    project.write_text(text.replace('"../../../.."', json.dumps(str(CHECKOUT))))
    return place


@pytest.mark.slow
def test_the_page_on_ci_can_be_typed(tmp_path: Path) -> None:
    """Record, replay and keep the baseline on a machine with a model; then every step of the workflow without one."""
    workspace = example_workspace(tmp_path / "workspace")
    record, keep = snippets(DOCS / "ci.md", "sh")
    (workflow,) = snippets(DOCS / "ci.md", "yaml")
    steps = [re.sub("^ {10}", "", step, flags=re.MULTILINE) for step in re.findall(r"run: \|\n((?: {10}.*\n)+)", workflow)]
    assert len(steps) == 3
    with FakeModelServer(answer) as server:
        typed(record, workspace, **server.environment)
    asked = len(server.requests)
    typed(keep, workspace)
    for step in steps:
        done = typed(step, workspace)
    assert "passed" in done.stdout.lower()
    assert (workspace / "junit.xml").is_file()
    assert len(server.requests) == asked > 256


@pytest.mark.slow
def test_the_example_can_be_typed(tmp_path: Path) -> None:
    """The replay, and then a model of one's own at the page's address."""
    workspace = example_workspace(tmp_path / "workspace")
    replay, own = snippets(EXAMPLE, "sh")
    typed(replay, workspace)
    with FakeModelServer(answer) as server:
        typed(own.replace("http://127.0.0.1:8080/v1", server.base_url), workspace)
    assert len(server.requests) > 256
    assert len(list((workspace / ".osmosis" / "evals").glob("*/metrics.json"))) == 2


@pytest.mark.slow
def test_the_readme_can_be_typed(tmp_path: Path) -> None:
    """A new rollout in an empty workspace, evaluated."""
    for folder in ("configs/eval", "rollouts"):
        (tmp_path / folder).mkdir(parents=True)
    first, second = snippets(CHECKOUT / "README.md", "sh")
    assert "bootstrap.py" in first
    with FakeModelServer("4") as server:
        typed(second, tmp_path, **server.environment)
    assert (tmp_path / ".osmosis" / "evals" / "first-try" / "metrics.json").is_file()


@pytest.mark.slow
def test_the_pages_on_rollouts_datasets_and_models_can_be_typed(tmp_path: Path) -> None:
    """In the workspace of the tutorial, each page's commands succeed and do what the page says they do."""
    for folder in ("configs/eval", "rollouts"):
        (tmp_path / folder).mkdir(parents=True)
    typed("osmosis rollout init sums", tmp_path)
    with FakeModelServer("It is 42.") as server:
        for name in ("rollouts.md", "datasets.md", "models.md"):
            done = typed("\n".join(snippets(DOCS / name, "sh")), tmp_path, **server.environment)
    runs = tmp_path / ".osmosis" / "evals"
    lines = {
        name: (runs / name / "index.jsonl").read_text().count("\n") for name in ("some", "twice", "piped", "priced", "kept")
    }
    assert lines == {"some": 3, "twice": 8, "piped": 8, "priced": 8, "kept": 8}
    assert json.loads((runs / "priced" / "metrics.json").read_bytes())["summary"]["cost_usd"] > 0
    assert "8 recorded calls" in done.stdout
