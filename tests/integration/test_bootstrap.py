"""The bootstrap: its exit code is the recipe's, and a failure is one clear message."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import bootstrap

WITHOUT_NETWORK = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout at a path with spaces, with a recipe that fails in its own way."""
    folder = tmp_path / "a folder with spaces"
    for name in bootstrap.INPUTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bootstrap.ROOT / name, folder / name)
    (folder / "justfile").write_text('recipe *arguments:\n    @echo "recipe: {{ arguments }}"\n    @exit 7\n')
    return folder


def run(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the bootstrap of `checkout` from another folder, with the test's own Python."""
    command = [sys.executable, str(checkout / "scripts" / "bootstrap.py"), *arguments]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")} | environment
    return subprocess.run(command, cwd=checkout.parent, env=variables, capture_output=True, text=True, check=False)


def make_ready(checkout: Path) -> Path:
    """Lay out what a finished set-up leaves behind, without the packages, and give the stamp's path."""
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").touch()
    (scripts / "just").symlink_to(Path(sys.executable).with_name("just"))
    module = runpy.run_path(str(checkout / "scripts" / "bootstrap.py"))
    stamp: Path = module["STAMP"]
    stamp.write_text(module["wanted_stamp"]())
    return stamp


def test_a_ready_checkout_goes_straight_to_the_recipe(checkout: Path):
    """With a fitting stamp nothing is installed; the recipe's arguments, output and exit code pass through."""
    make_ready(checkout)
    done = run(checkout, "recipe", "one", "two", **WITHOUT_NETWORK)
    assert (done.returncode, done.stdout) == (7, "recipe: one two\n")


@pytest.mark.parametrize("name", bootstrap.INPUTS)
def test_changed_pins_set_up_again(checkout: Path, name: str):
    """A change of any input makes the stamp stale."""
    stamp = make_ready(checkout)
    with (checkout / name).open("a") as file:
        file.write("\n# changed\n")
    module = runpy.run_path(str(checkout / "scripts" / "bootstrap.py"))
    assert not module["is_ready"](module["wanted_stamp"]())
    assert stamp.exists()


@pytest.mark.slow
def test_without_a_network_it_says_so(checkout: Path):
    """A failed download ends with the step's name and what to do, not a traceback, and leaves no stamp."""
    done = run(checkout, "recipe", **WITHOUT_NETWORK)
    assert done.returncode == 1
    assert "bootstrap: could not install uv and just" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert "bootstrap.py" not in done.stderr  # no traceback
    assert not (checkout / ".venv" / ".bootstrap-stamp").exists()


def test_an_old_python_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Too old a Python is named, with what is needed instead."""
    monkeypatch.setattr(bootstrap, "OLDEST", (99, 0))
    with pytest.raises(SystemExit, match=r"Python 99\.0 or later is needed"):
        bootstrap.main()


def test_another_environment_does_not_shadow(monkeypatch: pytest.MonkeyPatch):
    """Children see `.venv` first, no other environment's variables, and may not download a Python."""
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("VIRTUAL_ENV", "elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    environment = bootstrap.child_environment()
    assert "elsewhere" not in environment.values()
    assert environment["PATH"].startswith(str(bootstrap.SCRIPTS))
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"
    assert environment["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
