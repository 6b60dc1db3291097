"""Bad input gets one clear message with its place, no traceback, and leaves no half-made run (issue 2, must show 5)."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Ended, Workspace

pytestmark = pytest.mark.slow


def refused(ended: Ended, workspace: Workspace, *texts: str, code: int = 1) -> None:
    """The command says each of `texts`, without a traceback, exits with `code`, and leaves nothing behind."""
    assert ended.code == code, ended.said
    for text in texts:
        assert text in ended.err, ended.err
    assert ended.err.count("Error:") == 1
    assert "Traceback" not in ended.said
    assert "Unexpected" not in ended.said
    assert workspace.nothing_left()


def typo(workspace: Workspace) -> list[str]:
    """A key that no section has."""
    workspace.config.write_text(workspace.config.read_text().replace("batch_size", "batchsize"))
    return workspace.arguments()


def wrong_types(workspace: Workspace) -> list[str]:
    """Two values of the wrong type."""
    workspace.config.write_text(
        workspace.config.read_text().replace("n = 1", 'n = "one"').replace('dataset = "words"', "dataset = 7")
    )
    return workspace.arguments()


def not_toml(workspace: Workspace) -> list[str]:
    """A section that is not closed."""
    workspace.config.write_text(workspace.config.read_text().replace("[secrets]", "[secrets"))
    return workspace.arguments()


def no_config(workspace: Workspace) -> list[str]:
    """A config that does not exist."""
    return ["eval", "run", "configs/eval/other.toml", "--dataset-file", "data/words.jsonl", "--yes"]


def no_dataset(workspace: Workspace) -> list[str]:
    """A dataset that does not exist."""
    return workspace.arguments(dataset="data/absent.jsonl")


def directory_as_dataset(workspace: Workspace) -> list[str]:
    """A directory in place of the dataset."""
    return workspace.arguments(dataset="data")


def ragged_csv(workspace: Workspace) -> list[str]:
    """Rows with too few and too many cells."""
    (workspace.root / "data" / "x.csv").write_text('user_prompt,ground_truth\na,b\nc\n"d\ne",f,g\n')
    return workspace.arguments(dataset="data/x.csv")


def several_bad_rows(workspace: Workspace) -> list[str]:
    """Three different faults in three rows."""
    lines = ['{"user_prompt": "a", "ground_truth": "b"}', '{"user_prompt": 7}', "not json", "[1]"]
    workspace.dataset.write_text("\n".join(lines) + "\n")
    return workspace.arguments()


def empty_dataset(workspace: Workspace) -> list[str]:
    """A dataset without rows."""
    workspace.dataset.write_text("")
    return workspace.arguments()


def backward_rows(workspace: Workspace) -> list[str]:
    """A range that ends before it begins."""
    return workspace.arguments("--rows", "9-3")


def rows_beyond_the_end(workspace: Workspace) -> list[str]:
    """A row that the dataset does not have."""
    return workspace.arguments("--rows", "0,9")


def no_rollout(workspace: Workspace) -> list[str]:
    """A rollout that does not exist."""
    workspace.config.write_text(workspace.config.read_text().replace('"echo"', '"other"'))
    return workspace.arguments()


def no_entrypoint(workspace: Workspace) -> list[str]:
    """A rollout without its entrypoint."""
    (workspace.project / "main.py").unlink()
    return workspace.arguments()


def missing_secret(workspace: Workspace) -> list[str]:
    """Two secrets that no source knows."""
    workspace.write_config(secrets=["FIRST_KEY", "SECOND_KEY"])
    return workspace.arguments()


def bad_secrets_file(workspace: Workspace) -> list[str]:
    """A line that is no assignment."""
    (workspace.root / "secrets").write_text("FIRST_KEY=ok\nnot a line\n")
    return workspace.arguments("--secrets-file", "secrets")


def no_secrets_file(workspace: Workspace) -> list[str]:
    """A secrets file that does not exist."""
    return workspace.arguments("--secrets-file", "absent")


def unspeakable_name(workspace: Workspace) -> list[str]:
    """A name that leads out of the output directory."""
    return workspace.arguments("--name", "../up")


def no_confirmation(workspace: Workspace) -> list[str]:
    """A question that nobody can answer."""
    return workspace.arguments(yes=False)


def no_cassette(workspace: Workspace) -> list[str]:
    """A cassette that does not exist."""
    return workspace.arguments("--replay", "absent.jsonl")


def bad_environment(workspace: Workspace) -> list[str]:
    """A value that no environment can hold."""
    with workspace.config.open("a") as config:
        config.write('\n[env]\nVALUE = "a\\u0000b"\n')
    return workspace.arguments()


def output_is_a_file(workspace: Workspace) -> list[str]:
    """A file in place of the output directory."""
    (workspace.root / "taken").write_text("")
    return workspace.arguments("--output", "taken")


def project_file_is_a_directory(workspace: Workspace) -> list[str]:
    """A directory in place of pyproject.toml."""
    (workspace.project / "pyproject.toml").unlink()
    (workspace.project / "pyproject.toml").mkdir()
    return workspace.arguments()


CASES: tuple[tuple[Callable[[Workspace], list[str]], tuple[str, ...]], ...] = (
    (typo, ("configs/eval/echo.toml:9", "batchsize")),
    (wrong_types, ("configs/eval/echo.toml:5", "configs/eval/echo.toml:8")),
    (not_toml, ("configs/eval/echo.toml:11",)),
    (no_config, ("configs/eval/other.toml",)),
    (no_dataset, ("data/absent.jsonl",)),
    (directory_as_dataset, ("data",)),
    (ragged_csv, ("x.csv:3", "x.csv:4")),
    (several_bad_rows, ("words.jsonl:2", "words.jsonl:3", "words.jsonl:4")),
    (empty_dataset, ("data/words.jsonl",)),
    (backward_rows, ("9-3",)),
    (rows_beyond_the_end, ("9",)),
    (no_rollout, ("rollouts/other",)),
    (no_entrypoint, ("rollouts/echo/main.py",)),
    (missing_secret, ("FIRST_KEY", "SECOND_KEY", "--secrets-file")),
    (bad_secrets_file, ("secrets:2",)),
    (no_secrets_file, ("absent",)),
    (unspeakable_name, ("../up",)),
    (no_confirmation, ("--yes",)),
    (no_cassette, ("absent.jsonl",)),
    (bad_environment, ("configs/eval/echo.toml", "VALUE")),
    (output_is_a_file, ("taken",)),
    (project_file_is_a_directory, ("pyproject.toml",)),
)


@pytest.mark.parametrize(("spoil", "texts"), CASES, ids=[spoil.__name__ for spoil, _ in CASES])
async def test_bad_input_is_one_clear_message(
    workspace: Workspace, spoil: Callable[[Workspace], list[str]], texts: tuple[str, ...]
) -> None:
    """Every wrong input is named with its place, and nothing is created."""
    refused(await workspace.run(words=["--plain", *spoil(workspace)]), workspace, *texts)


async def test_independent_problems_are_told_at_once(workspace: Workspace) -> None:
    """A wrong selection, a wrong name and a missing entrypoint come in one message."""
    (workspace.project / "main.py").unlink()
    ended = await workspace.run(words=["--plain", *workspace.arguments("--rows", "9-3", "--name", "a b")])
    refused(ended, workspace, "9-3", "a b", "main.py")


async def test_a_wrong_flag_is_a_usage_error(workspace: Workspace) -> None:
    """Usage errors exit with 2."""
    refused(await workspace.run("--plain", "--max-in-flight", "many"), workspace, "--max-in-flight", code=2)


async def test_an_entrypoint_that_raises_is_quoted(workspace: Workspace) -> None:
    """What the rollout's own Python said is quoted, and the run directory is gone again."""
    (workspace.project / "main.py").write_text("import nothing_of_that_name\n")
    ended = await workspace.run("--plain", "--name", "broken")
    assert ended.code == 1
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in ended.err
    assert "osmosis/shell/cli" not in ended.err
    assert workspace.nothing_left()


