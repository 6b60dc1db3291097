"""The page on sandboxes works as it stands: its project, agent, task and entrypoint, in a real sandbox (issue 9)."""

from __future__ import annotations

import re
import shutil

from osmosis_ai.testing import FakeModelServer
from tests.harbor.harbor_workspace import HarborWorkspace
from tests.integration.workspaces import CHECKOUT

PAGE = CHECKOUT / "docs" / "sandboxes.md"
PROGRAM = "print(6 * 7)"


def block(language: str, number: int = 0) -> str:
    """A block of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[number]


async def test_the_page_on_sandboxes(in_bubblewrap: HarborWorkspace) -> None:
    """The model's program runs in the sandbox, the grader scores it there, and the program is among the artifacts."""
    workspace = in_bubblewrap.workspace
    project = workspace.project
    shutil.rmtree(project / "probe")
    described, _, settings = (project / "pyproject.toml").read_text().partition("[tool.uv]")
    # Harbor is pinned and installed already, without the clients of its providers.
    group = re.findall(r"^dev = .*$", described, re.MULTILINE)[0]
    page_project = re.sub(r"^dev = .*$", lambda _: group, block("toml", 0), flags=re.MULTILINE)
    for name, text in {
        "pyproject.toml": f"{page_project}\n[tool.uv]{settings}",
        "main.py": block("python", 1),
        "agent/__init__.py": "",
        "agent/work.py": block("python", 0),
        "task/instruction.md": "",
        "task/task.toml": block("toml", 1),
        "task/environment/Dockerfile": block("dockerfile"),
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    workspace.write_rows("right", "wrong", labels={"right": "42", "wrong": "43"})
    with FakeModelServer(PROGRAM) as model:
        workspace.environment.update(model.environment)
        ended = await workspace.run("--name", "page")
    assert ended.code == 0, ended.said
    assert [row["reward"] for row in workspace.index("page")] == [1.0, 0.0]
    artifacts = workspace.run_directory("page") / "artifacts"
    assert [path.read_text() for path in sorted(artifacts.rglob("program.py"))] == [PROGRAM, PROGRAM]
