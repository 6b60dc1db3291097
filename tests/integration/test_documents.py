"""The documents hold: the tutorial is typed as it stands, commands parse, every file's keys are named (issue 9)."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis.pure.audit import OWN_FILES
from osmosis.shell.cli.app import build_app
from osmosis.shell.cli.surroundings import EXTRA_OF
from scripts.generate_reference import PART, PARTS, pages
from tests.integration.stored_runs import write_workspace
from tests.integration.workspaces import CHECKOUT
from tests.strategies.cli_tree import COMMANDS
from tests.strategies.comparisons import stored_run

DOCS = CHECKOUT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), CHECKOUT / "README.md", CHECKOUT / "examples" / "workspace" / "README.md"])

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?: {4})?(osmosis (?:eval|rollout|cassette|doctor|completion)\b[^\n|&`#>]*)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_are_those_of_the_program(page: Path) -> None:
    """Each command that a page shows on a line of its own is accepted by the real parser. Generated parts come from it."""
    app = build_app()
    text = PART.sub("", page.read_text()).replace("\\\n", " ")
    for line in _COMMAND.findall(text):
        words = [word for word in line.split()[1:] if word not in ("--json", "--plain")]
        if "..." in line or any(word.startswith(("[", "<")) for word in words):
            continue
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", [DOCS / "tutorial.md", CHECKOUT / "README.md"], ids=lambda path: path.stem)
def test_the_installation_brings_what_the_page_goes_on_to_use(page: Path) -> None:
    """Whoever installs the extras that the page names can type its commands: runs, and reports with their pictures."""
    (extras,) = re.findall(r'^pip install "\.\[(.*)\]"', page.read_text(), re.MULTILINE)
    assert set(extras.split(",")) >= set(EXTRA_OF.values())


@pytest.mark.parametrize("page", [path for path, _ in pages()], ids=lambda path: path.stem)
def test_generated_parts_are_current(page: Path) -> None:
    """Commands, exit codes, envelopes and the keys of files are what the code says now; `just golden` writes them."""
    assert page.read_text() == dict(pages())[page]


def test_every_generated_part_is_shown() -> None:
    """No part is drawn that no page shows."""
    shown = {name for path in DOCS.glob("*.md") for name in re.findall("<!-- begin ([^>]+) -->", path.read_text())}
    assert shown == PARTS.keys()


def test_the_migration_page_knows_the_commands() -> None:
    """Every command of the tree is named there, and none of those that are said to be missing exists."""
    page = (DOCS / "migration.md").read_text()
    table = page[page.index("## Commands") : page.index("## A rollout's environment")]
    there, _, missing = table.partition("| `osmosis auth`")
    names = {name.split()[-1] for name in COMMANDS} - {"inspect", "prune", "diff"} | {"cassette"}
    assert {name for name in names if f"{name}`" not in there} == set()
    absent = re.findall(r"`(?:osmosis |eval |rollout )*([a-z-]+)`", missing.partition(" not there yet")[0])
    assert len(absent) >= 12
    assert set(absent) & {path[0] for path in COMMANDS.values()} == set()
    assert {"submit", "upload", "retry", "download", "stop"} & {path[-1] for path in COMMANDS.values()} == set()


def test_every_file_of_a_run_is_named() -> None:
    """No file that a run has is missing from the page."""
    page = (DOCS / "file-formats.md").read_text()
    assert [name for name in (*OWN_FILES, "trajectories/", "artifacts/", "report.html") if f"`{name}" not in page] == []


def test_the_notebook_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of the page on notebooks run in order, in a workspace with a run called `first`."""
    from tests.browser.test_report import trajectory

    run = stored_run("first", [[1.0, 0.0], [0.0, 1.0]])
    workspace = write_workspace(tmp_path / "workspace", [run])
    copies = workspace / ".osmosis" / "evals" / "first" / "trajectories"
    copies.mkdir()
    (copies / "row_0_run_0.json").write_bytes(trajectory(run.index[0].rollout_id, "words"))
    program = tmp_path / "page.py"
    program.write_text("\n".join(_PYTHON.findall((DOCS / "notebooks.md").read_text())))
    monkeypatch.chdir(workspace)
    names = runpy.run_path(str(program))
    assert names["forest"].to_dict()["layer"]
    assert names["samples"].collect().height == 4


@pytest.mark.slow
def test_the_tutorial_can_be_typed(tmp_path: Path) -> None:
    """The commands of the tutorial succeed one after the other, with the stand-in model of the page answering."""
    page = (DOCS / "tutorial.md").read_text()
    (stand_in,) = _PYTHON.findall(page)
    (tmp_path / "stand_in.py").write_text(stand_in)
    tools = Path(sys.executable).parent
    places = ("UV_", "PIP_", "SSL_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "TMPDIR") or name.startswith(places)}
    environment = kept | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen(
        [sys.executable, "stand_in.py"], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as model:
        assert model.stdout is not None
        exports = model.stdout.readline() + model.stdout.readline()
        script = "set -e\n" + exports + "\n".join(_SHELL.findall(page))
        typed = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        model.communicate("\n")
    assert typed.returncode == 0, typed.stdout + typed.stderr
    assert "nothing to do" in typed.stdout.lower() or "already" in typed.stdout.lower(), typed.stdout
    runs = tmp_path / "sums-workspace" / ".osmosis" / "evals"
    assert {path.name for path in runs.iterdir()} >= {"first", "lenient", "recorded", "replayed"}
    assert (runs / "first" / "report.html").is_file()