async def test_a_failed_sync_is_quoted(workspace: Workspace) -> None:
    """What uv said is quoted, and the run directory is gone again."""
    (workspace.project / "pyproject.toml").write_text('[project]\nname = "echo"\nversion = "?"\n')
    ended = await workspace.run("--plain", "--name", "broken")
    assert ended.code == 1
    assert "uv sync" in ended.err
    assert "pyproject.toml" in ended.err
    assert "Traceback" not in ended.err
    assert workspace.nothing_left()


@pytest.mark.parametrize("flag", ["--rollout-port", "--listener-port"])
async def test_a_port_that_is_taken_is_named(workspace: Workspace, flag: str) -> None:
    """Somebody else's port is named together with the flag that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = await workspace.run("--plain", flag, port)
    refused(ended, workspace, port, flag)


@pytest.mark.parametrize(
    ("base_url", "texts"),
    [
        ("http://127.0.0.1:9/v1", ("127.0.0.1:9",)),
        ("http://no-such-host.invalid/v1", ("no-such-host.invalid",)),
    ],
)
async def test_a_model_that_does_not_answer_stops_the_run(workspace: Workspace, base_url: str, texts: tuple[str, ...]) -> None:
    """A refused connection and an unknown host stop the run before anything is created."""
    # Where nobody answers questions about names, the system's resolver takes its time, unless it is told not to.
    hurry = "timeout:1 attempts:1"
    refused(await workspace.run("--plain", OPENAI_BASE_URL=base_url, RES_OPTIONS=hurry), workspace, *texts)


async def test_a_failed_fresh_start_keeps_the_earlier_run(workspace: Workspace, model: StubModel) -> None:
    """`--fresh` that cannot start leaves the earlier run where it was, byte for byte."""
    workspace.write_rows("echo one")
    assert (await workspace.run("--name", "kept")).code == 0
    before = {path: path.read_bytes() for path in workspace.run_directory("kept").rglob("*") if path.is_file()}
    (workspace.project / "main.py").write_text("import nothing_of_that_name\n")
    assert (await workspace.run("--name", "kept", "--fresh")).code == 1
    after = {path: path.read_bytes() for path in workspace.run_directory("kept").rglob("*") if path.is_file()}
    assert after == before
    assert {path.name for path in workspace.runs.iterdir()} == {".locks", "kept"}


PLAN = "Work Items"
"""A line of the plan: it promises that something will run."""


async def test_a_missing_key_is_told_with_everything_else_and_before_the_plan(workspace: Workspace) -> None:
    """The provider's variable, a secret and a missing entrypoint come in one message; no plan is shown for what cannot run."""
    workspace.write_config(secrets=["FIRST_KEY"])
    (workspace.project / "main.py").unlink()
    ended = await workspace.run("--plain", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    refused(ended, workspace, "OPENAI_API_KEY", "FIRST_KEY", "main.py")
    assert PLAN not in ended.said


async def test_a_missing_key_alone_keeps_its_own_code(workspace: Workspace) -> None:
    """A program can tell it from other errors, and still sees no plan."""
    ended = await workspace.run("--json", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert ended.code == 1
    assert json.loads(ended.err)["error"]["code"] == "AUTH_REQUIRED"
    refused(await workspace.run("--plain", OPENAI_API_KEY="", OPENAI_BASE_URL=""), workspace, "OPENAI_API_KEY")


async def test_a_key_that_is_a_required_secret_is_missing_once(workspace: Workspace) -> None:
    """The same variable is not told of twice, with two pieces of advice."""
    workspace.write_config(secrets=["OPENAI_API_KEY"])
    ended = await workspace.run("--plain", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    refused(ended, workspace, "OPENAI_API_KEY")
    assert ended.err.count("OPENAI_API_KEY") == 1


async def test_a_finished_run_needs_no_key_and_an_unfinished_one_asks_for_it_first(
    workspace: Workspace, model: StubModel
) -> None:
    """Looking at what is finished takes no credentials; what has work left is refused before its plan, and not changed."""
    workspace.write_rows("echo one", "raise two")
    assert (await workspace.run("--name", "kept")).code == 0
    before = {path: path.read_bytes() for path in workspace.run_directory("kept").rglob("*") if path.is_file()}
    assert (await workspace.run("--name", "kept", OPENAI_API_KEY="", OPENAI_BASE_URL="")).code == 0
    ended = await workspace.run("--plain", "--name", "kept", "--retry-failed", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert ended.code == 1
    assert "OPENAI_API_KEY" in ended.err
    assert PLAN not in ended.said
    after = {path: path.read_bytes() for path in workspace.run_directory("kept").rglob("*") if path.is_file()}
    assert after == before
