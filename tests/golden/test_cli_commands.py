"""Exact text of every command of the tree, well and badly ended, in every mode (issue 9, must-show 3).

What went well is rendered from records, without running anything; what went badly is said by the command itself, in a small
workspace, wherever a command line is enough to bring it about. Some commands are run for real as well, and must say the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from osmosis.pure.cassette import encode_cassette
from osmosis.pure.errors import OsmosisError
from osmosis.pure.metrics_file import EvalRunStatus, encode_metrics
from osmosis.pure.plan import encode_manifest
from osmosis.shell.cli.audit_result import audit_result
from osmosis.shell.cli.main import main
from osmosis.shell.cli.modes import Mode
from osmosis.shell.cli.output import Output
from osmosis.shell.cli.result import CommandResult
from tests.golden import test_analysis, test_cli_audit
from tests.golden.test_cli import SECRET, written
from tests.strategies.cli_commands import FAILED, FIRST, SECOND, SUCCEEDED
from tests.strategies.cli_records import manifest, metrics
from tests.strategies.cli_reports import WORKSPACE
from tests.strategies.cli_tree import COMMANDS, words

Golden = Callable[[str, bytes], None]


def audited(case: str) -> CommandResult:
    """What `eval verify` shows."""
    return audit_result(test_cli_audit.REPORTS[case], WORKSPACE, test_cli_audit.ARGV)


WELL: dict[str, CommandResult] = {
    **SUCCEEDED,
    "eval verify": audited("sound"),
    **{f"eval {case}": test_analysis.RESULTS[case]() for case in ("compare", "export", "report", "regrade")},
    "eval gate": test_analysis.RESULTS["gate_passed"](),
}
BADLY: dict[str, CommandResult | OsmosisError] = {
    **FAILED,
    "eval verify": audited("damaged"),
    "eval gate": test_analysis.RESULTS["gate_failed"](),
}
REFUSED: dict[str, str] = {
    "completion": "completion tcsh",
    "eval run": "eval run configs/eval/broken.toml",
    "eval list": "eval list --output data/sums.jsonl",
    "eval info": "eval info quiet-oter-12",
    "eval logs": "eval logs quiet-otter-12 --cursor 99",
    "eval open": "eval open quiet-oter-12",
    "eval verify": "eval verify absent",
    "eval compare": "eval compare quiet-otter-12 quiet-oter-12",
    "eval gate": "eval gate quiet-otter-12 --baseline quiet-oter-12",
    "eval export": "eval export quiet-oter-12 --format junit",
    "eval report": "eval report quiet-oter-12",
    "eval regrade": "eval regrade quiet-oter-12 --dataset-file data/sums.jsonl --name again",
    "eval rubric": "eval rubric --data absent.jsonl --rubric fair? --model openai/m",
    "rollout init": "rollout init sums",
    "rollout validate": "rollout validate absent",
    "rollout serve-loop": "rollout serve-loop --module golden_loop:bad --local",
    "rollout validate-loop": "rollout validate-loop --module golden_loop:bad",
    "cassette inspect": "cassette inspect damaged.jsonl",
    "cassette prune": "cassette prune absent.jsonl",
    "cassette diff": "cassette diff first.jsonl absent.jsonl",
}
REAL: dict[str, str] = {
    "cassette inspect": "cassette inspect first.jsonl",
    "cassette prune": "cassette prune first.jsonl --rows 0,2 --runs 1 --output part.jsonl",
    "cassette diff": "cassette diff first.jsonl second.jsonl",
}

CONFIG = """\
[experiment]
rollout = "sums"
entrypoint = "main.py"
modle_path = "openai/gpt-5-mini"

[evaluation]
n = 0
"""
LOOP = """\
from osmosis_ai import RolloutAgentLoop

class Bad(RolloutAgentLoop):
    name = "bad"
    def get_tools(self, request):
        return [5]
    async def run(self, ctx):
        return None

