"""`osmosis eval logs NAME --follow`: beside a real run, from its first line to its last (issue 9)."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from osmosis.pure.log_page import parse_entry
from osmosis.shell.cli.main import main
from tests.integration.stub_model import StubModel
from tests.integration.workspaces import Command, Workspace, eventually


def logged(workspace: Workspace, name: str) -> list[str]:
    """The lines of a run's log."""
    return (workspace.run_directory(name) / "logs.txt").read_text().splitlines()


async def shown(running: Command, text: str) -> None:
    """Wait until standard output holds `text`."""
    await eventually(lambda: text in running.out or running.process.returncode is not None)
    assert text in running.out, running.err


@pytest.mark.slow
async def test_a_run_is_followed_to_its_end(workspace: Workspace, model: StubModel) -> None:
    """Programs get an event a line, people the lines: all that the run logs, once, in order; both end with the run, with 0."""
    workspace.write_rows("held one", "raise sk-test-0123456789")
    async with workspace.start("--name", "live", "--json") as running:
        await model.wait_calls(1)
        follow = ["eval", "logs", "live", "--follow", "--limit", "200"]
        async with (
            workspace.start(words=[*follow, "--json"]) as program,
            workspace.start(words=[*follow, "--plain"]) as person,
        ):
            await shown(program, "row 0 run 0")
            await shown(person, "row 0 run 0")
            assert "log.end" not in program.out
            model.release()
            assert (await running.end()).code == 0
            events, lines = await program.end(), await person.end()
    assert (events.code, events.err, lines.code, lines.err) == (0, "", 0, "")
    *entries, end = [json.loads(line) for line in events.out.splitlines()]
    assert [entry["event"] for entry in entries] == ["log.line"] * len(entries)
    assert (end["event"], end["data"]) == ("log.end", {"run_name": "live", "status": "finished", "lines": len(entries)})
    written = [parse_entry(line) for line in logged(workspace, "live")]
    assert [entry["data"]["message"] for entry in entries] == [entry.message for entry in written]
    assert [line.split("\t")[0] for line in lines.out.splitlines()] == [entry.timestamp for entry in written]
    assert "sk-test-0123456789" not in events.out + lines.out


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["--json", "--plain"])
async def test_following_can_be_interrupted(workspace: Workspace, model: StubModel, mode: str) -> None:
    """Ctrl-C ends the following, with 130, and not the run; a stream that was cut has no last event."""
    workspace.write_rows("held one")
    async with workspace.start("--name", "live", "--json") as running:
        await model.wait_calls(1)
        async with workspace.start(words=["eval", "logs", "live", "-f", mode]) as following:
            await shown(following, "row 0 run 0")
            following.signal(signal.SIGINT)
            ended = await following.end()
        assert ended.code == 130
        assert ('"INTERRUPTED"' in ended.err) if mode == "--json" else (ended.err == "Interrupted.\n")
        assert "log.end" not in ended.out
        model.release()
        assert (await running.end()).code == 0


ONE_LINE = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
child.stdout.readline()
child.stdout.close()
sys.exit(child.wait())
"""


@pytest.mark.slow
async def test_a_reader_that_went_away_ends_the_following(workspace: Workspace, model: StubModel) -> None:
    """`... --follow | head -1`: at the next line the command notices, ends and says nothing."""
    workspace.write_rows("held one", "echo two")
    words = ["eval", "logs", "live", "--follow", "--plain"]
    pipe = [sys.executable, "-c", ONE_LINE]
    async with workspace.start("--name", "live", "--json") as running:
        await model.wait_calls(1)
        async with workspace.start(words=words, wrapped=pipe) as following:
            model.release()
            ended = await following.end()
        assert (ended.code, ended.err) == (0, "")
        assert (await running.end()).code == 0


def stored(root: Path, text: str | None) -> Path:
    """A workspace with a run that nobody works on."""
    run = root / ".osmosis/evals/one"
    for directory in (root / "configs/eval", root / "rollouts", run):
        directory.mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    if text is not None:
        (run / "logs.txt").write_text(text)
    return run


def test_a_run_that_is_over_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its newest lines, an unfinished last one too, then the end; an absent log is an empty one."""
    run = stored(tmp_path, "one\ntwo\nthr")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "logs", "one", "--follow", "--limit", "1", "--plain"]) == 0
    assert [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()] == ["two", "thr"]
    os.unlink(run / "logs.txt")
    assert main(["eval", "logs", "one", "--follow", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["lines"] == 0


def test_a_page_and_a_stream_are_two_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--cursor looks back and --follow forward: both at once is a usage error."""
    stored(tmp_path, "one\n")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "logs", "one", "--follow", "--cursor", "3", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["message"] == "--follow and --cursor exclude each other."


def test_a_log_that_is_a_link_is_not_followed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run directory from somebody else cannot show files of this machine."""
    run = stored(tmp_path, None)
    (run / "logs.txt").symlink_to("/etc/hostname")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "logs", "one", "--follow", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "VALIDATION"
