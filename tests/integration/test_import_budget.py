"""Start-up stays quick because little is imported; modules are counted, since times depend on the machine (issue 9)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset(
    ("polars", "litellm", "aiohttp", "fastapi", "starlette", "pydantic", "uvicorn", "httpx", "openai", "numpy", "pygments")
)

BUDGETS = [
    (["--version"], 60, {"cyclopts", "rich", "msgspec", *HEAVY}),
    (["eval", "run", "--help"], 85, {"cyclopts", "rich", "msgspec", *HEAVY}),
    (["eval"], 85, {"cyclopts", "rich", "msgspec", *HEAVY}),
    (["eval", "run", "x", "--help"], 300, {"rich", *HEAVY}),
    (["eval", "run", "--help", "x"], 300, {"rich", *HEAVY}),
    (["eval", "list", "--json"], 330, {"rich", *HEAVY}),
    (["eval", "list"], 400, HEAVY),
    (["eval", "logs", "x", "--json"], 330, {"rich", *HEAVY}),
    (["eval", "info", "x", "--json"], 330, {"rich", *HEAVY}),
]
"""Arguments, how many modules may be loaded in the end, and which may not be among them."""

COUNT = """
import sys
from osmosis.shell.cli.main import main
main(sys.argv[1:])
print("\\n".join(sys.modules), file=sys.stderr)
"""


def loaded(arguments: list[str], directory: Path) -> set[str]:
    """The modules that are loaded when the command has ended."""
    (directory / "configs/eval").mkdir(parents=True, exist_ok=True)
    (directory / "rollouts").mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-c", COUNT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=600, check=True)
    return set(done.stderr.splitlines())


@pytest.mark.parametrize(("arguments", "most", "forbidden"), BUDGETS)
def test_the_import_budget(arguments: list[str], most: int, forbidden: set[str], tmp_path: Path) -> None:
    """No more modules than the budget, and none of the heavy ones. `-I` leaves out what this machine adds to Python."""
    modules = loaded(arguments, tmp_path)
    assert "osmosis.shell.cli.main" in modules
    assert not modules & forbidden
    assert len(modules) <= most, f"{len(modules)} modules"


def test_the_version_does_not_load_the_command_framework(tmp_path: Path) -> None:
    """The fast path: what parsing a line loads, `--version` does not."""
    assert "cyclopts" in loaded(["eval", "list"], tmp_path)
    assert "cyclopts" not in loaded(["--version"], tmp_path)