bad = Bad()
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a finished run, a broken config, cassettes, and an agent loop; it is the current directory."""
    for name in ("configs/eval", "configs/training", "rollouts/sums", "data", ".osmosis/evals/quiet-otter-12"):
        (tmp_path / name).mkdir(parents=True)
    run = tmp_path / ".osmosis/evals/quiet-otter-12"
    found = metrics(EvalRunStatus.FINISHED)
    (run / "manifest.json").write_bytes(encode_manifest(manifest()))
    (run / "metrics.json").write_bytes(encode_metrics(found.eval_run, found.summary))
    (run / "logs.txt").write_text("2026-11-30T16:05:04.000000Z INFO [run] one\n")
    (tmp_path / "configs/eval/broken.toml").write_text(CONFIG)
    (tmp_path / "data/sums.jsonl").write_text('{"user_prompt": "1 + 1?", "label": "2"}\n')
    (tmp_path / "first.jsonl").write_bytes(encode_cassette(FIRST))
    (tmp_path / "second.jsonl").write_bytes(encode_cassette(SECOND))
    (tmp_path / "damaged.jsonl").write_bytes(b"{}\n")
    (tmp_path / "golden_loop.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("OSMOSIS_DEBUG", raising=False)
    return tmp_path


def mode_flags(mode: Mode) -> list[str]:
    """The option that chooses the mode."""
    return [] if mode is Mode.RICH else [f"--{mode}"]


def transcript(code: int, out: str, err: str) -> bytes:
    """Everything that a caller gets to see."""
    return f"exit code {code}\n--- standard output\n{out}--- standard error\n{err}".encode()


def name_of(command: str, outcome: str, mode: Mode) -> str:
    """The golden file."""
    return f"commands/{command.replace(' ', '_')}.{outcome}.{mode}.txt"


def shown(result: CommandResult | OsmosisError, command: str, mode: Mode) -> tuple[int, str, str]:
    """Exit code and text of a record."""

    def show(output: Output) -> None:
        if isinstance(result, OsmosisError):
            output.failure(command, result)
        else:
            output.result(result)

    code = 1 if isinstance(result, OsmosisError) else int(result.exit_code)
    return (code, *written(mode, show, 80))


def harmless(mode: Mode, out: str, err: str) -> None:
    """No secret, no escape sequence; in JSON, one line on one of the two streams."""
    assert SECRET not in out + err
    assert "\x1b" not in out + err
    if mode is Mode.JSON:
        lines = (out + err).splitlines()
        assert [json.loads(line)["schema_version"] for line in lines] == [1]


def test_every_command_has_its_goldens() -> None:
    """A command that joins the tree brings a well and a badly ended outcome, each shown in every mode."""
    assert set(WELL) == set(COMMANDS)
    assert set(BADLY) | set(REFUSED) == set(COMMANDS)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("command", sorted(WELL))
def test_what_went_well(command: str, mode: Mode, golden: Golden) -> None:
    """The result is on standard output, nothing on standard error, and the exit code is 0."""
    code, out, err = shown(WELL[command], command, mode)
    golden(name_of(command, "well", mode), transcript(code, out, err))
    harmless(mode, out, err)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("command", sorted(BADLY))
def test_what_went_badly(command: str, mode: Mode, golden: Golden) -> None:
    """A result that is bad news is still on standard output; an error is on standard error; the exit code is not 0."""
    code, out, err = shown(BADLY[command], command, mode)
    golden(name_of(command, "badly", mode), transcript(code, out, err))
    harmless(mode, out, err)
    assert code != 0
    assert bool(err) == isinstance(BADLY[command], OsmosisError)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("command", sorted(REFUSED))
def test_what_was_refused(
    command: str, mode: Mode, workspace: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """The command itself: an error with a hint on standard error, standard output empty, and no exit code of 0."""
    assert words(command) == words(REFUSED[command])[: len(words(command))]
    code = main([*words(REFUSED[command]), *mode_flags(mode)])
    out, err = (text.replace(str(workspace), WORKSPACE) for text in capsys.readouterr())
    golden(name_of(command, "refused", mode), transcript(code, out, err))
    harmless(mode, out, err)
    assert code in (1, 2)
    assert out == ""
    if mode is Mode.JSON:
        document = json.loads(err)
        assert (document["command"], bool(document["error"]["hint"])) == (command, True)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("command", sorted(REAL))
def test_what_a_real_run_says(
    command: str, mode: Mode, workspace: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """The command over real files says what was rendered from the record, to the byte."""
    code = main([*words(REAL[command]), *mode_flags(mode)])
    out, err = (text.replace(str(workspace), WORKSPACE) for text in capsys.readouterr())
    golden(name_of(command, "well", mode), transcript(code, out, err))
