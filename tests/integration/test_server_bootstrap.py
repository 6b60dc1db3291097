"""The bootstrap as `uv run` starts it in a rollout's environment (rollout_protocol section 16)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis.pure.protocol import INSTANCE_ID_ENV, LEAVE_ENV, LIFELINE_ENV
from tests.integration.rollout_server_process import BOOTSTRAP

REPORT = """
import json, os, sys
import neighbour
print(json.dumps({
    "name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(),
    "ours": [entry for entry in sys.path if os.path.exists(os.path.join(entry, "server_bootstrap.py"))],
    "neighbour": neighbour.VALUE, "lifeline": os.environ.get("_OSMOSIS_ROLLOUT_LIFELINE_FD"),
    "frameworks": sorted({"fastapi", "osmosis", "osmosis_ai"} & set(sys.modules)),
}))
"""

SERVE_NOTHING = """
import signal, sys
def stop(*_):
    print("stopping", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def rollout(tmp_path):
    """A rollout directory; write `main.py` into it."""
    directory = tmp_path / "rollout"
    directory.mkdir()
    (directory / "pyproject.toml").write_text('[project]\nname = "rollout"\nversion = "0"\nrequires-python = ">=3.11"\n')
    (directory / "neighbour.py").write_text("VALUE = 'found'\n")
    return directory


def command(rollout: Path) -> list[str]:
    """`uv run`, as the runner calls it."""
    uv = Path(sys.executable).with_name("uv")
    found = str(uv) if uv.exists() else shutil.which("uv")
    assert found, "uv is part of the development environment"
    return [found, "run", "--no-sync", "--project", str(rollout), str(BOOTSTRAP), str(rollout / "main.py")]


def environment(**extra: str) -> dict[str, str]:
    """This process's environment, with our own virtual environment as the rollout's."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    return inherited | {"UV_PROJECT_ENVIRONMENT": sys.prefix, INSTANCE_ID_ENV: "i-1", "PYTHONUNBUFFERED": "1"} | extra


def test_the_entrypoint_runs_as_if_started_by_itself(rollout):
    """`__main__`, its own argv and directory first on the path, ours not on it, and nothing of ours imported."""
    (rollout / "main.py").write_text(REPORT)
    finished = subprocess.run(command(rollout), cwd=rollout, env=environment(), capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    main = str(rollout / "main.py")
    assert json.loads(finished.stdout) == {
        "name": "__main__",
        "file": main,
        "argv": [main],
        "path": str(rollout),
        "cwd": str(rollout),
        "ours": [],
        "neighbour": "found",
        "lifeline": None,
        "frameworks": [],
    }


def test_the_server_ends_when_its_runner_dies(rollout):
    """The end of the runner's pipe reaches the server through `uv run` and stops it as SIGTERM does."""
    (rollout / "main.py").write_text(SERVE_NOTHING)
    lifeline, ours = os.pipe()
    process = subprocess.Popen(
        command(rollout),
        cwd=rollout,
        env=environment(**{LIFELINE_ENV: str(lifeline)}),
        pass_fds=(lifeline,),
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(lifeline)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.poll() is None
        os.close(ours)  # What the kernel does for a runner that was killed.
        output, _ = process.communicate(timeout=300)
        assert output == "stopping\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("lifeline", ["", "nonsense", "987654", "0"])
def test_without_a_usable_lifeline_the_entrypoint_just_runs(rollout, lifeline):
    """A descriptor that is not a pipe is left alone."""
    (rollout / "main.py").write_text("print('ran')\n")
    finished = subprocess.run(
        [sys.executable, str(BOOTSTRAP), str(rollout / "main.py")],
        env=environment(**{LIFELINE_ENV: lifeline}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (0, "ran\n")


@pytest.mark.parametrize(("arguments", "instance_id"), [([], "i-1"), (["a", "b"], "i-1"), (["a"], "")])
def test_it_is_not_for_people(arguments, instance_id):
    """Without exactly one argument and an instance id it says how it is started."""
    finished = subprocess.run(
        [sys.executable, str(BOOTSTRAP), *arguments],
        env=environment(**{INSTANCE_ID_ENV: instance_id}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert finished.stderr.startswith("usage: ")
    assert "Traceback" not in finished.stderr


NOISY = "print('noisy', flush=True)\nVALUE = 1\n"

HEADS = {
    "import noisy": True,
    "'''What it does.'''\nfrom __future__ import annotations\nfrom noisy import VALUE": True,
    "import json, noisy": True,
    "import no_such_module\nimport noisy": False,
    "import neighbour\nimport noisy": False,
    "from . import noisy": False,
    "import leaves\nimport noisy": True,
    "import os\nos.environ['NOISE'] = 'no'\nimport noisy": False,
    "import noisy\nthis is no Python": False,
}
"""How entrypoints begin, and whether the installed package is imported before the runner says so."""


@pytest.mark.parametrize("head", HEADS)
def test_packages_that_the_entrypoint_imports_first_are_imported_before_leave(rollout, tmp_path, head):
    """Whatever is installed and decides nothing. Nothing of the rollout runs without leave, and then the process ends well."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "noisy.py").write_text(NOISY)
    (packages / "leaves.py").write_text("import sys; assert len(sys.argv) == 1; sys.exit(3)\n")
    (rollout / "neighbour.py").write_text("print('neighbour', flush=True)\n")
    (rollout / "main.py").write_text(head + "\nprint('main', flush=True)\n")
    leave, ours = os.pipe()
    os.close(ours)
    finished = subprocess.run(
        [sys.executable, str(BOOTSTRAP), str(rollout / "main.py")],
        cwd=rollout,
        env=environment(PYTHONPATH=str(packages), **{LEAVE_ENV: str(leave)}),
        pass_fds=(leave,),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(leave)
    assert (finished.returncode, finished.stdout) == (0, "noisy\n" * HEADS[head]), finished.stderr


def test_after_leave_the_entrypoint_runs_from_its_beginning(rollout):
    """What was imported meanwhile is not imported twice, and the garbage collector is at work again."""
    (rollout / "main.py").write_text("import gc, neighbour, sys\nprint(gc.isenabled(), 'uvicorn' in sys.modules)\n")
    leave, ours = os.pipe()
    os.write(ours, b"x")
    os.close(ours)
    finished = subprocess.run(
        [sys.executable, str(BOOTSTRAP), str(rollout / "main.py")],
        cwd=rollout,
        env=environment(**{LEAVE_ENV: str(leave)}),
        pass_fds=(leave,),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(leave)
    assert (finished.returncode, finished.stdout) == (0, "True True\n"), finished.stderr
