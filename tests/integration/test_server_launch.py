"""The rollout server's process may begin before anybody was asked anything, and then nothing has happened (decision 0061)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from osmosis.pure.protocol import ARTIFACT_ROOT_ENV, LEAVE_ENV
from osmosis.shell.evaluation.head_start import head_start
from osmosis.shell.evaluation.preparation import Preparation, prepare
from osmosis.shell.evaluation.process_identity import group_alive
from osmosis.shell.evaluation.request import RunRequest
from osmosis.shell.evaluation.rollout_environment import find_uv, leave_stamp
from osmosis.shell.evaluation.server_launch import early_standby
from tests.integration.workspaces import Workspace

SECRET = "ROLLOUT_KEY"


@pytest.fixture
def prepared(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Preparation:
    """A run that needs a secret and sets a variable, in an environment that `uv` has made."""
    for name, value in workspace.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(SECRET, raising=False)
    workspace.write_config(secrets=[SECRET])
    workspace.config.write_text(workspace.config.read_text() + '\n[env]\nCOLOUR = "blue"\n')
    (workspace.project / "main.py").write_text(f"import os; open('ran', 'w').write(os.environ[{ARTIFACT_ROOT_ENV!r}])\n")
    leave_stamp(workspace.project, os.environ, find_uv())
    request = RunRequest(config_path=workspace.config, working_directory=workspace.root, dataset_file=workspace.dataset)
    return prepare(request, can_ask=True)


def test_it_waits_and_leaves_nothing(prepared: Preparation, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it will need in its environment; nothing of the rollout runs, and at the end there is no process."""
    monkeypatch.setenv(SECRET, "value-of-the-secret")
    leave_stamp(prepared.project, os.environ, find_uv())
    with early_standby(prepared) as standby:
        assert standby is not None
        group = standby.process.pid
        variables = environment_of(group)
        assert group_alive(group)
        assert variables.items() >= {SECRET: "value-of-the-secret", "COLOUR": "blue"}.items()
        assert LEAVE_ENV in variables
    assert not group_alive(group)
    assert not (prepared.project / "ran").exists()
    assert not prepared.directory.path.exists()


def test_it_goes_on_once_and_is_then_not_ended(prepared: Preparation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lets it go has it from then on."""
    monkeypatch.setenv(SECRET, "value-of-the-secret")
    leave_stamp(prepared.project, os.environ, find_uv())
    with early_standby(prepared) as standby:
        assert standby is not None
        assert standby.leave(prepared.directory.trials)
        assert not standby.leave(prepared.directory.trials)
    try:
        # It has no runner that reads what it says, and ends by itself: its entrypoint serves nothing.
        os.waitid(os.P_PID, standby.process.pid, os.WEXITED | os.WNOWAIT)
        assert (prepared.project / "ran").read_text() == str(prepared.directory.trials)
    finally:
        standby.process.end()


@pytest.mark.parametrize("reason", ["a secret is missing", "a secrets file is to be read", "uv has something to do"])
def test_where_more_has_to_be_known_it_does_not_begin(
    prepared: Preparation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str
) -> None:
    """The environment of a process cannot be changed once it has begun."""
    if reason != "a secret is missing":
        monkeypatch.setenv(SECRET, "value-of-the-secret")
    if reason == "uv has something to do":
        (prepared.project / "pyproject.toml").write_text((prepared.project / "pyproject.toml").read_text() + "\n# changed\n")
    if reason == "a secrets file is to be read":
        request = RunRequest(
            config_path=prepared.request.config_path,
            working_directory=prepared.workspace,
            dataset_file=prepared.request.dataset_file,
            secrets_file=str(tmp_path / "secrets.env"),
        )
        (tmp_path / "secrets.env").write_text(f"{SECRET}=another\n")
        prepared = prepare(request, can_ask=True)
    with early_standby(prepared) as standby:
        assert standby is None


WORDS = ["eval", "run", "configs/eval/echo.toml", "--dataset-file", "data/words.jsonl", "--name", "new"]


def test_a_process_that_is_ahead_is_taken_over(prepared: Preparation, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began while the command line was still to be understood, and nobody starts another one; it ends with the command."""
    monkeypatch.setenv(SECRET, "value-of-the-secret")
    monkeypatch.chdir(prepared.workspace)
    leave_stamp(prepared.project, os.environ, find_uv())
    before = children()
    with head_start(WORDS):
        ahead = children() - before
        assert len(ahead) == 1
        with early_standby(prepared) as standby:
            assert standby is not None
            assert {standby.process.pid} == ahead == children() - before
    assert not children() - before


def test_a_process_that_began_with_something_else_is_not_taken_over(
    prepared: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another environment needs another process; the one that is ahead ends with the command."""
    monkeypatch.setenv(SECRET, "value-of-the-secret")
    monkeypatch.chdir(prepared.workspace)
    leave_stamp(prepared.project, os.environ, find_uv())
    before = children()
    with head_start(WORDS):
        monkeypatch.setenv(SECRET, "another-value")
        with early_standby(prepared) as standby:
            assert standby is not None
            assert len(children() - before) == 2
    assert not children() - before


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "list"],
        ["eval", "run"],
        [*WORDS, "--help"],
        [*WORDS, "--output", "elsewhere"],
        [*WORDS, "--output=elsewhere"],
        [*WORDS, "--secrets-file", "-"],
        [*WORDS, "--retry-failed"],
        [*WORDS[:-1], "old"],
        [*WORDS[:-2], "--name=old"],
        ["eval", "run", "configs/eval/absent.toml"],
        ["eval", "run", "rollouts/echo/pyproject.toml"],
    ],
    ids=" ".join,
)
def test_nothing_is_ahead_of_what_is_no_new_run(
    prepared: Preparation, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Another command, a run that is there already, words that say too little, or a process that would need more."""
    monkeypatch.setenv(SECRET, "value-of-the-secret")
    monkeypatch.chdir(prepared.workspace)
    leave_stamp(prepared.project, os.environ, find_uv())
    (prepared.directory.output_root / "old").mkdir(parents=True)
    before = children()
    with head_start(words):
        assert not children() - before


def environment_of(pid: int) -> dict[str, str]:
    """What a process began with. Between the start of its program and the moment when that is laid out, nothing can be read."""
    while not (text := Path(f"/proc/{pid}/environ").read_text()):
        assert group_alive(pid)
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


def children() -> set[int]:
    """The processes that this one started and has not seen the end of. Those of earlier tests may go at any moment."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
